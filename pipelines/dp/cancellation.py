"""Examples whose terms are far larger than what they add up to: they are added up by themselves, in float64.

A sum in float32 rounds by 6e-8 of its largest part sums. An example whose terms are large and cancel has a small norm,
and would yet move the sum by their rounding, and wipe out what others add to it. So no example's terms enter a float32
sum of the batch where they are, clipped, larger than 128 times the bound.
"""

from __future__ import annotations

from typing import Final

import torch

from pipelines.dp.clipping import Factors
from pipelines.dp.uses import Sums, Use, compute_dtype

MOST_MAGNITUDE: Final = {torch.float32: 2.0**7, torch.float64: 2.0**36}
"""What the norms of an example's clipped terms add up to at most in a sum of the batch, over max_grad_norm. Language
models come to 2 to 14 (of 128 and 1,024 positions, untrained and trained)."""


def cancelling(magnitudes: torch.Tensor, max_grad_norm: float, dtype: torch.dtype) -> torch.Tensor:
    """(B,) bool, the examples whose terms are too large for a sum of the batch.

    Args:
        magnitudes: (B,) at least the sum of the norms of the clipped terms; infinite or NaN where that was not to be
            had.
        max_grad_norm: C.
        dtype: of the sums.
    """
    return ~(magnitudes <= MOST_MAGNITUDE[dtype] * max_grad_norm)


class WholeGradients:
    """The gradients of a few examples, whole and in float64.

    Formal guarantee: `norms` are those of the very values that `add_weighted` adds, whatever was lost in them.

    Args:
        examples: their places in the batch.
    """

    def __init__(self, examples: list[int]) -> None:
        self._examples = examples
        self._gradients: dict[torch.nn.Parameter, torch.Tensor] = {}

    def add(self, parameter: torch.nn.Parameter, use: Use) -> None:
        """Takes in one use of a parameter."""
        found = torch.cat([use.instantiate(at, at + 1, dtype=torch.float64) for at in self._examples])
        found = found.view(len(found), *parameter.shape)
        self._gradients[parameter] = self._gradients[parameter].add_(found) if parameter in self._gradients else found

    def layer_norms(self) -> dict[torch.nn.Parameter, torch.Tensor]:
        """(n,) float64, of the examples' gradients for each parameter."""
        return {p: torch.linalg.vector_norm(found.flatten(1), dim=1) for p, found in self._gradients.items()}

    def norms(self) -> torch.Tensor:
        """(n,) float64, of the examples' gradients for all parameters."""
        norms: torch.Tensor = torch.linalg.vector_norm(torch.stack(list(self.layer_norms().values())), dim=0)
        return norms

    def add_weighted(self, sums: Sums, factors: Factors) -> None:
        """Adds the sum of ``factors`` (n,) times the gradients, and lets go of them."""
        for parameter in list(self._gradients):
            total = torch.tensordot(factors.of(parameter), self._gradients.pop(parameter), dims=1)
            sums.of(parameter).add_(total.to(compute_dtype(parameter)))
