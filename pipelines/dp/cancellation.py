"""Separate float64 sums for examples whose terms are far larger than their sum.

A float32 sum rounds by 6e-8 of its largest partial sums. An example whose terms are large and cancel has a small norm.
But the rounding of its terms would move the sum, and wipe out what other examples add. So an example whose clipped
terms are larger than 128 times the bound does not enter a float32 sum of the batch.
"""

from __future__ import annotations

from typing import Final

import torch

from pipelines.dp.clipping import Factors
from pipelines.dp.uses import Sums, Use, compute_dtype

MOST_MAGNITUDE: Final = {torch.float32: 2.0**7, torch.float64: 2.0**36}
"""Limit on the sum of the norms of an example's clipped terms, over max_grad_norm, in a sum of the batch. Language
models reach 2 to 14 (of 128 and 1,024 positions, untrained and trained)."""


def cancelling(magnitudes: torch.Tensor, max_grad_norm: float, dtype: torch.dtype) -> torch.Tensor:
    """Returns (B,) bool, true for examples whose terms are too large for a sum of the batch.

    Args:
        magnitudes: (B,) at least the sum of the norms of the clipped terms; infinite or NaN if that is unknown.
        max_grad_norm: C.
        dtype: dtype of the sums.
    """
    return ~(magnitudes <= MOST_MAGNITUDE[dtype] * max_grad_norm)


class WholeGradients:
    """The instantiated float64 gradients of a few examples.

    Formal guarantee: `norms` are the norms of the very values that `add_weighted` adds, whatever rounding they hold.

    Args:
        examples: places of the examples in the batch.
    """

    def __init__(self, examples: list[int]) -> None:
        self._examples = examples
        self._gradients: dict[torch.nn.Parameter, torch.Tensor] = {}

    def add(self, parameter: torch.nn.Parameter, use: Use) -> None:
        """Adds the gradients of one use of a parameter."""
        found = torch.cat([use.instantiate(at, at + 1, dtype=torch.float64) for at in self._examples])
        found = found.view(len(found), *parameter.shape)
        self._gradients[parameter] = self._gradients[parameter].add_(found) if parameter in self._gradients else found

    def add_one(self, parameter: torch.nn.Parameter, example: int, gradient: torch.Tensor) -> None:
        """Adds the gradient of one example of the batch, if it is one of these."""
        if example in self._examples:
            if parameter not in self._gradients:
                shape = (len(self._examples), *parameter.shape)
                self._gradients[parameter] = torch.zeros(shape, dtype=torch.float64, device=parameter.device)
            self._gradients[parameter][self._examples.index(example)] += gradient

    def layer_norms(self) -> dict[torch.nn.Parameter, torch.Tensor]:
        """Returns (n,) float64 norms of the examples' gradients, for each parameter."""
        return {p: torch.linalg.vector_norm(found.flatten(1), dim=1) for p, found in self._gradients.items()}

    def norms(self) -> torch.Tensor:
        """Returns (n,) float64 norms of the examples' gradients over all parameters."""
        norms: torch.Tensor = torch.linalg.vector_norm(torch.stack(list(self.layer_norms().values())), dim=0)
        return norms

    def add_weighted(self, sums: Sums, factors: Factors) -> None:
        """Adds the sum of ``factors`` (n,) times the gradients, and frees the gradients."""
        for parameter in list(self._gradients):
            total = torch.tensordot(factors.of(parameter), self._gradients.pop(parameter), dims=1)
            sums.of(parameter).add_(total.to(compute_dtype(parameter)))
