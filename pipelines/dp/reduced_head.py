"""The fused language-model head under bfloat16 on a GPU: its products run on tensor cores.

The gradients of the logits are rounded to bfloat16, as autocast rounds them in ordinary training. From then on every
product has bfloat16 factors. As in `pipelines.dp.tensor_cores`, the gradient of an example is computed by the same
product for its norm and for the sum.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

import torch

from pipelines.dp.grams import dense_squares, term_magnitudes
from pipelines.dp.head_use import pieces, projected
from pipelines.dp.products import add_wide_mm, wide_mm
from pipelines.dp.uses import Direction, MemoryBudget, Room, RowsUse, Scratch, Squares, Sums

_ALIGNMENT = 64
"""The vocabulary is filled up to a multiple: products of other sizes take up to six times as long."""


class ReducedHead:
    """A pass over the batch, chunk by chunk; and afterwards the use of the head's weight, see `uses.Use`.

    Args:
        hidden: (B, T, D) bfloat16 inputs of the head, packed to positions with a target.
        weight: (V, D) weight.
        bias: (V,) bias, or None.
        labels: (B, T) int64.
        weights: (B, T) float32 weights of the losses, 0 at positions without target.
        budget: memory.
        needs_gradient: three flags, of hidden states, weight and bias: true if it needs a gradient.
        room: memory that lasts for a batch, in a private training; else None.
        batch_number: number of the batch whose memory is taken.
        direction: directions on which the gradients are projected while they are computed; None: if asked.

    Attributes:
        hidden_gradient: (B, T, D) for an upstream gradient of 1.
        weight_gradient: (V, D) for upstream gradients of 1, in ordinary training.
        bias_gradients: (B, V) gradients of the examples.
    """

    def __init__(
        self,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        labels: torch.Tensor,
        weights: torch.Tensor,
        budget: MemoryBudget,
        needs_gradient: tuple[bool, ...],
        room: Room | None,
        batch_number: int = 0,
        direction: Direction | None = None,
    ) -> None:
        self._hidden = hidden.detach()
        self._bias = None if bias is None else bias.detach()
        self._labels, self._weights = labels, weights
        self._needs_hidden, needs_weight, needs_bias = needs_gradient
        self.batch_number = batch_number
        size, length, width = hidden.shape
        self._num_tokens, device = len(weight), hidden.device
        spare = -len(weight) % _ALIGNMENT
        self._weight = torch.nn.functional.pad(weight.detach().to(hidden.dtype), (0, 0, 0, spare))
        of_example = 2 * max(1, length) * len(self._weight)
        self._chunk = max(1, min(size, budget.working_bytes // (4 * of_example)))
        self._is_private = room is not None and needs_weight
        num_kept = min(size, budget.kept_bytes // of_example) if self._is_private else 0
        self._kept = (room or Room()).take((num_kept, length, len(self._weight)), hidden.dtype, device)
        self._group = max(1, min(size, budget.working_bytes // (4 * len(self._weight) * width)))
        self._magnitudes = torch.zeros(size, dtype=torch.float64, device=device)
        self._upstream = torch.ones(size, device=device)
        self._direction = direction if self._is_private else None
        shape = size, 0 if direction is None else len(direction.left)
        is_projected = self._direction is not None
        self._projections = torch.empty(shape, dtype=torch.float64, device=device) if is_projected else None
        self.hidden_gradient = torch.empty_like(self._hidden)
        is_ordinary = room is None and needs_weight
        self._filled_up = torch.zeros(self._weight.shape, device=device) if is_ordinary else None
        self.weight_gradient = None if self._filled_up is None else self._filled_up[: self._num_tokens]
        self.bias_gradients = torch.empty(size, len(weight), device=device) if needs_bias else None

    @property
    def num_examples(self) -> int:
        """B."""
        return len(self._hidden)

    def go(self) -> torch.Tensor:
        """Returns the (B,) losses, and fills the attributes."""
        found = [self._first(a, b, gradients, losses) for a, b, gradients, losses in self._passes(is_first=True)]
        return torch.cat(found) if found else self._weights.new_zeros(0)

    def use(self, upstream: torch.Tensor) -> ReducedHead:
        """Returns the use of the weight for (B,) gradients of the examples' losses. Uses share what the pass kept."""
        use = copy.copy(self)
        use._upstream = upstream
        return use

    def squares(self, budget: MemoryBudget) -> Squares:
        """Returns the squared norms of the gradients that `add_weighted` adds."""
        del budget
        return Squares(self._unit_squares() * self._upstream.double().square())

    def squares_with(self, embedding: RowsUse) -> Squares:
        """Returns the squared norms of the sums of these gradients and those of a tied embedding."""
        return Squares(self._unit_squares(embedding))

    def magnitudes(self) -> torch.Tensor:
        """Returns sum_t |b_t| |h_t|."""
        return self._magnitudes * self._upstream.double().abs()

    def project(self, direction: Direction) -> torch.Tensor:
        """Returns sum_t <left_k, b_t> <h_t, right_k>."""
        found = self._projections
        if found is None:
            found = torch.cat([self._projected(a, b, gradients, direction) for a, b, gradients, _ in self._passes()])
        return found * self._upstream.double()[:, None]

    def instantiate(self, start: int, stop: int, *, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Returns the (n, V, D) gradients."""
        dtype = dtype or torch.float32
        found = []
        for at, gradients in self._examples(start, stop):
            if start <= at < stop:
                hidden = self._hidden[at]
                is_wide = dtype != torch.float32
                whole = gradients.t().to(dtype) @ hidden.to(dtype) if is_wide else wide_mm(gradients.t(), hidden)
                found.append(whole[: self._num_tokens] * self._upstream[at].to(dtype))
        return torch.stack(found)

    def add_weighted(
        self, sums: Sums, parameter: torch.nn.Parameter, factors: torch.Tensor | None, scratch: Scratch
    ) -> None:
        """Adds the weighted sum, group by group."""
        del scratch
        scale = self._upstream.float() if factors is None else self._upstream.float() * factors.float()
        room = self._room_for(self._group)
        for at, gradients in self._examples():
            place = at % self._group
            wide_mm(gradients.t(), self._hidden[at], out=room[place])
            if place == self._group - 1 or at == self.num_examples - 1:
                weights = scale[at - place : at + 1]
                sums.add_product(parameter, weights[None], room[: place + 1].flatten(1)[:, : parameter.numel()])

    def _projected(self, start: int, stop: int, gradients: torch.Tensor, direction: Direction) -> torch.Tensor:
        return projected(gradients[..., : self._num_tokens], self._hidden[start:stop], direction)

    def _unit_squares(self, embedding: RowsUse | None = None) -> torch.Tensor:
        """Returns (B,) float64 squared norms: for an upstream gradient of 1, or with the gradients of an embedding."""
        squares = torch.empty(self.num_examples, dtype=torch.float64, device=self._hidden.device)
        room = self._room_for(1)
        is_scaled = embedding is not None and not bool((self._upstream == 1).all())
        for at, gradients in self._examples():
            whole = wide_mm(gradients.t(), self._hidden[at], out=room[0])
            if is_scaled:
                whole *= self._upstream[at]
            if embedding is not None:
                whole.index_add_(0, embedding.ids[at], embedding.gradients[at].to(whole.dtype))
            squares[at] = dense_squares(room)[0]
        return squares

    def _room_for(self, count: int) -> torch.Tensor:
        return torch.empty(count, *self._weight.shape, device=self._hidden.device)

    def _examples(self, first: int = 0, last: int | None = None) -> Iterator[tuple[int, torch.Tensor]]:
        """Yields the number of each example, and the (T, V') gradients of its logits for an upstream gradient of 1."""
        for start, stop, gradients, _ in self._passes(first=first, last=last):
            yield from zip(range(start, stop), gradients, strict=True)

    def _passes(
        self, *, is_first: bool = False, first: int = 0, last: int | None = None
    ) -> Iterator[tuple[int, int, torch.Tensor, torch.Tensor | None]]:
        """Yields (start, stop), the (n, T, V') gradients of logits, and (n,) losses if they were computed now.

        Always takes the same chunks, so that what is computed again has the same bits.
        """
        size, num_kept, length = self.num_examples, len(self._kept), self._hidden.shape[1]
        logits = reduced = None
        for start, stop in pieces(0, num_kept, self._chunk) + pieces(num_kept, size, self._chunk):
            count, losses = stop - start, None
            if stop <= first or (last is not None and start >= last):
                continue
            if stop > num_kept and reduced is None:
                reduced = self._kept.new_empty(min(self._chunk, size - num_kept), length, len(self._weight))
            into = self._kept[start:stop] if stop <= num_kept else reduced[:count]  # type: ignore[index]
            if is_first or stop > num_kept:
                if logits is None:
                    shape = min(self._chunk, size) * length, len(self._weight)
                    logits = torch.empty(shape, device=self._hidden.device)
                losses = self._logit_gradients(start, stop, logits[: count * length], into.flatten(0, 1))
            yield start, stop, into, losses

    def _logit_gradients(self, start: int, stop: int, logits: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """Writes weights * (softmax - one_hot(labels)), and returns the (n,) losses."""
        wide_mm(self._hidden[start:stop].flatten(0, 1), self._weight.t(), out=logits)
        if self._bias is not None:
            logits[:, : self._num_tokens] += self._bias
        logits[:, self._num_tokens :] = -torch.inf
        labels, weights = self._labels[start:stop].flatten()[:, None], self._weights[start:stop].flatten()[:, None]
        logarithms = torch.log_softmax(logits, dim=1)
        losses = -logarithms.gather(1, labels)
        torch.mul(torch.exp(logarithms, out=logits), weights, out=out)
        out.scatter_(1, labels, (torch.expm1(-losses) * weights).to(out.dtype))
        return (losses * weights).view(stop - start, -1).sum(dim=1)

    def _first(self, start: int, stop: int, gradients: torch.Tensor, losses: torch.Tensor | None) -> torch.Tensor:
        hidden, flat = self._hidden[start:stop], gradients.flatten(0, 1)
        if self._needs_hidden:
            self.hidden_gradient[start:stop] = (flat @ self._weight).view(hidden.shape)
        if self.bias_gradients is not None:
            known = gradients[..., : self._num_tokens]
            torch.sum(known, dim=1, dtype=torch.float32, out=self.bias_gradients[start:stop])
        if self._filled_up is not None:
            add_wide_mm(self._filled_up, flat.t(), hidden.flatten(0, 1))
        if self._is_private:
            rows, columns = (
                torch.linalg.vector_norm(v, dim=2, dtype=torch.float32).square() for v in (gradients, hidden)
            )
            self._magnitudes[start:stop] = term_magnitudes(rows, columns, self._num_tokens, hidden.shape[2])
        if self._projections is not None and self._direction is not None:
            self._projections[start:stop] = self._projected(start, stop, gradients, self._direction)
        assert losses is not None  # noqa: S101
        return losses
