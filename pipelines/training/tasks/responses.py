"""Response generation on Persona-Chat (Zhang et al. 2018), as in Li et al. (2022), section 5.3.

A record is one dialogue with its persona, so that one person's conversation is one unit of privacy. The papers' code
makes a record of every reply, and a dialogue has many. The loss is on the replies of the speaker who has the persona.
``corpus.format = "personachat"`` gives the speakers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from pipelines.context import Progress
from pipelines.training.data.control import ControlTokens
from pipelines.training.data.held_out import HeldOut
from pipelines.training.data.records import ExampleBatch
from pipelines.training.data.row_store import RecordRows
from pipelines.training.data.task_examples import IGNORED, Example, causal_example
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
        """Returns F1 and other scores of one reply to each history, and hits@1 if there are distractors."""
        vocabulary, length = self.vocabulary, self.settings.max_new_tokens
        prompts = [
            (number, prompt)
            for number, record in enumerate(held_out.rows)
            for prompt in reply_prompts(record, vocabulary.encoder, vocabulary.control, self.context_length, length)
        ]
        found = self._generated(model, [(prompt.ids, (prompt.reference,)) for _, prompt in prompts], progress)
        if not found.texts or not self.settings.num_distractors:
            return found
        return replace(found, figures={**found.figures, **self._ranked(model, prompts, progress)})

    def _ranked(
        self, model: torch.nn.Module, prompts: Sequence[tuple[int, ReplyPrompt]], progress: Progress
    ) -> dict[str, Any]:
        """Returns hits@1: the share of prompts after which the real reply is likelier than all distractors.

        As in ConvAI2 (Dinan et al. 2019), distractors are replies of other dialogues. They are drawn by the number of
        the prompt. Replies are compared by the mean loss of their tokens and end, as ParlAI ranks candidates.
        """
        num, by_text = self.settings.num_distractors, defaultdict(set)
        for number, prompt in prompts:
            by_text[prompt.reference].add(number)
        num_hits, chosen = 0, prompts[: self.settings.max_generated]
        for at, (number, prompt) in enumerate(chosen):
            others = [text for text, dialogues in by_text.items() if number not in dialogues]
            if len(others) < num:
                reason = f"a dialogue has {len(others)} replies of others, and train.num_distractors is {num}"
                return {"hits_at_1": None, "num_distractors": num, "hits_at_1_reason": reason}
            drawn = np.random.default_rng(at).choice(len(others), num, replace=False)
            losses = self._reply_losses(model, prompt.ids, [prompt.reference, *(others[i] for i in drawn)])
            num_hits += bool(losses[0] < losses[1:].min())
            progress(at + 1, len(chosen), "ranking replies")
        return {"hits_at_1": num_hits / len(chosen), "num_distractors": num}

    def _reply_losses(self, model: torch.nn.Module, prompt: Sequence[int], replies: Sequence[str]) -> torch.Tensor:
        """Returns (B,) the mean loss of the tokens of each reply to one prompt, its end included."""
        control = self.vocabulary.control
        examples = [
            causal_example(
                [*prompt, *ids, control.eos], [False] * len(prompt) + [True] * (len(ids) + 1), self.context_length
            )
            for ids in self.vocabulary.encoder.ids(replies)
        ]
        first = next(model.parameters())
        inputs = pad_sequence([torch.tensor(example.ids) for example in examples], True, control.pad)
        labels = pad_sequence([torch.tensor(example.labels) for example in examples], True, IGNORED)
        asked = labels != IGNORED
        weights = asked / asked.sum(dim=1, keepdim=True)
        batch = ExampleBatch(inputs=inputs, labels=labels.clamp(min=0), weights=weights)
        with torch.no_grad():
            return self.example_losses(model, batch.to(first.device, first.dtype))


def make_task(model: TaskModel, settings: TaskSettings) -> Responses:
    """Makes the task for a model."""
    return Responses(model, settings)
