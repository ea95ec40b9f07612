"""Losses of language models, through the fused head if the model's head is a plain one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch
from torch.nn import functional

from pipelines.dp.head import IGNORED_LABEL, fused_losses, target_weights

PLAIN_HEADS: Final = frozenset(
    {"GPT2LMHeadModel", "LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"}
)
"""Models whose logits are their head applied to the last hidden state, and nothing else."""


def causal_lm_losses(
    model: torch.nn.Module,
    input_ids: torch.Tensor,
    labels: torch.Tensor,
    *,
    attention_mask: torch.Tensor | None = None,
    weights: torch.Tensor | None = None,
) -> torch.Tensor:
    """Returns the mean cross-entropy of each example's next tokens.

    Args:
        model: a causal language model of ``transformers``, or a peft model over one.
        input_ids: (B, T) int64.
        labels: (B, T) int64, not shifted: the ids themselves, or -100 at positions without a target.
        attention_mask: (B, T) mask, 0 at padding.
        weights: (B, T) weights of the labels' losses; unset: the mean over the example's own labels.

    Returns:
        (B,) losses; 0 for an example without labels.
    """
    # Shifts the labels and not the hidden states: the fused head is there to save a copy of these.
    shifted = torch.cat([labels[:, 1:], labels.new_full((len(labels), 1), IGNORED_LABEL)], dim=1)
    if weights is not None:
        weights = torch.cat([weights[:, 1:], weights.new_zeros(len(weights), 1)], dim=1)
    inputs = {"input_ids": input_ids, "attention_mask": attention_mask, "use_cache": False}
    return output_losses(model, inputs, shifted, weights)


def output_losses(
    model: torch.nn.Module, inputs: Mapping[str, Any], labels: torch.Tensor, weights: torch.Tensor | None = None
) -> torch.Tensor:
    """Returns the weighted cross-entropy of each example, without logits of the whole batch if the head is a plain one.

    Args:
        model: a model that gives logits; one of `PLAIN_HEADS`, or a peft model over one, goes through the fused head.
        inputs: arguments of the model.
        labels: (B, T) int64, target of each output; -100: no target.
        weights: (B, T) weights of the outputs' losses; unset: the mean over the example's own labels.

    Returns:
        (B,) losses; 0 for an example without labels.
    """
    outer: Any = model
    base = base_of(model)
    if type(base).__name__ not in PLAIN_HEADS or has_prefix(model):  # a prefix enters outside the base model
        weights = target_weights(labels) if weights is None else torch.where(labels == IGNORED_LABEL, 0, weights)
        losses = token_losses(outer(**inputs).logits, labels.clamp(min=0))
        return (losses * weights.to(losses.dtype)).sum(dim=1)
    head = base.get_output_embeddings()
    if hasattr(head, "modules_to_save"):  # peft keeps a trained copy next to the frozen head
        head = head.modules_to_save[head.active_adapters[0]]
    return fused_losses(base.base_model(**inputs).last_hidden_state, head, labels, weights)


def token_losses(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Returns the cross-entropy at every position.

    Returns:
        (..., T) natural-log losses, also at positions without target.
    """
    flat = functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1), reduction="none")
    return flat.reshape(labels.shape)


def base_of(model: Any) -> Any:
    """Returns the model inside a peft model, or the model itself."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def has_prefix(model: Any) -> bool:
    """Returns true if a peft model reads a trained prefix. Such a model computes positions itself."""
    settings = getattr(model, "peft_config", {}).get(getattr(model, "active_adapter", None))
    return bool(getattr(settings, "is_prompt_learning", False))
