"""The tape that collects the uses of parameters in a batch, and joins them to norms and sums.

Exactness for shared parameters: an example's gradient is the sum over all uses of the parameter, in all layers (tied
embeddings, a layer that runs twice). Uses of one kind are joined into one, and an embedding and a head by their cross
term. Anything else is instantiated. To add up the norms of the uses instead would be wrong in both directions, because
<a, b> has either sign.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator

import torch

from pipelines.dp.cancellation import WholeGradients
from pipelines.dp.clipping import Factors
from pipelines.dp.errors import IsolationError, LossError, UnsupportedLayerError
from pipelines.dp.grams import dense_squares
from pipelines.dp.joining import SumOfUses, join, joint_squares
from pipelines.dp.repeats import Directions, Fingerprint, Untouched
from pipelines.dp.tensor_cores import on_tensor_cores
from pipelines.dp.uses import (
    DenseUse,
    Gradients,
    MemoryBudget,
    OuterUse,
    Room,
    Scratch,
    Squares,
    Sums,
    Use,
    dense_use,
)

_CANCELLED = 0.05
"""Share of its terms below which a squared norm is computed again from the gradient itself."""

_LARGE_BYTES = 2**25 - 2**16
"""Size just below 32 MiB, the largest block from whose release glibc's malloc learns to keep freed memory."""


class Phase(enum.Enum):
    """The purpose of a backward pass."""

    OFF = "off"
    FORWARD = "forward"
    TRACE = "trace"
    KEEP = "keep"
    NORMS_ONLY = "norms only"
    WHOLE = "whole"
    SUM = "sum"


class Tape:
    """The uses of every trainable parameter in the current batch.

    Attributes:
        phase: purpose of the current pass, which decides what layers do with their gradients.
        budget: memory for temporary values.
        batch_size: number of examples of the current forward pass; None until a layer with an example axis has run.
        first_rows: number of rows of the first layer of the current forward pass.
        traced: (B,) bool, true for examples whose losses are being traced, in the phase TRACE.
        directions: directions for fused heads, whose gradients are projected in the forward pass; None: if asked.
        fingerprint: projections that the phases NORMS_ONLY and SUM, and gradients of slow parameters, add to; or None.
        roundoff: unit roundoff of the coarsest gradients so far.
        magnitudes: (B,) float64, see `Use.magnitudes`, over all parameters; known with the norms.
        is_cancelled: () bool, true if norms have lost digits; known with the norms.
        whole: gradients that the phase WHOLE fills.
        sums: sums that the phase SUM adds to.
        factors: factors of the examples' gradients in the phase SUM.
        layer_norms: (B,) float64 norms for each parameter; known with the norms.
        layer_magnitudes: (B,) float64 for each parameter whose terms may be larger than its gradient.
        room: memory that lasts for a batch.
        batch_number: number of the current batch, which distinguishes it from the graph of an earlier one.
        slow: parameters that need one backward pass for each example, with the reason. Lasts longer than a batch.
        unruled: modules that a rule could not run once, and that run without it from the next batch on.
        newly_unruled: those of this batch. A checkpoint runs a module again, and has to do the same.
        slow_before: slow parameters at the start of the batch, for the same reason.
        unchecked: modules of these that were not yet compared with single examples.
        one_by_one: gradients of the slow parameters for the current batch.
    """

    def __init__(self, budget: MemoryBudget) -> None:
        self.phase = Phase.OFF
        self.budget = budget
        self.batch_size: int | None = None
        self.first_rows: int | None = None
        self.traced: torch.Tensor | None = None
        self.directions: Directions | None = None
        self.fingerprint: Fingerprint | None = None
        self.roundoff = 0.0
        self.magnitudes: torch.Tensor | None = None
        self.whole: WholeGradients | None = None
        self.sums = Sums()
        self.factors: Factors | None = None
        self.is_cancelled = torch.zeros((), dtype=torch.bool)
        self.layer_norms: dict[torch.nn.Parameter, torch.Tensor] = {}
        self.layer_magnitudes: dict[torch.nn.Parameter, torch.Tensor] = {}
        self.room = Room()
        self.batch_number = 0
        self.slow: dict[torch.nn.Parameter, str] = {}
        self.unruled: set[torch.nn.Module] = set()
        self.newly_unruled: set[torch.nn.Module] = set()
        self.slow_before: frozenset[torch.nn.Parameter] = frozenset()
        self.unchecked: set[torch.nn.Module] = set()
        self.one_by_one: Iterable[tuple[int, dict[torch.nn.Parameter, torch.Tensor]]] = ()
        self._scratch = Scratch()
        self._untouched = Untouched()
        self._places: dict[torch.nn.Parameter, str] = {}  # names of layers that handed over a use
        self._uses: dict[torch.nn.Parameter, list[Use]] = {}
        self._squares: dict[torch.nn.Parameter, list[Squares]] = {}
        self._num_calls: dict[torch.nn.Parameter, int] = {}
        # This block is freed at once. glibc's malloc then keeps up to twice as much freed memory for the next step. To
        # ask the kernel for it anew took up to a tenth of a step.
        torch.empty(_LARGE_BYTES, dtype=torch.uint8)

    @property
    def is_recording(self) -> bool:
        """True if layers apply the engine's rules. Otherwise they run as usual."""
        return self.phase is not Phase.OFF

    def reset(self) -> None:
        """Forgets the current batch."""
        self.batch_number += 1
        self.room.give_back()
        self.batch_size = self.first_rows = None
        self.traced = self.fingerprint = self.magnitudes = self.whole = None
        self._uses.clear()
        self._squares.clear()
        self._num_calls.clear()
        self._untouched = Untouched()
        self.layer_norms, self.layer_magnitudes = {}, {}
        self.sums, self.factors = Sums(), None
        self.one_by_one = ()
        self.unruled |= self.newly_unruled
        self.newly_unruled.clear()
        self.slow_before = frozenset(self.slow)

    def called(self, parameters: Iterable[torch.nn.Parameter | None]) -> None:
        """Counts a run of a layer with these parameters. Recomputation in a backward pass does not count."""
        if self.phase is Phase.FORWARD:
            for parameter in parameters:
                if parameter is not None:
                    self._num_calls[parameter] = self._num_calls.get(parameter, 0) + 1

    def calls(self) -> set[torch.nn.Parameter]:
        """Returns the parameters of the layers that ran since the last `reset`."""
        return set(self._num_calls)

    @property
    def was_called(self) -> bool:
        """True if any layer ran since the last `reset`."""
        return bool(self._num_calls)

    def uses_of(self, parameter: torch.nn.Parameter) -> list[Use]:
        """Returns the kept uses of a parameter."""
        return list(self._uses.get(parameter, ()))

    def check_examples(self, where: str, gradients: torch.Tensor) -> None:
        """Checks that the first axis is the examples', and in the phase TRACE that only traced ones have a gradient.

        Raises:
            IsolationError: the first axis is another, or another example has a gradient.
        """
        if gradients.shape[0] != self.batch_size:
            raise IsolationError(
                f"layer {where!r} sees {gradients.shape[0]} rows where the batch has {self.batch_size} examples. The "
                "first axis of every input must be the examples'; give shared inputs (position ids, tables) that axis "
                "too, and do not flatten it into others"
            )
        self.roundoff = max(self.roundoff, torch.finfo(gradients.dtype).eps)
        if self.phase is Phase.TRACE and self.traced is not None:
            finite = torch.nan_to_num(gradients.reshape(len(gradients), -1), 0, 0, 0)  # other values are refused later
            if bool(finite.count_nonzero(dim=1).masked_fill(self.traced, 0).any()):
                raise IsolationError(
                    f"the loss of one example depends on another example, seen at layer {where!r}: something mixes "
                    "examples (batch norm, a loss averaged over the batch, an input whose first axis is not the "
                    "examples'). Then no clipping bounds what one record does; remove it"
                )

    def add(self, where: str, parameter: torch.nn.Parameter, use: Use) -> None:
        """Records one use, found by the backward pass."""
        if type(use) is OuterUse and self._num_calls.get(parameter, 0) == 1 and parameter not in self.slow:
            use = on_tensor_cores(use)
        if self.fingerprint is not None and self.phase in (Phase.NORMS_ONLY, Phase.SUM):
            self.fingerprint.add(parameter, use)
        if self.phase is Phase.SUM:
            assert self.factors is not None  # noqa: S101
            use.add_weighted(self.sums, parameter, self.factors.of(parameter), self._scratch)
        elif self.phase is Phase.KEEP:
            if self._num_calls.get(parameter, 0) == 1 and parameter not in self.slow:  # norms while the values are warm
                dense = use.as_dense(self.budget) if isinstance(use, OuterUse) else None
                use, found = (use, use.squares(self.budget)) if dense is None else dense
                self._squares.setdefault(parameter, []).append(found)
            self._keep(where, parameter, use)
        elif self.phase is Phase.NORMS_ONLY:
            if self._num_calls.get(parameter, 0) > 1 or parameter in self.slow:
                self._keep(where, parameter, use)
            else:
                found = use.squares(self.budget)
                squares = Squares(_settled(found, use), magnitudes=found.magnitudes)
                self._squares.setdefault(parameter, []).append(squares)
        elif self.phase is Phase.WHOLE:
            assert self.whole is not None  # noqa: S101
            self.whole.add(parameter, use)
        elif self.phase is not Phase.TRACE:
            raise LossError(
                f"layer {where!r} took part in a backward pass that the engine did not start. Call "
                "optimizer.backward(losses), with one loss for each example, in place of losses.mean().backward() or "
                "torch.autograd.grad: a gradient of the whole batch cannot be clipped example by example"
            )

    def _keep(self, where: str, parameter: torch.nn.Parameter, use: Use) -> None:
        self._uses.setdefault(parameter, []).append(use)
        self._places[parameter] = where
        self._untouched.add(where, use)

    def norms(self, num_examples: int, device: torch.device) -> torch.Tensor:
        """Returns (B,) float64 norms of the examples' whole gradients, and sets `magnitudes`."""
        norms, settled = self.rough_norms(num_examples, device)
        return settled() if bool(self.is_cancelled) else norms

    def rough_norms(self, num_examples: int, device: torch.device) -> tuple[torch.Tensor, Callable[[], torch.Tensor]]:
        """Returns `norms`, and a function that computes those anew that have lost digits. Waits for no GPU.

        The function is needed if `is_cancelled`. It holds all kept uses: let go of it before `add_weighted`.
        """
        self._untouched.check()
        total = torch.zeros(num_examples, dtype=torch.float64, device=device)
        magnitude_squares = torch.zeros_like(total)
        unsettled: list[tuple[torch.nn.Parameter, SumOfUses, Squares]] = []
        layers: dict[torch.nn.Parameter, torch.Tensor] = {}
        for parameter in {**self._uses, **self._squares}:
            if parameter in self.slow:
                continue
            uses = self._uses.get(parameter, [])
            if len(uses) > 1:
                self._uses[parameter] = joined = join(uses)
                squares = joint_squares(joined, parameter.numel(), self.budget)
                squares.magnitudes = SumOfUses(uses).magnitudes()  # in two passes each use is added by itself
            elif parameter in self._squares:  # taken when the use was found, while it was warm
                if len(self._squares[parameter]) > 1:
                    raise UnsupportedLayerError(
                        "a parameter was used more often in the backward pass than in the forward pass, so that the "
                        "norms of single examples are not known: something runs a layer again without its being seen. "
                        "Take that away, or choose mode='book_keeping'"
                    )
                squares = self._squares[parameter][0]
            else:
                squares = uses[0].squares(self.budget)
            total += squares.norms
            layers[parameter] = squares.norms
            if squares.magnitudes is not None:
                magnitude_squares += squares.magnitudes.square()
                self.layer_magnitudes[parameter] = squares.magnitudes
            if squares.terms is not None:
                unsettled.append((parameter, SumOfUses(self._uses.get(parameter, [])), squares))
        for parameter, found in self._slow_squares(num_examples, device).items():
            total += found
            layers[parameter] = found
            if parameter in self._uses:
                self.layer_magnitudes[parameter] = found.sqrt() + 2 * SumOfUses(self._uses[parameter]).magnitudes()
                magnitude_squares += self.layer_magnitudes[parameter].square()
        self.magnitudes = magnitude_squares.sqrt()
        cancelled = [_is_cancelled(squares).any() for *_, squares in unsettled]
        self.is_cancelled = torch.stack([total.new_zeros((), dtype=torch.bool), *cancelled]).any()

        def roots() -> torch.Tensor:
            self.layer_norms = {parameter: found.clamp(min=0).sqrt() for parameter, found in layers.items()}
            return total.clamp(min=0).sqrt()

        def settled() -> torch.Tensor:
            for parameter, gradients, squares in unsettled:
                layers[parameter] = _settled(squares, gradients)
                total.add_(layers[parameter] - squares.norms)
            return roots()

        return roots(), settled

    def _slow_squares(self, num_examples: int, device: torch.device) -> dict[torch.nn.Parameter, torch.Tensor]:
        """Returns (B,) float64 squared norms for each slow parameter."""
        trained = [parameter for parameter in self.slow if parameter.requires_grad]
        squares = {p: torch.zeros(num_examples, dtype=torch.float64, device=device) for p in trained}
        for parameter, uses in self._uses.items() if trained else ():  # the backward passes below may run hooks
            for used in uses:
                self._untouched.add(self._places[parameter], used)
        for index, parameter, use in self._slow_uses(num_examples):
            whole = use.instantiate(0, 1)
            if parameter in self._uses:
                others = SumOfUses(self._uses[parameter]).instantiate(index, index + 1)
                whole = whole + others.view(whole.shape)
            squares[parameter][index] = dense_squares(whole)[0]
        self._untouched.check(is_last=False)
        return squares

    def _slow_uses(self, num_examples: int) -> Iterator[tuple[int, torch.nn.Parameter, DenseUse]]:
        """Yields the number of each example, each slow parameter, and its gradient."""
        for index, gradients in self.one_by_one:
            for parameter, gradient in gradients.items():
                use = dense_use(gradient[None])
                if self.fingerprint is not None:
                    self.fingerprint.add_one(parameter, use, index, num_examples)
                yield index, parameter, use

    def fill(self, whole: WholeGradients) -> None:
        """Adds all kept uses to ``whole``."""
        for parameter, uses in self._uses.items():
            for use in uses:
                whole.add(parameter, use)

    def fill_slow(self, whole: WholeGradients) -> None:
        """Adds the gradients of slow parameters to ``whole``."""
        for index, gradients in self.one_by_one:
            for parameter, gradient in gradients.items():
                whole.add_one(parameter, index, gradient)

    def add_slow(self, sums: Sums, factors: Factors) -> None:
        """Adds the weighted sums of the gradients of slow parameters, apart from their uses by rules."""
        for index, parameter, use in self._slow_uses(len(factors.whole)):
            use.add_weighted(sums, parameter, factors.of(parameter)[index : index + 1], self._scratch)

    def add_weighted(self, sums: Sums, factors: Factors) -> None:
        """Adds the weighted sums of all kept uses, and frees them one by one."""
        self._untouched.check()
        for parameter in list(self._uses):
            for use in self._uses.pop(parameter):
                use.add_weighted(sums, parameter, factors.of(parameter), self._scratch)


def _is_cancelled(squares: Squares) -> torch.Tensor:
    assert squares.terms is not None  # noqa: S101
    return squares.norms < _CANCELLED * squares.terms


def _settled(squares: Squares, gradients: Gradients) -> torch.Tensor:
    """Returns the squared norms. Those that have lost digits are computed again from the gradients themselves."""
    if squares.terms is None:
        return squares.norms
    norms = squares.norms.clone()
    for index in _is_cancelled(squares).nonzero().flatten().tolist():
        norms[index] = dense_squares(gradients.instantiate(index, index + 1))[0]
    return norms
