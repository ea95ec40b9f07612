"""Interface between tasks and the train stage: encoding of records, their loss, and scores of a model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from pipelines.artifacts import Target
from pipelines.context import Progress
from pipelines.corpus.records import PAIR
from pipelines.mask import MASK
from pipelines.tables import TableWriter
from pipelines.training.data.held_out import Encoder, HeldOut
from pipelines.training.data.records import ExampleBatch, Examples, IntArray, Padding
from pipelines.training.data.row_store import RecordRows, StoredRecords
from pipelines.training.data.task_examples import Example, write_examples
from pipelines.training.data.vocabulary import Vocabulary
from pipelines.training.models.loading import LoadedModel
from pipelines.training.models.losses import example_losses
from pipelines.training.scoring.evaluation import Evaluation, evaluate
from pipelines.training.scoring.generation import BeamSearch, generate
from pipelines.training.scoring.text_metrics import bert_score, score_texts
from pipelines.training.tasks.spec import GenerationSettings, TaskSettings


@dataclass(frozen=True, kw_only=True)
class TaskModel:
    """Facts about the model that a task needs.

    Attributes:
        vocabulary: vocabulary of the model.
        context_length: longest record, in tokens.
        loaded: pretrained model. None for a model from scratch.
    """

    vocabulary: Vocabulary
    context_length: int
    loaded: LoadedModel | None = None


class Generated(NamedTuple):
    """A text that a model wrote for one held-out input.

    Attributes:
        given: input of the model, with its control tokens.
        text: text that the model wrote.
        references: texts that people wrote.
    """

    given: str
    text: str
    references: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class TaskScores:
    """Scores of a finished model, besides its evaluation.

    Attributes:
        figures: scores by name, as JSON values. May be empty.
        texts: generated texts that were scored.
    """

    figures: Mapping[str, Any] = field(default_factory=dict)
    texts: Sequence[Generated] = ()

    def write_texts(self, writer: TableWriter) -> None:
        """Fills the table ``generated``, with no rows if the task generates nothing. Private: it quotes text."""
        for row in self.texts:
            writer.append(given=row.given, text=row.text, references=list(row.references))


class Task(Encoder, Protocol):
    """A task for one model. Its module has ``make_task(model, settings)``. The methods here are for language models."""

    def example_losses(self, model: torch.nn.Module, batch: ExampleBatch) -> torch.Tensor:
        """Returns (B,) the loss of each example, which depends on no other example."""
        return example_losses(model, batch)

    def evaluate(self, model: torch.nn.Module, held_out: HeldOut) -> Evaluation:
        """Scores a model quickly, after every epoch."""
        return evaluate(model, held_out)

    def scores(self, model: torch.nn.Module, held_out: HeldOut, progress: Progress) -> TaskScores:
        """Returns further scores of the finished model, such as those of text that it generates."""
        del model, held_out, progress
        return TaskScores()


class LanguageTask(Task, ABC):
    """Base class of tasks for causal language models. A subclass turns a record into an example.

    Args:
        model: facts about the model.
    """

    def __init__(self, model: TaskModel) -> None:
        self.vocabulary, self.context_length = model.vocabulary, model.context_length
        self.padding = Padding(pad=model.vocabulary.control.pad)

    @abstractmethod
    def example(self, record: RecordRows) -> Example:
        """Returns the example of one record."""

    def encode(
        self, stored: StoredRecords, chosen: IntArray, scratch: Target, name: str, *, marked: bool = False
    ) -> Examples:
        """Implements `Encoder.encode`. Only Selective-DP marks tokens, and it has no such task."""
        assert not marked  # noqa: S101
        examples = (self.example(stored[int(record)]) for record in chosen)
        return write_examples(examples, self.padding, scratch, name)

    def encode_held_out(
        self, stored: StoredRecords, chosen: IntArray, scratch: Target, *, marked: bool = False
    ) -> HeldOut:
        """Implements `Encoder.encode_held_out`."""
        return HeldOut(
            records=self.encode(stored, chosen, scratch, "held_out", marked=marked),
            documents=stored.document_numbers[chosen],
            num_available=len(stored),
            rows=[stored[int(record)] for record in chosen],
        )


class GeneratingTask(LanguageTask):
    """Base class of tasks whose generated text is scored after training.

    Args:
        model: facts about the model.
        settings: settings of the generation.
    """

    def __init__(self, model: TaskModel, settings: TaskSettings) -> None:
        super().__init__(model)
        assert isinstance(settings, GenerationSettings)  # noqa: S101  # the task's spec says so
        self.settings = settings

    def _generated(
        self, model: torch.nn.Module, prompts: Sequence[tuple[list[int], Sequence[str]]], progress: Progress
    ) -> TaskScores:
        """Generates texts for prompts and scores them against each prompt's references."""
        chosen = list(prompts[: self.settings.max_generated])
        if not chosen:
            return TaskScores()
        how = BeamSearch(num_beams=self.settings.num_beams, max_new_tokens=self.settings.max_new_tokens)
        ids, references = [prompt for prompt, _ in chosen], [group for _, group in chosen]
        tokenizer = self.vocabulary.tokenizer
        texts = generate(model, tokenizer, ids, self.vocabulary.control, how, progress)
        figures = {**asdict(score_texts(texts, references)), "num_available": len(prompts)}
        if self.settings.bert_score_model is not None:
            progress(0, None, "computing BERTScore")
            figures |= bert_score(texts, references, self.settings.bert_score_model)
        given = [str(tokenizer.decode(prompt)) for prompt in ids]
        return TaskScores(figures=figures, texts=tuple(map(Generated, given, texts, references)))


def two_texts(text: str) -> tuple[str, str | None]:
    """Splits a row into its two texts. The second is None if the row was masked as a whole or holds one text."""
    first, separator, second = text.partition(PAIR)
    return first, second if separator else None


def is_all_mask(text: str) -> bool:
    """Returns true if a row is one mask: a later copy, or a row on which a policy failed."""
    return text.strip() == MASK


def has_targets(*records: Examples) -> bool:
    """Returns true if any record has a target."""
    return any(bool(np.any(part.num_targets > 0)) for part in records)
