"""A language-model head fused with its cross-entropy, chunk by chunk, so that no logits of a whole batch exist.

Logits of a few examples are computed and turned into their own gradients in place. They give the gradient of the hidden
states and, if the head is trained under privacy, the norms. Then they are dropped, or kept while
`MemoryBudget.kept_bytes` lasts. This is also the fastest form for ordinary training.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from pipelines.dp.attach import site_of
from pipelines.dp.errors import LossError, NoRuleError
from pipelines.dp.grams import gram_squares
from pipelines.dp.head_use import HeadUse, compute_logits, pieces, projected, softmax_in_place
from pipelines.dp.layers import Site
from pipelines.dp.products import full_products
from pipelines.dp.reduced_head import ReducedHead
from pipelines.dp.repeats import Untouched
from pipelines.dp.tensor_cores import takes
from pipelines.dp.uses import DenseUse, Direction, MemoryBudget, Room, Scratch, Sums, compute_dtype

IGNORED_LABEL = -100


def target_weights(labels: torch.Tensor) -> torch.Tensor:
    """Returns (B, T) float64 weights: an example's loss is the mean over its own targets (labels other than -100).

    The mean stays inside the example: a count over the batch would couple examples.
    """
    is_target = labels != IGNORED_LABEL
    return is_target.double() / is_target.sum(dim=1, keepdim=True).clamp(min=1)


def fused_losses(
    hidden: torch.Tensor,
    head: torch.nn.Module,
    labels: torch.Tensor,
    weights: torch.Tensor | None = None,
    budget: MemoryBudget | None = None,
) -> torch.Tensor:
    """Returns the cross-entropy of each example, without the logits of the batch.

    Args:
        hidden: (B, T, D) inputs of the head.
        head: a ``torch.nn.Linear`` of shape (V, D).
        labels: (B, T) int64, already shifted: token to predict at each position; -100: no token.
        weights: (B, T) weights of the positions' losses; unset: the mean over the example's targets.
        budget: memory for an ordinary training step; the engine uses its own budget.

    Returns:
        (B,) weighted losses; 0 for an example without targets.

    Raises:
        ValueError: the shapes do not fit, or the head is not a linear layer.
    """
    if not isinstance(head, torch.nn.Linear):
        raise ValueError(f"the head must be a torch.nn.Linear, not {type(head).__name__}")
    if hidden.dim() != 3 or labels.shape != hidden.shape[:2]:
        raise ValueError("hidden must be (examples, positions, width) and labels (examples, positions)")
    if weights is None:
        weights = target_weights(labels)
    if weights.shape != labels.shape:
        raise ValueError("weights must have the shape of labels")
    weights = torch.where(labels == IGNORED_LABEL, 0, weights)
    site = site_of(head)
    if site is not None and site.tape.is_recording and torch.is_grad_enabled():
        budget = site.tape.budget
        try:
            site.enter(hidden)
        except NoRuleError as error:
            site.mark(error)
            site = None
    else:
        site = None
    device = hidden.device.type
    if torch.is_autocast_enabled(device) and hidden.dtype != torch.float64:
        hidden = hidden.to(torch.get_autocast_dtype(device))
    with torch.autocast(device, enabled=False):
        losses: torch.Tensor = _FusedHead.apply(  # type: ignore[no-untyped-call]
            site, budget or MemoryBudget.of(hidden.device), hidden, head.weight, head.bias, labels.clamp(min=0), weights
        )
    return losses


class _FusedHead(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        site: Site | None,
        budget: MemoryBudget,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        labels: torch.Tensor,
        weights: torch.Tensor,
    ) -> torch.Tensor:
        ctx.site, ctx.shape, ctx.order = site, hidden.shape, None
        dtype = compute_dtype(hidden)
        weights = weights.to(dtype)
        packed = _pack(weights)
        if packed is not None:
            ctx.order = packed
            labels, weights = labels.gather(1, packed), weights.gather(1, packed)
            hidden = hidden.gather(1, packed[:, :, None].expand(-1, -1, hidden.shape[2]))
        run: _Chunks | ReducedHead
        if takes(hidden):
            room, number = (site.tape.room, site.tape.batch_number) if site is not None else (None, 0)
            needs = ctx.needs_input_grad[2:5]
            run = ReducedHead(hidden, weight, bias, labels, weights, budget, needs, room, number, _direction(site))
        else:
            run = _Chunks(hidden, weight, bias, labels, weights, budget, ctx.needs_input_grad, site)
        ctx.run = run
        # The logits of some examples are computed again in the backward pass, and have to be the same.
        with full_products() if site is not None and ctx.needs_input_grad[3] else nullcontext():
            losses = run.go()
        if site is not None:
            ctx.untouched = Untouched()
            ctx.untouched.add(site.name, run)
        return losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        run: _Chunks | ReducedHead = ctx.run
        site: Site | None = ctx.site
        weight_gradient = bias_gradient = hidden_gradient = None
        if ctx.needs_input_grad[2]:
            hidden_gradient = run.hidden_gradient * upstream[:, None, None]
            if ctx.order is not None:
                full = hidden_gradient.new_zeros(ctx.shape)
                index = ctx.order[:, :, None].expand(-1, -1, full.shape[2])
                hidden_gradient = full.scatter_(1, index, hidden_gradient)
        if site is not None:
            site.tape.check_examples(site.name, upstream)
            if run.batch_number != site.tape.batch_number:
                raise LossError("these losses belong to an earlier batch; give backward those of the last one recorded")
            ctx.untouched.check(is_last=False)
            parameter = site.parameter("weight")
            if parameter is not None and ctx.needs_input_grad[3]:  # without it, the forward pass took no norms
                site.tape.add(site.name, parameter, run.use(upstream))
            parameter = site.parameter("bias")
            if parameter is not None and run.bias_gradients is not None:
                site.tape.add(site.name, parameter, DenseUse(run.bias_gradients * upstream[:, None]))
        else:
            if run.weight_gradient is not None:
                weight_gradient = _scaled_weight_gradient(run, upstream)
            if run.bias_gradients is not None:
                bias_gradient = upstream @ run.bias_gradients
        return None, None, hidden_gradient, weight_gradient, bias_gradient, None, None


def _direction(site: Site | None) -> Direction | None:
    """Returns the directions of a head that will be asked for its projections, in two passes; else None."""
    if site is None or site.tape.directions is None:
        return None
    parameter = site.parameter("weight")
    return None if parameter is None else site.tape.directions.of(parameter)


def _pack(weights: torch.Tensor) -> torch.Tensor | None:
    """Returns (B, T') positions, targets first, T' the most that an example has; None if packing gains nothing."""
    is_target = weights != 0
    longest = int(is_target.sum(dim=1).max()) if len(weights) else 0
    if longest > 0.9 * weights.shape[1]:
        return None
    return torch.argsort((~is_target).byte(), dim=1, stable=True)[:, : max(1, longest)]


def _scaled_weight_gradient(run: _Chunks | ReducedHead, upstream: torch.Tensor) -> torch.Tensor:
    """Returns (V, D) for these upstream gradients. Repeats the pass if they differ between examples."""
    known = run.weight_gradient
    assert known is not None  # noqa: S101
    if bool((upstream == upstream[:1]).all()):
        return known * upstream[0] if len(upstream) else known
    weight, total = torch.nn.Parameter(known, requires_grad=False), Sums()
    run.use(upstream).add_weighted(total, weight, None, Scratch())
    return total.of(weight)


class _Chunks:
    """A pass over the batch, chunk by chunk.

    Attributes:
        hidden_gradient: (B, T, D) for an upstream gradient of 1.
        weight_gradient: (V, D) for upstream gradients of 1, in ordinary training.
        bias_gradients: (B, V) gradients of the examples.
        batch_number: number of the batch whose memory was taken.
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
        site: Site | None,
    ) -> None:
        self._hidden = hidden.detach()
        self._weight = weight.detach().to(hidden.dtype)
        self._bias = None if bias is None else bias.detach()
        self._labels = labels
        self._weights = weights
        self._dtype = compute_dtype(hidden)
        self._needs_hidden, self._needs_weight, self._needs_bias = needs_gradient[2:5]
        self._is_private = site is not None and self._needs_weight
        size, length, width = hidden.shape
        num_tokens = len(weight)
        item = 8 if self._dtype == torch.float64 else 4
        self._bytes_each = max(1, item * length * num_tokens)
        self._chunk = max(1, min(size, budget.working_bytes // self._bytes_each))
        num_kept = min(size, budget.kept_bytes // self._bytes_each) if self._is_private else 0
        kind: dict[str, Any] = {"dtype": self._dtype, "device": hidden.device}
        # In one piece, so that the weights' gradient is one product.
        room = Room() if site is None else site.tape.room
        self._kept = room.take((num_kept, length, num_tokens), self._dtype, hidden.device)
        self.batch_number = 0 if site is None else site.tape.batch_number
        self._normalisers, self._own = torch.empty(2, size, length, **kind)
        self._norms = torch.zeros(size, dtype=torch.float64, device=hidden.device)
        self._terms, self._magnitudes = torch.zeros_like(self._norms), torch.zeros_like(self._norms)
        self._direction = _direction(site) if self._is_private else None
        self._projections: list[torch.Tensor] = []
        self.hidden_gradient = torch.empty(hidden.shape, dtype=hidden.dtype, device=hidden.device)
        is_ordinary = self._needs_weight and not self._is_private
        self.weight_gradient = torch.zeros(num_tokens, width, **kind) if is_ordinary else None
        self.bias_gradients = torch.empty(size, num_tokens, **kind) if self._needs_bias else None

    def go(self) -> torch.Tensor:
        """Returns the (B,) losses, and fills the attributes."""
        size, length, _ = self._hidden.shape
        losses = torch.empty(size, dtype=self._dtype, device=self._hidden.device)
        num_kept = len(self._kept)
        for start, stop in pieces(0, num_kept, self._chunk):
            self._one(start, stop, self._kept[start:stop].flatten(0, 1), losses)
        largest = min(self._chunk, size - num_kept) * length
        shared = torch.empty(largest, len(self._weight), dtype=self._dtype, device=self._hidden.device)
        for start, stop in pieces(num_kept, size, self._chunk):
            self._one(start, stop, shared[: (stop - start) * length], losses)
        return losses

    def _one(self, start: int, stop: int, logits: torch.Tensor, losses: torch.Tensor) -> None:
        count, length = stop - start, self._hidden.shape[1]
        hidden = self._hidden[start:stop]
        compute_logits(hidden.flatten(0, 1), self._weight, self._bias, logits)
        labels, weights = self._labels[start:stop].flatten(), self._weights[start:stop].flatten()
        found, normalisers, own = softmax_in_place(logits, labels, weights)
        losses[start:stop] = found.view(count, length).sum(dim=1)
        self._normalisers[start:stop] = normalisers.view(count, length)
        self._own[start:stop] = own.view(count, length)
        if self._needs_hidden:
            gradient = torch.mm(logits.to(self._weight.dtype), self._weight)
            self.hidden_gradient[start:stop] = gradient.view(count, length, -1)
        gradients = logits.view(count, length, -1)
        if self.bias_gradients is not None:
            self.bias_gradients[start:stop] = gradients.sum(dim=1)
        if self._is_private:
            squares = gram_squares(gradients, hidden.to(self._dtype))
            self._norms[start:stop], self._terms[start:stop], self._magnitudes[start:stop] = squares
            if self._direction is not None:
                self._projections.append(projected(gradients, hidden, self._direction))
        elif self.weight_gradient is not None:
            self.weight_gradient.addmm_(logits.t(), hidden.flatten(0, 1).to(self._dtype))

    def use(self, upstream: torch.Tensor) -> HeadUse:
        """Returns the values of this pass that the private engine needs."""
        return HeadUse(
            hidden=self._hidden,
            weight=self._weight,
            bias=self._bias,
            labels=self._labels,
            weights=self._weights,
            normalisers=self._normalisers,
            own=self._own,
            kept=self._kept,
            chunk=self._chunk,
            unit_norms=self._norms,
            unit_terms=self._terms,
            unit_magnitudes=self._magnitudes,
            unit_projections=torch.cat(self._projections) if self._projections else None,
            upstream=upstream,
        )
