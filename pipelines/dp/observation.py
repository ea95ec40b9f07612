"""Results of a batch: norms, clip factors and losses of its examples. All of them are private."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from pipelines.dp.errors import LossError, NotFiniteError
from pipelines.dp.products import full_products


@dataclass(frozen=True)
class Clipped:
    """Norms, factors and losses of a physical batch. Private: they describe single examples.

    Attributes:
        norms: (B,) float64 gradient norms before clipping.
        factors: (B,) float64 factor of each gradient; under per-layer clipping the least of an example.
        losses: (B,) detached losses.
    """

    norms: torch.Tensor
    factors: torch.Tensor
    losses: torch.Tensor


@dataclass(frozen=True)
class Observation:
    """Losses, norms and projections of a batch's examples, without their gradients. Private.

    Attributes:
        losses: (B,) float64.
        norms: (B,) float64 gradient norms.
        projections: (B,) float64 inner products of the gradients with a fixed random direction.
        roundoff: unit roundoff of the coarsest gradients on the way.
    """

    losses: torch.Tensor
    norms: torch.Tensor
    projections: torch.Tensor
    roundoff: float

    def first(self, count: int) -> Observation:
        """Returns the observation of the first ``count`` examples."""
        return self.at(range(count))

    def at(self, places: Sequence[int]) -> Observation:
        """Returns the observation of the examples at these places."""
        index = torch.tensor(places, dtype=torch.int64)
        return Observation(self.losses[index], self.norms[index], self.projections[index], self.roundoff)


def check_finite(values: torch.Tensor) -> None:
    """Raises NotFiniteError if a value is not finite."""
    if not bool(torch.isfinite(values).all()):
        raise not_finite()


def not_finite() -> NotFiniteError:
    """Makes the error for a loss or a gradient that is not finite."""
    return NotFiniteError(
        "the loss or the gradient of an example is not a finite number; nothing was added. Lower the learning "
        "rate, look for divisions by zero and logarithms of zero in the loss, or use bfloat16 in place of float16"
    )


def check_losses(losses: torch.Tensor) -> None:
    """Checks that there is a loss for each example, with a gradient. Their values are checked with the norms.

    Raises:
        LossError: the losses have another number of axes, or carry no gradient.
    """
    if losses.dim() != 1:
        raise LossError(
            f"give the loss of each example, a tensor with one axis, not one with {losses.dim()}: a mean over the "
            "batch hides the examples. Call optimizer.backward(losses) with losses = cross_entropy(..., "
            "reduction='none'), averaged inside each example if it has several"
        )
    if losses.grad_fn is None:
        raise LossError("the losses carry no gradient: run the model inside `recording`, with gradients enabled")


def mean_gradient(
    parameters: Sequence[torch.nn.Parameter], losses: Iterable[torch.Tensor], count: int
) -> tuple[float, dict[torch.nn.Parameter, torch.Tensor]]:
    """Returns the mean of several losses, and its gradient. Leaves `grad` of the parameters as it was.

    Args:
        parameters: parameters to differentiate by. Those without a gradient are left out of the result.
        losses: (B,) losses of some of the examples, batch after batch.
        count: number of all these examples.

    Raises:
        LossError: there are not ``count`` losses, or a value is not finite.
    """
    held = [(p, p.grad) for p in parameters]
    total, left = 0.0, count
    try:
        for parameter in parameters:
            parameter.grad = None
        for part in losses:
            check_finite(part.detach())
            left -= len(part)
            with torch.autocast(part.device.type, enabled=False), full_products():
                (part.sum() / count).backward()  # type: ignore[no-untyped-call]
            total += float(part.detach().sum())
        if left:
            raise LossError(f"{count - left} losses for {count} examples; give one for each")
        return total / count, {p: p.grad for p in parameters if p.grad is not None}
    finally:
        for parameter, before in held:
            parameter.grad = before
