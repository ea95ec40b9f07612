"""A given part and an asked-for part in one record: ``<BOS> prompt <BOS> answer <EOS>``; the loss is on the answer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipelines.training.data.control import ControlTokens
from pipelines.training.data.records import target_positions
from pipelines.training.data.task_examples import Example, causal_example


def prompt_ids(prompt: Sequence[int], control: ControlTokens, room: int) -> list[int]:
    """The given part, at most ``room`` tokens; a longer prompt loses its end."""
    return [control.bos, *prompt[: room - 2], control.bos]


def prompted_example(
    prompt: Sequence[int], answer: Sequence[int], control: ControlTokens, context_length: int
) -> Example:
    """An example whose loss is on the answer and its end only; redaction masks in the answer are not asked for.

    Where both do not fit, the answer keeps at least half of the context, and the prompt gets what is left.

    Args:
        prompt: what is given.
        answer: what is asked for.
        control: the control tokens.
        context_length: the longest record.
    """
    end = [*answer, control.eos]
    room = max(context_length - len(end), context_length // 2)
    given = prompt_ids(prompt, control, room)
    asked = target_positions(np.asarray([control.bos, *end], dtype=np.int64), control)[1:].tolist()
    example = causal_example([*given, *end], [False] * len(given) + asked, context_length)
    is_cut = example.is_cut or len(given) < len(prompt) + 2
    return Example(ids=example.ids, labels=example.labels, is_cut=is_cut)
