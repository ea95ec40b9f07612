"""Perplexity and next-token accuracy on held-out text."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from pipelines.training.corpus import HeldOut
from pipelines.training.model import token_losses
from pipelines.training.records import collate

_BATCH_TOKENS = 4_096


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What a model scores on held-out sentences; the scores are None when there is nothing to score.

    Attributes:
        perplexity: exp of the mean loss a token, over text tokens and the end token.
        perplexity_per_word: exp of the whole loss over (words split at white space + one end a sentence); it does
            not depend on the tokenizer, so it may be compared between tokenizers.
        loss: the mean loss a token, natural log.
        loss_standard_error: of ``loss``, with documents as clusters (sentences of a dialogue are not independent).
        next_token_accuracy: share of tokens that the model ranks first.
        num_sentences: sentences with at least one target.
        num_tokens: tokens scored.
        reason: why the scores are None, else None.
    """

    perplexity: float | None
    perplexity_per_word: float | None
    loss: float | None
    loss_standard_error: float | None
    next_token_accuracy: float | None
    num_sentences: int
    num_tokens: int
    reason: str | None

    def as_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return asdict(self)


def evaluate(model: torch.nn.Module, held_out: HeldOut) -> Evaluation:
    """Scores a model on held-out sentences, each on its own."""
    records = held_out.records
    rows = np.flatnonzero(records.num_targets > 0)
    if len(rows) == 0:
        return Evaluation(
            perplexity=None,
            perplexity_per_word=None,
            loss=None,
            loss_standard_error=None,
            next_token_accuracy=None,
            num_sentences=0,
            num_tokens=0,
            reason="no held-out sentence has a token to predict",
        )
    rows = rows[np.argsort(records.ids.lengths[rows], kind="stable")]
    losses = np.zeros(len(rows))
    num_right = 0
    first = next(model.parameters())
    start = 0
    with torch.no_grad():
        while start < len(rows):
            stop = start + max(1, _BATCH_TOKENS // int(records.ids.lengths[rows[start]]))
            batch = collate(records, rows[start:stop]).to(first.device, first.dtype)
            logits: torch.Tensor = model(input_ids=batch.inputs, use_cache=False).logits
            is_target = batch.weights > 0
            nll = torch.where(is_target, token_losses(logits, batch.labels), 0.0)
            losses[start:stop] = nll.double().sum(dim=1).cpu().numpy()
            num_right += int(((logits.argmax(dim=-1) == batch.labels) & is_target).sum())
            start = stop
    num_tokens = int(records.num_targets[rows].sum())
    mean = float(losses.sum() / num_tokens)
    words = int(held_out.num_words[rows].sum())
    return Evaluation(
        perplexity=_exp(mean),
        perplexity_per_word=_exp(float(losses.sum()) / words),
        loss=mean,
        loss_standard_error=_standard_error(losses, records.num_targets[rows], held_out.documents[rows], mean),
        next_token_accuracy=num_right / num_tokens,
        num_sentences=len(rows),
        num_tokens=num_tokens,
        reason=None,
    )


def _exp(value: float) -> float | None:
    return math.exp(value) if value < 700 else None


def _standard_error(losses: np.ndarray, tokens: np.ndarray, documents: np.ndarray, mean: float) -> float | None:
    """Linearised (delta-method) standard error of a ratio of sums, with clusters; None for fewer than two."""
    residuals = np.bincount(documents, weights=losses - mean * tokens)
    num_clusters = len(np.unique(documents))
    if num_clusters < 2:
        return None
    spread = float((residuals**2).sum()) * num_clusters / (num_clusters - 1)
    return math.sqrt(spread) / float(tokens.sum())
