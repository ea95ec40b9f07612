"""The use that a fused language-model head leaves: hidden states and normalisers, not logits."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from pipelines.dp.grams import CACHE_ELEMENTS, along, is_short
from pipelines.dp.uses import Direction, MemoryBudget, RowsUse, Scratch, Squares, Sums, compute_dtype


def softmax_in_place(logits: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Turns logits into the gradients of the weighted losses.

    Takes a few rows at a time, so that the passes over them stay in the cache. The gradient of the label's own logit is
    what the others add up to: a probability near 1, less 1, would have lost its digits.

    Args:
        logits: (N, V), overwritten with weights * (softmax - one_hot(labels)).
        labels: (N,) int64.
        weights: (N,).

    Returns:
        (N,) weighted losses, (N,) log-sum-exps, and (N,) gradients of the labels' own logits.
    """
    num_rows, size = logits.shape
    normalisers, own = logits.new_empty(2, num_rows)
    labels = labels[:, None]
    picked = logits.gather(1, labels)
    step = max(1, CACHE_ELEMENTS // size) if logits.device.type == "cpu" else max(1, num_rows)
    for at in range(0, num_rows, step):
        rows = slice(at, at + step)
        part = logits[rows]
        top = part.amax(dim=1, keepdim=True)
        part.sub_(top).exp_().scatter_(1, labels[rows], 0)
        others = part.sum(dim=1, keepdim=True)
        total = others + (picked[rows] - top).exp_()
        scale = weights[rows, None] / total
        of_label = (others * scale).neg_()
        part.mul_(scale).scatter_(1, labels[rows], of_label)
        normalisers[rows], own[rows] = (top + total.log())[:, 0], of_label[:, 0]
    return (normalisers - picked[:, 0]) * weights, normalisers, own


def projected(gradients: torch.Tensor, hidden: torch.Tensor, direction: Direction) -> torch.Tensor:
    """Returns (n, K) float64 sum_t <left_k, b_t> <h_t, right_k>, for gradients b (n, T, V) of logits.

    Args:
        gradients: (n, T, V) gradients of the logits.
        hidden: (n, T, D) inputs of the head.
        direction: directions for the head's weight.
    """
    found = along(direction.left, gradients) * along(direction.right, hidden)
    return found.sum(dim=2, dtype=torch.float64).t()


def pieces(start: int, stop: int, size: int) -> list[tuple[int, int]]:
    """Returns the range, cut into parts of at most ``size``."""
    return [(at, min(at + size, stop)) for at in range(start, stop, size)]


def compute_logits(
    hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, out: torch.Tensor
) -> torch.Tensor:
    """Writes (N, V) logits in float32 or float64 to ``out``. The product is in the dtype of ``hidden``."""
    if hidden.dtype == out.dtype:
        torch.mm(hidden, weight.t(), out=out)
    else:
        out.copy_(torch.mm(hidden, weight.t()))
    return out if bias is None else out.add_(bias)


@dataclass
class HeadUse:
    """A use with gradient sum_t b_t h_t^T of the head's weight, b = weights * (softmax - one_hot) * upstream.

    Attributes:
        hidden: (B, T, D) inputs of the head, packed to positions with a target.
        weight: (V, D) weight in the forward pass, in the dtype of ``hidden``.
        bias: (V,) bias, or None.
        labels: (B, T) int64.
        weights: (B, T) weights of the losses, 0 at positions without target.
        normalisers: (B, T) log-sum-exps.
        own: (B, T) gradients of the labels' own logits, for an upstream gradient of 1.
        kept: (n, T, V) gradients of the logits of the first n examples; those of the others are computed again.
        chunk: number of examples that are computed again at once.
        unit_norms, unit_terms, unit_magnitudes: (B,) float64 each, see `Squares`, for an upstream gradient of 1.
        unit_projections: (B, K) float64 `projected` gradients for an upstream gradient of 1; None: not yet computed.
        upstream: (B,) gradients of the examples' losses.
    """

    hidden: torch.Tensor
    weight: torch.Tensor
    bias: torch.Tensor | None
    labels: torch.Tensor
    weights: torch.Tensor
    normalisers: torch.Tensor
    own: torch.Tensor
    kept: torch.Tensor
    chunk: int
    unit_norms: torch.Tensor
    unit_terms: torch.Tensor
    unit_magnitudes: torch.Tensor
    unit_projections: torch.Tensor | None
    upstream: torch.Tensor

    @property
    def num_examples(self) -> int:
        """B."""
        return len(self.hidden)

    def squares(self, budget: MemoryBudget) -> Squares:
        """Returns the squares that the forward pass took from the logits."""
        del budget
        scale = self.upstream.double().square()
        return Squares(self.unit_norms * scale, self.unit_terms * scale, self.magnitudes())

    def magnitudes(self) -> torch.Tensor:
        """Returns sum_t |b_t| |h_t|."""
        return self.unit_magnitudes * self.upstream.double().abs()

    def _logit_gradients(self, start: int, stop: int) -> torch.Tensor:
        """Returns (n, T, V) for an upstream gradient of 1. The examples are all kept, or none is."""
        if stop <= len(self.kept):
            return self.kept[start:stop]
        hidden = self.hidden[start:stop].flatten(0, 1)
        out = torch.empty(len(hidden), len(self.weight), dtype=compute_dtype(hidden), device=hidden.device)
        compute_logits(hidden, self.weight, self.bias, out)
        # As in the forward pass: for the same examples together, these have the very bits of which norms were taken.
        softmax_in_place(out, self.labels[start:stop].flatten(), self.weights[start:stop].flatten())
        return out.view(stop - start, -1, out.shape[1])

    def _parts(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Returns the range in parts: the kept examples together, and chunks of the rest."""
        middle = min(max(start, len(self.kept)), stop)
        return pieces(start, middle, max(1, middle - start)) + pieces(middle, stop, self.chunk)

    def project(self, direction: Direction) -> torch.Tensor:
        """Returns sum_t <left_k, b_t> <h_t, right_k>."""
        found = self.unit_projections
        if found is None:
            parts = self._parts(0, self.num_examples)
            found = torch.cat([projected(self._logit_gradients(a, b), self.hidden[a:b], direction) for a, b in parts])
        return found * self.upstream.double()[:, None]

    def instantiate(self, start: int, stop: int, *, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Returns the (n, V, D) gradients."""
        dtype = dtype or self.upstream.dtype
        parts = [
            torch.bmm(
                self._logit_gradients(a, b).transpose(1, 2).to(dtype),
                self.hidden[a:b].to(dtype) * self.upstream[a:b, None, None].to(dtype),
            )
            for a, b in self._parts(start, stop)
        ]
        return torch.cat(parts)

    def add_weighted(
        self, sums: Sums, parameter: torch.nn.Parameter, factors: torch.Tensor | None, scratch: Scratch
    ) -> None:
        """Adds the weighted sum: a matrix product for the kept examples, and one for each chunk of the rest."""
        scale = self.upstream if factors is None else self.upstream * factors.to(self.upstream.dtype)
        for a, b in self._parts(0, self.num_examples):
            hidden = scratch.scaled(self.hidden[a:b], scale[a:b], compute_dtype(parameter))
            sums.add_product(parameter, self._logit_gradients(a, b).flatten(0, 1).t(), hidden.flatten(0, 1))

    def _entries(self, start: int, stop: int, ids: torch.Tensor) -> torch.Tensor:
        """Returns (n, T, S) gradients of the logits at the tokens ``ids`` (n, S), for an upstream gradient of 1."""
        if stop <= len(self.kept):
            return self.kept[start:stop].gather(2, ids[:, None, :].expand(-1, self.kept.shape[1], -1))
        logits = torch.bmm(self.hidden[start:stop], self.weight[ids].transpose(1, 2)).to(self.upstream.dtype)
        if self.bias is not None:
            logits += self.bias[ids][:, None, :]
        entries = logits.sub_(self.normalisers[start:stop, :, None]).exp_().mul_(self.weights[start:stop, :, None])
        is_own = self.labels[start:stop, :, None] == ids[:, None, :]
        return torch.where(is_own, self.own[start:stop, :, None], entries)

    def cross(self, embedding: RowsUse) -> torch.Tensor:
        """Returns (B,) inner products with the gradient of a tied embedding, sum_{t,s} b_t[id_s] <h_t, g_s>.

        Only the entries of b at the example's own tokens are needed, which costs T products for each position.
        """
        dtype = torch.float64 if is_short(self.hidden.shape[1]) else self.upstream.dtype
        result = torch.zeros(self.num_examples, dtype=torch.float64, device=self.hidden.device)
        for a, b in self._parts(0, self.num_examples):
            ids, hidden = embedding.ids[a:b], self.hidden[a:b]
            entries = self._entries(a, b, ids)
            entries *= self.upstream[a:b, None, None]
            inner = torch.bmm(hidden.to(dtype), embedding.gradients[a:b].to(dtype).transpose(1, 2))
            result[a:b] = (entries * inner).sum(dim=2).double().sum(dim=1)
        return result
