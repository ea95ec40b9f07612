"""Per-example gradients of linear layers on a GPU's tensor cores, under bfloat16 autocast.

Tensor cores add up products of bfloat16 numbers in float32, but round towards zero on the way: a long sum is off by
about 1e-5, where an ordinary float32 product is off by 2e-7. If a norm and the sum that it bounds were two such
products in different orders, an example's share could exceed its bound by as much. So here the gradient of each example
is computed once more for the sum, by the same product of the same shape, and comes out with the same bits: the norm is
that of the very values that are added. The addition over examples is an ordinary float32 sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import torch

from pipelines.dp.grams import dense_squares
from pipelines.dp.head_use import pieces
from pipelines.dp.products import wide_bmm
from pipelines.dp.uses import MemoryBudget, OuterUse, Scratch, Squares, Sums

LEAST_LENGTH: Final = 64
"""Positions of an example from which on its gradients are instantiated. Below, a product over all positions is faster
in float32, because writing and reading the gradients takes longer than computing them."""

_GROUP_BYTES: Final = 2**29
"""Memory for the gradients of a group of examples. It does not depend on settings, so that both products of a group
have the same shape."""


class TensorCoreUse(OuterUse):
    """An `OuterUse` of bfloat16 factors whose gradients are instantiated group by group, for the norm and for the sum.

    It stands for the only use of its parameter.
    """

    def _groups(self) -> Iterator[tuple[int, int, torch.Tensor]]:
        """Yields (start, stop, (n, R, C) gradients), valid until the next one."""
        num_examples, _, num_rows = self.rows.shape
        num_columns = self.columns.shape[2]
        size = min(num_examples, max(1, _GROUP_BYTES // max(1, 4 * num_rows * num_columns)))
        room = torch.empty(size, num_rows, num_columns, dtype=torch.float32, device=self.rows.device)
        for start, stop in pieces(0, num_examples, size):
            rows, columns = self.rows[start:stop], self.columns[start:stop]
            yield start, stop, wide_bmm(rows.transpose(1, 2), columns, out=room[: stop - start])

    def squares(self, budget: MemoryBudget) -> Squares:
        """Returns the squared norms of the gradients that `add_weighted` adds."""
        del budget
        return Squares(torch.cat([dense_squares(gradients) for _, _, gradients in self._groups()]))

    def instantiate(
        self, start: int, stop: int, *, dtype: torch.dtype | None = None, out: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Returns the (n, R, C) gradients; on tensor cores if they are asked for in float32."""
        if dtype in (None, torch.float32):
            return wide_bmm(self.rows[start:stop].transpose(1, 2), self.columns[start:stop], out=out)
        return super().instantiate(start, stop, dtype=dtype, out=out)

    def add_weighted(
        self, sums: Sums, parameter: torch.nn.Parameter, factors: torch.Tensor | None, scratch: Scratch
    ) -> None:
        """Adds the weighted sum, group by group."""
        del scratch
        weights = self.rows.new_ones(len(self.rows)) if factors is None else factors
        for start, stop, gradients in self._groups():
            sums.add_product(parameter, weights[start:stop].float()[None], gradients.flatten(1))


def on_tensor_cores(use: OuterUse) -> OuterUse:
    """Returns the use in the form of this module if its factors are bfloat16 on a GPU and long enough; else itself."""
    if use.rows.shape[1] < LEAST_LENGTH or not (takes(use.rows) and takes(use.columns)):
        return use
    return TensorCoreUse(use.rows, use.columns)


def takes(values: torch.Tensor) -> bool:
    """Returns true for values that tensor cores multiply without rounding them first. Needs torch 2.8."""
    return values.is_cuda and values.dtype == torch.bfloat16 and hasattr(torch.ops.aten.mm, "dtype")
