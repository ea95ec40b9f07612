"""Checks that the gradients which are added are those of which the norms were taken.

A norm bounds what an example adds only if both come from the same gradient. In two passes each comes from a backward
pass of its own. A model that computes other values the second time (a checkpointed function that counts its calls, a
hook with a state) would have another gradient there. In one pass, what a layer handed over stays in memory until it is
added, and a hook could change it in place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import torch

from pipelines.dp.clipping import Factors
from pipelines.dp.errors import UnsupportedLayerError
from pipelines.dp.uses import Direction, Use, compute_dtype

_TOLERANCES: Final = {torch.float32: 2.0**-20, torch.float64: 2.0**-46}
"""Largest change of a clipped gradient between two passes, over max_grad_norm: the root mean square of its projections.
The same operations on the same values change nothing. The tolerance is for kernels that add in any order."""

NUM_DIRECTIONS: Final = 8
"""The number of directions on which the gradient of a parameter is projected (K)."""


class Directions:
    """Random directions for the gradients of parameters, the same in every batch."""

    def __init__(self) -> None:
        self._drawn: dict[torch.nn.Parameter, Direction] = {}
        self._seeds: dict[torch.nn.Parameter, int] = {}

    def of(self, parameter: torch.nn.Parameter) -> Direction:
        """Returns the directions of one parameter, on its device."""
        found, dtype = self._drawn.get(parameter), compute_dtype(parameter)
        if found is None or (found.left.device, found.left.dtype) != (parameter.device, dtype):
            seed = self._seeds.setdefault(parameter, len(self._seeds))
            found = self._drawn[parameter] = _drawn(parameter, dtype, seed)
        return found


def _drawn(parameter: torch.nn.Parameter, dtype: torch.dtype, seed: int) -> Direction:
    """Draws standard normal directions, the same for the same seed and shape."""
    generator = torch.Generator().manual_seed(seed)
    first = parameter.shape[0] if parameter.dim() else 1
    left, right = (
        torch.randn(NUM_DIRECTIONS, size, generator=generator) for size in (first, math.prod(parameter.shape[1:]))
    )
    right = right if parameter.dim() > 1 else torch.ones_like(right)
    return Direction(left.to(parameter.device, dtype), right.to(parameter.device, dtype))


class Fingerprint:
    """Projections of the examples' gradients on random directions, in one pass.

    Attributes:
        projections: (B, K) float64 for each parameter, summed over its uses.
    """

    def __init__(self, directions: Directions) -> None:
        self._directions = directions
        self.projections: dict[torch.nn.Parameter, torch.Tensor] = {}

    def add(self, parameter: torch.nn.Parameter, use: Use) -> None:
        """Adds one use of a parameter. Projections are linear in the gradient, so those of uses add up."""
        found = use.project(self._directions.of(parameter))
        before = self.projections.get(parameter)
        self.projections[parameter] = found if before is None else before + found

    def add_one(self, parameter: torch.nn.Parameter, use: Use, index: int, num_examples: int) -> None:
        """Adds the gradient of one example of the batch, in a use of one example."""
        found = use.project(self._directions.of(parameter))
        total = self.projections.setdefault(parameter, found.new_zeros(num_examples, found.shape[1]))
        total[index] += found[0]

    def total(self, like: torch.Tensor) -> torch.Tensor:
        """Returns (B,) projections on the first direction over all parameters, zeros as (B,) ``like`` if none."""
        found = [projections[:, 0] for projections in self.projections.values()]
        return torch.stack([torch.zeros_like(like), *found]).sum(dim=0)


def check_repeated(
    first: Fingerprint,
    second: Fingerprint,
    factors: Factors,
    max_grad_norm: float,
    dtype: torch.dtype,
    names: Mapping[torch.nn.Parameter, str],
) -> None:
    """Checks that two passes over a batch had the same gradients.

    Formal guarantee: let D be the change of an example's clipped gradient between the passes. The K projections of D on
    random directions have the mean square |D|^2. A change of 100 tolerances passes with a probability below 3e-9, for
    K = 8 and the worst D, of rank one in one parameter. So an example's share exceeds its bound by less than 1e-4
    max_grad_norm in float32 (1.5e-12 in float64), except with that probability.

    Args:
        first: projections of the pass of which norms were taken.
        second: projections of the pass that was added.
        factors: clip factors by which gradients were multiplied.
        max_grad_norm: C.
        dtype: dtype of the sums.
        names: names of all parameters.

    Raises:
        UnsupportedLayerError: an example's gradient changed.
    """
    parameters = list({**first.projections, **second.projections})
    if not parameters:
        return
    changes = torch.stack([_change(first, second, p) * factors.of(p)[:, None] for p in parameters])  # (L, B, K)
    limit = _TOLERANCES[dtype] * max_grad_norm
    sizes = changes.square().mean(dim=2)
    if bool((sizes.sum(dim=0) <= limit**2).all()):
        return
    at = int((~(sizes <= limit**2 / len(parameters))).any(dim=1).nonzero()[0])  # the nearest to the loss
    raise UnsupportedLayerError(
        f"the gradients of parameter {names[parameters[at]]!r} changed in a second backward pass over the same batch, "
        "so that the norms of the first do not bound the sum; nothing was added. Something computes other values each "
        "time: a checkpointed function that counts its calls, reads a value that changes or draws from a generator of "
        "its own, a hook or a module with a state. Take it away, and set preserve_rng_state=True on checkpoints. Or "
        "write make_private(..., mode='book_keeping'), which runs one pass if no parameter is slow (docs/engine.md). "
        "On a GPU, write torch.use_deterministic_algorithms(True)"
    )


def _change(first: Fingerprint, second: Fingerprint, parameter: torch.nn.Parameter) -> torch.Tensor:
    before, after = first.projections.get(parameter), second.projections.get(parameter)
    if before is None or after is None:
        found = before if after is None else after
        assert found is not None  # noqa: S101
        return found
    return after - before


class Untouched:
    """Values that were handed over, and must stay as they are until they are added."""

    def __init__(self) -> None:
        self._seen: list[tuple[str, torch.Tensor, int]] = []

    def add(self, where: str, holder: Any) -> None:
        """Notes the tensors that ``holder``, a use of layer ``where``, has as attributes."""
        values = vars(holder).values() if hasattr(holder, "__dict__") else ()
        self._seen += [(where, v, v._version) for v in values if isinstance(v, torch.Tensor) and not v.is_inference()]

    def check(self, *, is_last: bool = True) -> None:
        """Checks that nothing has changed these values in place, and forgets them if this is the last time.

        Raises:
            UnsupportedLayerError: something has.
        """
        changed = next((where for where, value, version in self._seen if value._version != version), None)
        if is_last:
            self._seen.clear()
        if changed is not None:
            raise UnsupportedLayerError(
                f"an input of layer {changed!r}, or the gradient of its output, was changed in place during the "
                "backward pass, after its norm was taken. A hook or an autograd function does so, as grad.mul_(2). "
                "Write return grad * 2 in its place"
            )
