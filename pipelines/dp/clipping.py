"""How much of each example's gradient enters the sum."""

from __future__ import annotations

from typing import Final, Literal

import torch

ClippingName = Literal["flat", "automatic"]

AUTOMATIC_STABILITY: Final = 0.01
"""gamma of automatic clipping (Bu et al. 2023, "Automatic clipping", section 4.2)."""

_SLACK: Final = {torch.float32: 2.0**-21, torch.float64: 2.0**-50}
"""Taken off a clipped example's factor, so that rounding in norms and sums cannot lift it above the bound."""


def clip_factors(norms: torch.Tensor, max_grad_norm: float, clipping: ClippingName, dtype: torch.dtype) -> torch.Tensor:
    """The factor of each example.

    Formal guarantee: factor * norm <= max_grad_norm, for either clipping.

        * ``flat`` (Abadi et al. 2016, Algorithm 1): min(1, C / norm); a norm of at most C is left alone, 0 too.
        * ``automatic`` (Bu et al. 2023, equation 4.2, AUTO-S, times C): C / (norm + 0.01); every example is scaled,
          and one with a zero gradient still gives exactly nothing.

    Args:
        norms: (B,) float64, finite.
        max_grad_norm: C, above 0.
        clipping: which of the two.
        dtype: of the sums, float32 or float64.

    Returns:
        (B,) float64.
    """
    limit = max_grad_norm * (1 - _SLACK[dtype])
    if clipping == "flat":
        return torch.where(norms > limit, limit / norms.clamp(min=limit), 1.0)
    if clipping == "automatic":
        return limit / (norms + AUTOMATIC_STABILITY)
    raise ValueError(f"unknown clipping {clipping!r}; known are flat and automatic")
