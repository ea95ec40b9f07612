"""Dialogues for a model that is to take turns: each begins with its speaker's token and ends with the end token."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from pipelines.training.models.vocabulary import TextEncoder
from pipelines.training.records import target_positions
from pipelines.training.rows import RecordRows
from pipelines.training.tasks.base import LanguageTask, TaskModel, TaskOptions
from pipelines.training.tasks.examples import Example, causal_example
from pipelines.training.tokenizer import ControlTokens

Turn = tuple[str | None, str]
"""Speaker and text."""


def turns_of(record: RecordRows) -> list[Turn]:
    """The turns of a record."""
    return list(zip(record.speakers, record.texts, strict=True))


def dialogue_example(
    turns: Sequence[Turn],
    encoder: TextEncoder,
    control: ControlTokens,
    context_length: int,
    *,
    learn_speakers: Iterable[str] | None = None,
) -> Example:
    """``<BOS>``, then ``[speaker] text <EOS>`` for each turn.

    Unlike in a record of plain language modelling (`encode_record`), each turn ends with the end token, so that a
    model can be asked for one turn and knows when to stop. Speakers are given, not asked for. The first tokens of a
    dialogue longer than the context are kept.

    Args:
        turns: speaker and text.
        encoder: text to ids.
        control: the control tokens.
        context_length: the longest record.
        learn_speakers: whose turns are asked for; None for everybody's.
    """
    learnt = None if learn_speakers is None else set(learn_speakers)
    ids, is_target = [control.bos], [False]
    texts = encoder.ids(text for _, text in turns)
    for (speaker, _), text_ids in zip(turns, texts, strict=True):
        turn = [*control.speaker(speaker), *text_ids, control.eos]
        asked = [False] * len(turn)
        if learnt is None or speaker in learnt:
            # The marker before the turn stands for its begin, which is never asked for.
            asked = target_positions(np.asarray([control.bos, *turn], dtype=np.int64), control)[1:].tolist()
        ids += turn
        is_target += asked
    return causal_example(ids, is_target, context_length)


class Dialogue(LanguageTask):
    """Every turn is asked for."""

    def example(self, record: RecordRows) -> Example:
        """One dialogue."""
        vocabulary = self.vocabulary
        return dialogue_example(turns_of(record), vocabulary.encoder, vocabulary.control, self.context_length)


def make_task(model: TaskModel, options: TaskOptions) -> Dialogue:
    """The task for that model."""
    return Dialogue(model, options)
