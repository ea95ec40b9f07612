"""The loss of each example, and of each token."""

from __future__ import annotations

from typing import Any

import torch

from pipelines.training.model import token_losses
from pipelines.training.models.adaptation import has_prefix
from pipelines.training.records import Batch


def logits_of(model: torch.nn.Module, batch: Batch) -> torch.Tensor:
    """(B, T, V) of a language model, or (B, C) of a classifier."""
    inputs: dict[str, Any] = dict(batch.model_inputs())
    if has_prefix(model):
        inputs.pop("position_ids", None)  # the prefix shifts them; the model counts for itself
    if batch.attention_mask is None:
        inputs["use_cache"] = False  # causal models keep keys and values for nothing
    logits: torch.Tensor = model(**inputs).logits
    return logits


def example_losses(model: torch.nn.Module, batch: Batch) -> torch.Tensor:
    """(B,) the mean cross-entropy over each example's own targets; 0 for an example without targets."""
    return (token_losses(logits_of(model, batch), batch.labels) * batch.weights).sum(dim=1)
