"""Records of a prompt and an answer: ``<BOS> prompt <BOS> answer <EOS>``, with the loss on the answer only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipelines.training.data.control import ControlTokens
from pipelines.training.data.records import target_positions
from pipelines.training.data.task_examples import Example, causal_example


def prompt_ids(prompt: Sequence[int], control: ControlTokens, room: int) -> list[int]:
    """Encodes the prompt, at most ``room`` tokens. A longer prompt loses its end."""
    return [control.bos, *prompt[: room - 2], control.bos]


def prompted_example(
    prompt: Sequence[int], answer: Sequence[int], control: ControlTokens, context_length: int
) -> Example:
    """Returns an example whose loss is on the answer and its end only, without redaction masks in the answer.

    If prompt and answer do not both fit, the answer keeps at least half of the context and the prompt gets the rest.

    Args:
        prompt: ids of the prompt.
        answer: ids of the answer.
        control: control tokens.
        context_length: longest record, in tokens.
    """
    end = [*answer, control.eos]
    room = max(context_length - len(end), context_length // 2)
    given = prompt_ids(prompt, control, room)
    asked = target_positions(np.asarray([control.bos, *end], dtype=np.int64), control)[1:].tolist()
    example = causal_example([*given, *end], [False] * len(given) + asked, context_length)
    is_cut = example.is_cut or len(given) < len(prompt) + 2
    return Example(ids=example.ids, labels=example.labels, is_cut=is_cut)
