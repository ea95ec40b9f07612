"""Perplexity and accuracy on held-out text, by token and by word, and perplexity on text that the policy calls secret.

You may compare ``bits_per_byte``, ``perplexity_per_word`` and ``next_word_accuracy`` between tokenizers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch

from pipelines.dp.language import token_losses
from pipelines.training.data.alignment import bits_per_byte, right_words
from pipelines.training.data.held_out import HeldOut
from pipelines.training.data.records import ExampleBatch, IntArray
from pipelines.training.data.task_examples import TaskRecords
from pipelines.training.models.losses import logits_of

_BATCH_TOKENS = 4_096

REASONS: Final = {
    "no_token": "no held-out sentence has a token to predict",
    "no_label": "no held-out row has a label",
    "classification": "a classification has none",
}
"""Reasons for a missing perplexity, for the report."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Scores of a model on held-out sentences. A score is None if there is nothing to score.

    Attributes:
        perplexity: exponential of the mean loss per token, over text tokens and the end token.
        perplexity_per_word: exponential of the total loss over (words split at white space + one end per sentence). It
            does not depend on the tokenizer, so it may be compared between tokenizers.
        bits_per_byte: total loss in bits over (bytes of UTF-8 of the targets + one for each end). It is as comparable
            as ``perplexity_per_word``, and readable if words are made of many tokens.
        loss: mean loss per token, or per row in a classification, natural log.
        loss_standard_error: standard error of ``loss``, with documents as clusters (sentences of a dialogue are not
            independent).
        next_token_accuracy: share of tokens that the model ranks first.
        next_word_accuracy: share of words (split at white space) that the model would write next, whole. See
            `alignment.right_words`.
        private_perplexity: exponential of the mean loss over tokens inside what the policy found. None if no policy was
            applied, or it found nothing.
        accuracy: share of rows whose class has the highest score, in a classification.
        accuracy_standard_error: standard error of ``accuracy``, with rows taken for independent.
        accuracy_by_class: accuracy among the rows of each class that occurs, by the class's name.
        num_words: number of words in ``next_word_accuracy``.
        num_private_tokens: number of tokens in ``private_perplexity``.
        num_sentences: number of sentences with at least one target.
        num_tokens: number of scored tokens.
        reason: reason why there is no perplexity, or None.
    """

    perplexity: float | None = None
    perplexity_per_word: float | None = None
    loss: float | None = None
    loss_standard_error: float | None = None
    next_token_accuracy: float | None = None
    bits_per_byte: float | None = None
    next_word_accuracy: float | None = None
    private_perplexity: float | None = None
    accuracy: float | None = None
    accuracy_standard_error: float | None = None
    accuracy_by_class: dict[str, float] | None = None
    num_sentences: int = 0
    num_tokens: int = 0
    num_words: int = 0
    num_private_tokens: int = 0
    reason: str | None


class ScoredRecord(NamedTuple):
    """Scores of a model on one record. The first token has no score, because nothing comes before it.

    Attributes:
        number: number of the record.
        losses: (T,) loss of each token, 0 for a token that is no target.
        is_right: (T,) true for a target that is ranked first.
        is_target: (T,) true for a target.
        right_words: (W,) true for a right word. Empty if words are not known.
        asked_words: (W,) true for a word whose tokens are targets.
    """

    number: int
    losses: npt.NDArray[np.float64]
    is_right: npt.NDArray[np.bool_]
    is_target: npt.NDArray[np.bool_]
    right_words: npt.NDArray[np.bool_]
    asked_words: npt.NDArray[np.bool_]


def score_records(model: torch.nn.Module, held_out: HeldOut) -> Iterator[ScoredRecord]:
    """Scores each record that has targets, separately, the shortest first."""
    records = held_out.records
    rows = np.flatnonzero(records.num_targets > 0)
    rows = rows[np.argsort(records.ids.lengths[rows], kind="stable")]
    first = next(model.parameters())
    nothing, num_outputs = np.zeros(0, dtype=np.bool_), records.num_outputs
    start = 0
    while start < len(rows):
        stop = start + max(1, _BATCH_TOKENS // int(records.ids.lengths[rows[start]]))
        batch = records.collate(rows[start:stop]).to(first.device, first.dtype)
        with torch.no_grad():
            best, nll = _scores(model, batch)
        is_target = batch.weights.cpu().numpy() > 0
        nll = np.where(is_target, nll, 0.0)
        is_right = (best == batch.labels.cpu().numpy()) & is_target
        for at, row in enumerate(rows[start:stop]):
            # Output t is about token t + 1, and no output is about the first token.
            outputs = slice(0, int(num_outputs[row]))
            right, target = np.append(False, is_right[at, outputs]), np.append(False, is_target[at, outputs])
            words = nothing, nothing
            if held_out.word_of_token is not None and held_out.starts_word is not None:
                then = np.append(np.take(held_out.starts_word, best[at, outputs], mode="clip"), False)
                words = right_words(np.asarray(held_out.word_of_token[int(row)]), right, target, then)
            yield ScoredRecord(int(row), np.append(0.0, nll[at, outputs]), right, target, *words)
        start = stop


def evaluate(model: torch.nn.Module, held_out: HeldOut) -> Evaluation:
    """Scores a model on held-out sentences, each separately."""
    records = held_out.records
    rows = np.flatnonzero(records.num_targets > 0)
    if len(rows) == 0:
        return Evaluation(reason=REASONS["no_token"])
    all_losses = np.zeros(len(records.num_targets))
    num_right = num_right_word = num_words = num_private = num_bytes = 0
    private_loss = 0.0
    for scored in score_records(model, held_out):
        all_losses[scored.number] = scored.losses.sum()
        num_right += int(scored.is_right.sum())
        num_right_word += int(scored.right_words.sum())
        num_words += int(scored.asked_words.sum())
        if held_out.places is not None:
            place = np.asarray(held_out.places[scored.number]).reshape(-1, 4)
            num_bytes += int(np.where(place[:, 0] < 0, 1, place[:, 3])[scored.is_target].sum())  # an end is no text
        if records.is_private is not None:
            secret = (np.asarray(records.is_private[scored.number]) > 0) & scored.is_target
            private_loss += float(scored.losses[secret].sum())
            num_private += int(secret.sum())
    losses = all_losses[rows]
    num_tokens = int(records.num_targets[rows].sum())
    mean = float(losses.sum() / num_tokens)
    num_words_and_ends = None if held_out.num_words is None else int(held_out.num_words[rows].sum())
    return Evaluation(
        perplexity=_exp(mean),
        perplexity_per_word=_exp(float(losses.sum()) / num_words_and_ends) if num_words_and_ends else None,
        bits_per_byte=bits_per_byte(float(losses.sum()), num_bytes),
        loss=mean,
        loss_standard_error=_standard_error(losses, records.num_targets[rows], held_out.documents[rows], mean),
        next_token_accuracy=num_right / num_tokens,
        next_word_accuracy=num_right_word / num_words if num_words else None,
        private_perplexity=_exp(private_loss / num_private) if num_private else None,
        num_sentences=len(rows),
        num_tokens=num_tokens,
        num_words=num_words,
        num_private_tokens=num_private,
        reason=None,
    )


def _scores(model: torch.nn.Module, batch: ExampleBatch) -> tuple[IntArray, npt.NDArray[np.float64]]:
    """Returns (B, T) the id ranked first at each output, and (B, T) the loss of its label."""
    logits = logits_of(model, batch)
    nll = token_losses(logits, batch.labels)
    return logits.argmax(dim=-1).cpu().numpy(), nll.double().cpu().numpy()


class ClassScorer(Protocol):
    """Interface of a task that scores classes, such as `pipelines.training.tasks.infilling.Infilling`."""

    classes: tuple[str, ...]

    def class_logits(self, model: torch.nn.Module, batch: ExampleBatch) -> torch.Tensor:
        """Returns (B, C) the scores of the classes."""
        ...


def evaluate_classes(model: torch.nn.Module, task: ClassScorer, records: TaskRecords) -> Evaluation:
    """Scores a classifier on labelled examples. Examples without a label are left out."""
    rows = np.flatnonzero(records.classes >= 0)
    rows = rows[np.argsort(records.ids.lengths[rows], kind="stable")[::-1]]
    if len(rows) == 0:
        return Evaluation(reason=REASONS["no_label"])
    first = next(model.parameters())
    is_right, loss, start = np.zeros(len(rows), dtype=np.bool_), 0.0, 0
    with torch.no_grad():
        while start < len(rows):
            stop = start + max(1, _BATCH_TOKENS // int(records.ids.lengths[rows[start]]))
            batch = records.collate(rows[start:stop]).to(first.device, first.dtype)
            scores = task.class_logits(model, batch).double().cpu()
            truth = torch.from_numpy(records.classes[rows[start:stop]])
            is_right[start:stop] = (scores.argmax(dim=1) == truth).numpy()
            loss += float(torch.nn.functional.cross_entropy(scores, truth, reduction="sum"))
            start = stop
    accuracy = float(is_right.mean())
    truth_of_rows = records.classes[rows]
    by_class = {
        name: float(is_right[truth_of_rows == number].mean())
        for number, name in enumerate(task.classes)
        if (truth_of_rows == number).any()
    }
    return Evaluation(
        reason=REASONS["classification"],
        loss=loss / len(rows),
        accuracy=accuracy,
        accuracy_standard_error=math.sqrt(accuracy * (1 - accuracy) / len(rows)),
        accuracy_by_class=by_class,
        num_sentences=len(rows),
    )


def _exp(value: float) -> float | None:
    return math.exp(value) if value < 700 else None


def _standard_error(losses: np.ndarray, tokens: np.ndarray, documents: np.ndarray, mean: float) -> float | None:
    """Returns the linearised (delta-method) standard error of a ratio of sums, with clusters, or None for one."""
    residuals = np.bincount(documents, weights=losses - mean * tokens)
    num_clusters = len(np.unique(documents))
    if num_clusters < 2:
        return None
    spread = float((residuals**2).sum()) * num_clusters / (num_clusters - 1)
    return math.sqrt(spread) / float(tokens.sum())
