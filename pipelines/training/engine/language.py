"""The losses of causal language models of ``transformers``, through the fused head."""

from __future__ import annotations

from typing import Any, Final

import torch

from pipelines.training.engine.errors import UnsupportedLayerError
from pipelines.training.engine.head import IGNORED_LABEL, fused_losses

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
    """The mean cross-entropy of each example's next tokens, without logits of the whole batch.

    Args:
        model: a model of `PLAIN_HEADS`, or a peft model over one.
        input_ids: (B, T) int64.
        labels: (B, T) int64, not shifted: the ids themselves, -100 where there is nothing to predict.
        attention_mask: (B, T), 0 at padding.
        weights: (B, T) of the labels' losses; unset: the mean over the example's own labels.

    Returns:
        (B,) losses; 0 for an example without labels.

    Raises:
        UnsupportedLayerError: the model's logits are not simply its head's; compute losses from them instead.
    """
    outer: Any = model
    base: Any = outer.get_base_model() if hasattr(outer, "get_base_model") else outer
    if type(base).__name__ not in PLAIN_HEADS:
        raise UnsupportedLayerError(
            f"the fused loss does not know {type(base).__name__}; run the model and take "
            "torch.nn.functional.cross_entropy(..., reduction='none') of its logits inside each example"
        )
    head = base.get_output_embeddings()
    if hasattr(head, "modules_to_save"):  # peft keeps a trained copy beside the frozen head
        head = head.modules_to_save[head.active_adapters[0]]
    hidden = base.base_model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).last_hidden_state
    # Labels move, not hidden states: a copy of these is what the fused head is there to save.
    shifted = torch.cat([labels[:, 1:], labels.new_full((len(labels), 1), IGNORED_LABEL)], dim=1)
    if weights is not None:
        weights = torch.cat([weights[:, 1:], weights.new_zeros(len(weights), 1)], dim=1)
    return fused_losses(hidden, head, shifted, weights)
