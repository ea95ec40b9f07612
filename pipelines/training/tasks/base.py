"""What every task offers the stage: records as a model reads them, their loss, and what a model scores on them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from pipelines.artifacts import Target
from pipelines.corpus.records import PAIR
from pipelines.mask import MASK
from pipelines.tables import TableWriter
from pipelines.training.data.held_out import HeldOut
from pipelines.training.data.records import ExampleBatch, Examples, IntArray, Padding
from pipelines.training.data.row_store import RecordRows, StoredRecords
from pipelines.training.data.task_examples import Example, write_examples
from pipelines.training.data.vocabulary import Vocabulary
from pipelines.training.models.loading import LoadedModel
from pipelines.training.models.losses import example_losses
from pipelines.training.scoring.evaluation import Evaluation, evaluate
from pipelines.training.scoring.generation import BeamSearch, generate
from pipelines.training.scoring.text_metrics import score_texts
from pipelines.training.tasks.spec import GenerationSettings, TaskSettings

Progress = Callable[[int, int | None, str], None]


@dataclass(frozen=True, kw_only=True)
class TaskModel:
    """What a task has to know of the model.

    Attributes:
        vocabulary: its vocabulary.
        context_length: the longest record.
        loaded: the model itself, where it was made elsewhere.
    """

    vocabulary: Vocabulary
    context_length: int
    loaded: LoadedModel | None = None


class Generated(NamedTuple):
    """What a model wrote for one held-out input.

    Attributes:
        given: what it read, control tokens written out.
        text: what it wrote.
        references: what people wrote.
    """

    given: str
    text: str
    references: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class TaskScores:
    """Scores of a finished model beside its evaluation.

    Attributes:
        figures: by name, as JSON values; empty where there are none.
        texts: what it wrote for them.
    """

    figures: Mapping[str, Any] = field(default_factory=dict)
    texts: Sequence[Generated] = ()

    def write_texts(self, writer: TableWriter) -> None:
        """Fills the table ``generated``; no rows for a task that generates nothing. Private: it quotes text."""
        for row in self.texts:
            writer.append(given=row.given, text=row.text, references=list(row.references))


class Task(Protocol):
    """A task with one model. Its module offers ``make_task(model, settings)``."""

    def encode(
        self, stored: StoredRecords, chosen: IntArray, scratch: Target, name: str, *, marked: bool = False
    ) -> Examples:
        """See `pipelines.training.data.held_out.Encoder`."""
        ...

    def encode_held_out(
        self, stored: StoredRecords, chosen: IntArray, scratch: Target, *, marked: bool = False
    ) -> HeldOut:
        """See `pipelines.training.data.held_out.Encoder`."""
        ...

    def example_losses(self, model: torch.nn.Module, batch: ExampleBatch) -> torch.Tensor:
        """(B,) the loss of each example, which depends on no other example."""
        ...

    def evaluate(self, model: torch.nn.Module, held_out: HeldOut) -> Evaluation:
        """Scores a model quickly: after every epoch."""
        ...

    def scores(self, model: torch.nn.Module, held_out: HeldOut, progress: Progress) -> TaskScores:
        """Further scores of the finished model, such as those of the text that it generates."""
        ...


class LanguageTask(ABC):
    """What tasks of causal language models have in common; a subclass turns a record into an example.

    Args:
        model: the model that it is for.
    """

    def __init__(self, model: TaskModel) -> None:
        self.vocabulary, self.context_length = model.vocabulary, model.context_length
        self.padding = Padding(pad=model.vocabulary.control.pad)

    @abstractmethod
    def example(self, record: RecordRows) -> Example:
        """One record as the model reads it."""

    def encode(
        self, stored: StoredRecords, chosen: IntArray, scratch: Target, name: str, *, marked: bool = False
    ) -> Examples:
        """See `Task`. Tokens are marked for the LSTM of Selective-DP alone, which has no such task."""
        assert not marked  # noqa: S101
        examples = (self.example(stored[int(record)]) for record in chosen)
        return write_examples(examples, self.padding, scratch, name)

    def encode_held_out(
        self, stored: StoredRecords, chosen: IntArray, scratch: Target, *, marked: bool = False
    ) -> HeldOut:
        """See `Task`."""
        return HeldOut(
            records=self.encode(stored, chosen, scratch, "held_out", marked=marked),
            documents=stored.document_numbers[chosen],
            num_available=len(stored),
            rows=[stored[int(record)] for record in chosen],
        )

    def example_losses(self, model: torch.nn.Module, batch: ExampleBatch) -> torch.Tensor:
        """See `Task`."""
        return example_losses(model, batch)

    def evaluate(self, model: torch.nn.Module, held_out: HeldOut) -> Evaluation:
        """See `Task`."""
        return evaluate(model, held_out)

    def scores(self, model: torch.nn.Module, held_out: HeldOut, progress: Progress) -> TaskScores:
        """See `Task`. None but the perplexity."""
        return TaskScores()


class GeneratingTask(LanguageTask):
    """A task whose text is generated, once the model is done, to be scored.

    Args:
        model: the model that it is for.
        settings: of the generation.
    """

    def __init__(self, model: TaskModel, settings: TaskSettings) -> None:
        super().__init__(model)
        assert isinstance(settings, GenerationSettings)  # noqa: S101  # as its spec says
        self.settings = settings

    def _generated(
        self, model: torch.nn.Module, prompts: Sequence[tuple[list[int], Sequence[str]]], progress: Progress
    ) -> TaskScores:
        """Scores of what a model says to prompts, each with its references."""
        chosen = list(prompts[: self.settings.max_generated])
        if not chosen:
            return TaskScores()
        how = BeamSearch(num_beams=self.settings.num_beams, max_new_tokens=self.settings.max_new_tokens)
        ids, references = [prompt for prompt, _ in chosen], [group for _, group in chosen]
        tokenizer = self.vocabulary.tokenizer
        texts = generate(model, tokenizer, ids, self.vocabulary.control, how, progress)
        figures = {**score_texts(texts, references).as_json(), "num_available": len(prompts)}
        given = [str(tokenizer.decode(prompt)) for prompt in ids]
        return TaskScores(figures=figures, texts=tuple(map(Generated, given, texts, references)))


def two_texts(text: str) -> tuple[str, str | None]:
    """The two texts of a row that holds a pair; a row that was masked as a whole, or is one text, has no second."""
    first, separator, second = text.partition(PAIR)
    return first, second if separator else None


def is_all_mask(text: str) -> bool:
    """Whether nothing of a row is left: a later copy, or one on which a policy failed."""
    return text.strip() == MASK


def has_targets(*records: Examples) -> bool:
    """Whether there is anything to learn."""
    return any(bool(np.any(part.num_targets > 0)) for part in records)
