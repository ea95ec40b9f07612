"""Logits of a model for a batch, and the loss of each example."""

from __future__ import annotations

from typing import Any

import torch

from pipelines.dp.language import has_prefix, output_losses
from pipelines.training.data.records import ExampleBatch


def logits_of(model: torch.nn.Module, batch: ExampleBatch) -> torch.Tensor:
    """Returns (B, T, V) logits of a language model, or (B, C) of a classifier."""
    logits: torch.Tensor = model(**_inputs(model, batch)).logits
    return logits


def example_losses(model: torch.nn.Module, batch: ExampleBatch) -> torch.Tensor:
    """Returns (B,) mean cross-entropy over each example's targets. 0 for an example without targets."""
    return output_losses(model, _inputs(model, batch), batch.labels, batch.weights)


def _inputs(model: torch.nn.Module, batch: ExampleBatch) -> dict[str, Any]:
    inputs: dict[str, Any] = dict(batch.model_inputs())
    if has_prefix(model):
        inputs.pop("position_ids", None)  # the prefix shifts positions, so the model counts them itself
    if batch.attention_mask is None:
        inputs["use_cache"] = False  # causal models would cache keys and values in vain
    return inputs
