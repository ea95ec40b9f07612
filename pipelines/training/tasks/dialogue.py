"""Dialogues for a model that takes turns: each turn begins with its speaker's token and ends with the end token."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from pipelines.training.data.control import ControlTokens
from pipelines.training.data.records import target_positions
from pipelines.training.data.row_store import RecordRows
from pipelines.training.data.task_examples import Example, causal_example
from pipelines.training.data.vocabulary import TextEncoder
from pipelines.training.tasks.base import LanguageTask, TaskModel
from pipelines.training.tasks.spec import TaskSettings


class DialogueTurn(NamedTuple):
    """A turn of a dialogue.

    Attributes:
        speaker: name of the speaker.
        text: text of the turn.
        marks: control tokens before the turn.
    """

    speaker: str | None
    text: str
    marks: list[int]


def turns_of(record: RecordRows, control: ControlTokens) -> list[DialogueTurn]:
    """Returns the turns of a record."""
    rows = zip(record.speakers, record.texts, record.domains, strict=True)
    return [DialogueTurn(speaker, text, control.before_turn(speaker, domain)) for speaker, text, domain in rows]


def dialogue_example(
    record: RecordRows,
    encoder: TextEncoder,
    control: ControlTokens,
    context_length: int,
    *,
    learn_speakers: Iterable[str] | None = None,
) -> Example:
    """Encodes ``<BOS>``, then ``[domain] [speaker] text <EOS>`` for each turn.

    Unlike in a record of plain language modelling (`pipelines.training.data.records.Frame`), each turn ends with the
    end token, so that a model can write one turn and stop. If conversations have tokens, they come after ``<BOS>`` and
    at the very end, the latter as a part of the last turn. Speakers, domains and the start are inputs, not targets. A
    dialogue longer than the context keeps its first tokens.
    """
    learnt = None if learn_speakers is None else set(learn_speakers)
    turns = turns_of(record, control)
    ids, (*last, _) = control.around(starts=record.starts, ends=record.ends)
    is_target = [False] * len(ids)
    ends = [[control.eos]] * (len(turns) - 1) + [[control.eos, *last]]
    for (speaker, _, marks), end, text_ids in zip(turns, ends, encoder.ids(record.texts), strict=True):
        turn = [*marks, *text_ids, *end]
        asked = [False] * len(turn)
        if learnt is None or speaker in learnt:
            # `bos` takes the place of the first token, which is never a target.
            asked = target_positions(np.asarray([control.bos, *turn], dtype=np.int64), control)[1:].tolist()
        ids += turn
        is_target += asked
    return causal_example(ids, is_target, context_length)


class Dialogue(LanguageTask):
    """Dialogues in which every turn is a target."""

    def example(self, record: RecordRows) -> Example:
        """Returns the example of one dialogue."""
        vocabulary = self.vocabulary
        return dialogue_example(record, vocabulary.encoder, vocabulary.control, self.context_length)


def make_task(model: TaskModel, settings: TaskSettings) -> Dialogue:
    """Makes the task for a model."""
    del settings
    return Dialogue(model)
