"""Uses of one parameter, joined: several of a kind into one, and an embedding and a head by their cross term."""

from __future__ import annotations

import torch

from pipelines.dp.grams import is_short
from pipelines.dp.head_use import HeadUse
from pipelines.dp.reduced_head import ReducedHead
from pipelines.dp.uses import (
    DenseUse,
    MemoryBudget,
    OuterUse,
    RowsUse,
    Squares,
    Use,
    compute_dtype,
    instantiated_squares,
)


class SumOfUses:
    """The gradients of one parameter over several uses, by instantiation."""

    def __init__(self, uses: list[Use]) -> None:
        self._uses = uses

    @property
    def num_examples(self) -> int:
        """B."""
        return self._uses[0].num_examples

    def magnitudes(self) -> torch.Tensor:
        """Returns the sums of the uses' magnitudes."""
        return torch.stack([use.magnitudes() for use in self._uses]).sum(dim=0)

    def instantiate(self, start: int, stop: int, *, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Returns the sums of the uses' gradients."""
        total = self._uses[0].instantiate(start, stop, dtype=dtype)
        for use in self._uses[1:]:
            total = total + use.instantiate(start, stop, dtype=dtype)
        return total


def join(uses: list[Use]) -> list[Use]:
    """Joins the uses of each kind along the axis of positions."""
    joined: list[Use] = []
    outer = [use for use in uses if isinstance(use, OuterUse)]
    rows = [use for use in uses if isinstance(use, RowsUse)]
    dense = [use for use in uses if isinstance(use, DenseUse)]
    if outer:
        joined.append(
            OuterUse(torch.cat([u.rows for u in outer], dim=1), torch.cat([u.columns for u in outer], dim=1))
            if len(outer) > 1
            else outer[0]
        )
    if rows:
        joined.append(
            RowsUse(
                torch.cat([u.ids for u in rows], dim=1), torch.cat([u.gradients for u in rows], dim=1), rows[0].num_rows
            )
            if len(rows) > 1
            else rows[0]
        )
    if dense:
        joined.append(DenseUse(torch.stack([u.gradients for u in dense]).sum(dim=0)) if len(dense) > 1 else dense[0])
    joined += [use for use in uses if not isinstance(use, OuterUse | RowsUse | DenseUse)]
    return joined


def joint_squares(uses: list[Use], num_elements: int, budget: MemoryBudget) -> Squares:
    """Returns the squared norms of the sum of uses of different kinds."""
    if len(uses) == 1:
        return uses[0].squares(budget)
    embedding = next((use for use in uses if isinstance(use, RowsUse)), None)
    head = next((use for use in uses if isinstance(use, OuterUse | HeadUse | ReducedHead)), None)
    if len(uses) != 2 or embedding is None or head is None:
        return Squares(instantiated_squares(SumOfUses(uses), num_elements, budget))
    if isinstance(head, ReducedHead):
        return head.squares_with(embedding)
    first, second = embedding.squares(budget), head.squares(budget)
    cross = head.cross(embedding) if isinstance(head, HeadUse) else _cross(head, embedding)
    # |E + H|^2 = |E|^2 + |H|^2 + 2 <E, H>: a cross term of either sign.
    terms = first.norms + (second.norms if second.terms is None else second.norms + second.terms)
    return Squares(first.norms + second.norms + 2 * cross, terms)


def _cross(head: OuterUse, embedding: RowsUse) -> torch.Tensor:
    """Returns (B,) <sum_t r_t c_t^T, sum_s e(id_s) g_s^T> = sum_{t,s} r_t[id_s] <c_t, g_s>."""
    length = head.rows.shape[1]
    dtype = torch.float64 if is_short(length) else compute_dtype(head.rows)
    picked = head.rows.gather(2, embedding.ids[:, None, :].expand(-1, length, -1)).to(dtype)  # (B, T, S)
    inner = torch.bmm(head.columns.to(dtype), embedding.gradients.to(dtype).transpose(1, 2))  # (B, T, S)
    return (picked * inner).sum(dim=2).double().sum(dim=1)
