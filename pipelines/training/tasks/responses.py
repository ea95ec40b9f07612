"""Response generation on Persona-Chat (Zhang et al. 2018), as in Li et al. (2022), section 5.3.

A record is one dialogue with its persona, so that one person's conversation is one unit of privacy. The papers' code
makes a record of every reply, and a dialogue has many. The loss is on the replies of the speaker who has the persona.
``corpus.format = "personachat"`` gives the speakers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch

from pipelines.context import Progress
from pipelines.training.data.control import ControlTokens
from pipelines.training.data.held_out import HeldOut
from pipelines.training.data.row_store import RecordRows
from pipelines.training.data.task_examples import Example
from pipelines.training.data.vocabulary import TextEncoder
from pipelines.training.tasks.base import GeneratingTask, TaskModel, TaskScores
from pipelines.training.tasks.dialogue import dialogue_example, turns_of
from pipelines.training.tasks.spec import TaskSettings

PERSONAS: Final = ("PERSONA", "PARTNER_PERSONA")
SELF: Final = "SELF"


@dataclass(frozen=True, kw_only=True)
class ReplyPrompt:
    """Prompt of a reply, and the reply.

    Attributes:
        ids: persona, as much of the latest history as fits, and the speaker's token.
        reference: reply in the dialogue.
    """

    ids: list[int]
    reference: str


def reply_prompts(
    record: RecordRows, encoder: TextEncoder, control: ControlTokens, context_length: int, max_new_tokens: int
) -> list[ReplyPrompt]:
    """Returns a prompt for each reply. If the context is short, the oldest turns go and the persona stays."""
    turns = turns_of(record, control)
    encoded = [[*turn.marks, *ids, control.eos] for turn, ids in zip(turns, encoder.ids(record.texts), strict=True)]
    start, _ = control.around(starts=record.starts, ends=False)
    room = context_length - max_new_tokens - len(start) - max(len(turn.marks) for turn in turns)
    personas = [ids for ids, turn in zip(encoded, turns, strict=True) if turn.speaker in PERSONAS]
    about = [token for ids in personas for token in ids][: max(0, room)]
    said = [(turn, ids) for turn, ids in zip(turns, encoded, strict=True) if turn.speaker not in PERSONAS]
    prompts = []
    for at, (turn, _) in enumerate(said):
        if turn.speaker == SELF:
            history = _latest([ids for _, ids in said[:at]], room - len(about))
            prompts.append(ReplyPrompt(ids=[*start, *about, *history, *turn.marks], reference=turn.text))
    return prompts


def _latest(turns: list[list[int]], room: int) -> list[int]:
    kept: list[int] = []
    for turn in reversed(turns):
        if len(kept) + len(turn) > room:
            break
        kept = [*turn, *kept]
    return kept


class Responses(GeneratingTask):
    """Dialogues in which replies are targets, with scores of generated replies."""

    def example(self, record: RecordRows) -> Example:
        """Returns the example of one dialogue. Replies and their ends are targets."""
        vocabulary = self.vocabulary
        return dialogue_example(
            record, vocabulary.encoder, vocabulary.control, self.context_length, learn_speakers=(SELF,)
        )

    def scores(self, model: torch.nn.Module, held_out: HeldOut, progress: Progress) -> TaskScores:
        """Returns F1 and other scores of one reply to each history."""
        vocabulary, length = self.vocabulary, self.settings.max_new_tokens
        prompts = [
            (prompt.ids, (prompt.reference,))
            for record in held_out.rows
            for prompt in reply_prompts(record, vocabulary.encoder, vocabulary.control, self.context_length, length)
        ]
        return self._generated(model, prompts, progress)


def make_task(model: TaskModel, settings: TaskSettings) -> Responses:
    """Makes the task for a model."""
    return Responses(model, settings)
