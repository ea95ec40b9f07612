"""Draws the next token from logits."""

from __future__ import annotations

import torch


def likely(logits: torch.Tensor, *, temperature: float, top_k: int = 0, top_p: float = 1.0) -> torch.Tensor:
    """Returns (B, V) logits at a temperature, with minus infinity for tokens that cannot be drawn.

    Args:
        logits: (B, V) logits of a model.
        temperature, top_k, top_p: settings as in `pipelines.training.scoring.generation.Sampling`. The temperature is
            above 0.
    """
    logits = logits / temperature
    if 0 < top_k < logits.shape[-1]:
        least = logits.topk(top_k, dim=-1).values[:, -1:]
        logits = logits.masked_fill(logits < least, -torch.inf)
    if top_p < 1:
        ordered, order = logits.sort(dim=-1, descending=True)
        probabilities = ordered.softmax(dim=-1)
        is_behind = probabilities.cumsum(dim=-1) - probabilities >= top_p  # the first token is always kept
        logits = logits.masked_fill(is_behind.scatter(-1, order, is_behind), -torch.inf)
    return logits


def drawn_at(logits: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """Returns (B,) the token that a uniform number draws in each row, by the inverse of the distribution function.

    A row's token depends only on its own logits and number, not on the other rows.

    Args:
        logits: (B, V) logits.
        uniforms: (B,) float64 numbers in [0, 1).
    """
    below = logits.softmax(dim=-1).double().cumsum(dim=-1)
    at = torch.searchsorted(below, (uniforms * below[:, -1])[:, None], right=True)[:, 0]
    # Rounding may move a number past the last step: then the last token with a positive probability is taken.
    last = logits.shape[-1] - 1 - (logits > -torch.inf).flip(-1).int().argmax(dim=-1)
    return torch.minimum(at, last)
