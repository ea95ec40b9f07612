"""The gradient engine: from the losses of examples to the sum of their clipped gradients."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, TypeVar

import torch

from pipelines.dp.attach import attach
from pipelines.dp.cancellation import WholeGradients, cancelling
from pipelines.dp.clipping import ClippingName, Factors, check_max_grad_norm, factors_of, within_limits
from pipelines.dp.compositions import separate_losses
from pipelines.dp.errors import LossError, UnsupportedLayerError
from pipelines.dp.observation import Clipped, Observation, check_finite, check_losses, mean_gradient, not_finite
from pipelines.dp.one_by_one import check_settled, check_unchanged, settle, uncaught
from pipelines.dp.products import full_products
from pipelines.dp.random_states import repeatable
from pipelines.dp.repeats import Directions, Fingerprint, check_repeated
from pipelines.dp.state import StateGuard
from pipelines.dp.tape import Phase, Tape
from pipelines.dp.uses import MemoryBudget, Sums
from pipelines.errors import PrivacyGateError

ModeName = Literal["book_keeping", "two_pass"]
T = TypeVar("T")


class GradientEngine:
    """Adds up clipped per-example gradients of a model, without instantiating large ones.

    Formal guarantees, for any batch in which an example's loss and gradient depend on that example only:
        * every example's share of the sum has norm at most max_grad_norm (1 + 1e-6) in float32 (1e-13 in float64),
          shared parameters, adapters and recurrences included. Terms that would round too coarsely, because they are
          huge and cancel, are added up separately in float64 (`pipelines.dp.cancellation`). Below that limit their
          rounding adds less than 1e-4 max_grad_norm in float32;
        * the share is the example's gradient times its clip factor, to 1e-5 relative in float32;
        * a trainable parameter that is used outside a layer with a rule raises: nothing is ever left out silently.
    The engine checks three of the conditions that they rest on:
        * on the first batch of two or more, and when a layer first runs later, losses of sets of examples are traced
          back. If the gradient of any other example is not exactly zero, training stops. For each ordered pair of
          examples some set holds the first and not the second;
        * in every batch, no buffer changes in the forward pass, and no module is in a mode that mixes or remembers
          examples (`StateGuard`);
        * in every batch, there are as many losses as examples.
    A coupling of examples through values alone leaves no trace in a graph. `pipelines.dp.isolation` finds it: the
    model runs again, on the same examples in batches of other compositions.

    Under reduced precision the layers' inputs and output gradients are taken as computed, in bfloat16. Norms and sums
    are float32, even if `torch.set_float32_matmul_precision` allows less (`pipelines.dp.products`).

    An example with zero gradient adds nothing. A loss or norm that is not finite raises and adds nothing.

    Modes: ``book_keeping`` does one backward pass and keeps layer inputs and output gradients till the norms are
    known (Bu et al. 2022), or the examples' gradients if these are about as small. ``two_pass`` is the ghost clipping
    of Li et al. 2022, section 4: a first backward pass for the norms, and a second one for the weighted sum, with
    nothing kept in between. The sums are the same. `pipelines.dp.repeats` compares the gradients of both passes.

    Use: run the model inside `recording`, pass the losses to `backward`, and take the sums with `take_sums`.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        *,
        max_grad_norm: float,
        clipping: ClippingName = "flat",
        mode: ModeName = "book_keeping",
        budget: MemoryBudget | None = None,
    ) -> None:
        """Attaches the engine to a model.

        Raises:
            ValueError: an argument out of range.
            UnsupportedLayerError: a trainable parameter without a rule.
            IsolationError: a module that mixes or remembers examples is in training mode.
        """
        check_max_grad_norm(max_grad_norm)
        if mode not in ("book_keeping", "two_pass"):
            raise ValueError(f"unknown mode {mode!r}; known are book_keeping and two_pass")
        factors_of(torch.zeros(1), {}, 1, max_grad_norm, clipping, torch.float32)
        self._model = model
        self._max_grad_norm = max_grad_norm
        self._clipping: ClippingName = clipping
        self._mode = mode
        self._budget, self._tape = budget, Tape(budget or MemoryBudget())
        self._directions = Directions()
        self._tape.directions = self._directions if mode == "two_pass" else None
        self._sums = Sums()
        self._num_within: float | torch.Tensor = 0.0  # a tensor: a number would wait for a GPU
        self._is_traced = False
        self._slow: dict[torch.nn.Parameter, str] = {}
        self._unruled: set[torch.nn.Module] = set()
        self._traced: set[torch.nn.Parameter] = set()
        self._discovered: set[torch.nn.Parameter] = set()  # whose uses outside layers with a rule are known
        self._named: list[tuple[str, torch.nn.Parameter]] = []
        self._held: set[torch.nn.Parameter] = set()  # the trainable ones of the batch
        self._trained = frozenset(name for name, p in model.named_parameters() if p.requires_grad)
        if not any(p.requires_grad for p in model.parameters()):
            raise UnsupportedLayerError("the model has no trainable parameter; set requires_grad_(True) on some")
        self.detach = attach(model, self._tape)  # takes the rules off the model
        try:
            self._guard = StateGuard(model)
        except BaseException:
            self.detach()
            raise

    @property
    def max_grad_norm(self) -> float:
        """The largest norm of an example's share."""
        return self._max_grad_norm

    @max_grad_norm.setter
    def max_grad_norm(self, value: float) -> None:
        """Sets the norm for the next step. Values outside 1e-12 to 1e12 are moved to the nearer limit.

        Raises:
            ValueError: the norm is not a number.
            PrivacyGateError: some gradients of the step were added already, clipped to the old norm.
        """
        if self._sums.is_begun:
            raise PrivacyGateError("max_grad_norm cannot change within a step; set it after optimizer.step()")
        self._max_grad_norm = within_limits(value)

    @property
    def model(self) -> torch.nn.Module:
        """The model that the engine is attached to."""
        return self._model

    @property
    def parameters(self) -> list[torch.nn.Parameter]:
        """The trainable parameters, each once."""
        return [p for p in self._model.parameters() if p.requires_grad]

    @contextlib.contextmanager
    def recording(self, batch_size: int | None = None) -> Iterator[None]:
        """Runs forward passes under the engine's rules. Outside, the model trains and runs as usual.

        Args:
            batch_size: number of examples in the batch; unset: as the first layer sees it.
        """
        self.start(batch_size)
        try:
            yield
        finally:
            self.stop()

    def start(self, batch_size: int | None = None, *, compare_contents: bool = False) -> None:
        """Begins recording a batch.

        Args:
            batch_size: number of examples in the batch; unset: as the first layer sees it.
            compare_contents: true if `backward` also compares the values of parameters and buffers, at the cost of two
                passes over them.
        """
        self._guard.start(contents=compare_contents)
        self._tape.reset()
        self._tape.budget = self._budget or MemoryBudget.of(next(self._model.parameters()).device)
        self._tape.batch_size = batch_size
        self._tape.phase = Phase.FORWARD

    @property
    def contents(self) -> dict[str, int] | None:
        """A number for the values of each parameter and buffer at `start`; None if contents are not compared."""
        return self._guard.contents

    def stop(self) -> None:
        """Ends recording."""
        if self._tape.phase is Phase.FORWARD:
            self._tape.phase = Phase.OFF

    def backward(self, losses: torch.Tensor) -> Clipped:
        """Adds the clipped gradients of the examples to the sums.

        Args:
            losses: (B,) loss of each example of the last forward pass inside `recording`, each depending on its
                own example only.

        Raises:
            LossError: there is not one loss for each example, or a value is not finite; nothing was added.
            IsolationError: the losses of examples depend on each other, the example axis is not the first, or the
                forward pass changed a buffer.
            UnsupportedLayerError: a trainable parameter is used outside the layers with a rule.
        """
        if losses.dim() == 1 and not len(losses):
            return Clipped(losses.detach().double(), losses.detach().double(), losses.detach())
        return self._with_losses(losses, self._clip)

    def add_together(self, losses: Iterable[torch.Tensor], count: int) -> float:
        """Adds the gradient of the mean of several losses, clipped as the gradient of one example.

        So all of these examples together move the sums by max_grad_norm at most. Nobody else's may be among them.

        Args:
            losses: (B,) losses of some of the examples, batch after batch, each computed when it is asked for, outside
                `recording`.
            count: number of all these examples.

        Returns:
            The mean loss. Private.

        Raises:
            LossError: there are not ``count`` losses, or a value is not finite; nothing was added.
            IsolationError: the forward pass changed a buffer.
        """
        self._guard.start(contents=False)
        mean, gradients = mean_gradient(self.parameters, losses, count)
        self._guard.check()
        found = {p: gradient.to(self._dtype) for p, gradient in gradients.items()}
        layers = {p: torch.linalg.vector_norm(g.double()).view(1) for p, g in found.items()}
        if layers:
            norms: torch.Tensor = torch.linalg.vector_norm(torch.stack(list(layers.values())), dim=0)
            check_finite(norms)
            factors = self._factors(norms, layers)
            for parameter, gradient in found.items():
                self._sums.of(parameter).add_(gradient * factors.of(parameter).to(gradient.dtype))
            self._count_within(norms)
        return mean

    def observe(self, losses: torch.Tensor) -> Observation:
        """Returns losses, gradient norms and projections of the examples. Adds nothing to the sums.

        Takes (B,) losses as `backward` does, B at least 1, and raises the same errors.
        """
        return self._with_losses(losses, self._observe)

    def trace_next(self) -> None:
        """Makes the engine trace the next batch of two or more again."""
        self._is_traced = False

    def _with_losses(self, losses: torch.Tensor, work: Callable[[torch.Tensor], T]) -> T:
        check_losses(losses)
        tape = self._tape
        tape.batch_size = len(losses) if tape.batch_size is None else tape.batch_size
        if tape.batch_size != len(losses):
            tape.slow, tape.unruled = dict(self._slow), set(self._unruled)  # no fault of the layers
            tape.newly_unruled.clear()
            raise LossError(f"{len(losses)} losses for a batch of {tape.batch_size} examples; give one for each")
        self._named = list(self._model.named_parameters())  # once: it takes as long as some layers
        held = [(p, p.grad) for _, p in self._named if p.requires_grad]
        self._held = {p for p, _ in held}
        try:
            self._guard.check()
            for parameter, _ in held:
                parameter.grad = None
            with torch.autocast(losses.device.type, enabled=False), full_products():
                self._trace(losses)
                tape.traced = None
                self._slow = settle(self._named, tape, self._slow, losses)
                self._unruled = set(tape.unruled)
                return work(losses)
        finally:
            tape.phase = Phase.OFF
            tape.reset()
            for parameter, gradient in held:
                parameter.grad = gradient

    def _trace(self, losses: torch.Tensor) -> None:
        """Traces sets of losses back, once. Sets are used because a pass for each example would take B passes."""
        is_new = bool(self._held - self._discovered)  # at first, and after parameters were unfrozen
        if len(losses) > 1:  # or after layers ran that had in no traced batch: a branch, an expert
            is_new = is_new or not self._is_traced or bool(self._tape.calls() - self._traced)
        if not is_new:
            return
        check_finite(losses.detach())
        for self._tape.traced, loss in separate_losses(losses):
            self._run(Phase.TRACE, loss, retain_graph=True)
        self._discovered |= self._held
        self._is_traced = len(losses) > 1
        self._traced |= self._tape.calls() if len(losses) > 1 else set()

    def _clip(self, losses: torch.Tensor) -> Clipped:
        tape, is_kept = self._tape, self._mode == "book_keeping"
        first, second = (Fingerprint(self._directions) if self._is_repeated else None for _ in range(2))
        tape.fingerprint = first
        self._run(
            Phase.KEEP if is_kept else Phase.NORMS_ONLY, losses.sum(), retain_graph=not is_kept or bool(self._slow)
        )
        norms, batch_factors, apart, is_any = self._norms_and_factors(losses)
        factors, shared = batch_factors.whole.clone(), batch_factors.without(apart)
        tape.fingerprint = None
        try:
            if is_any:
                self._add_apart(losses, apart.nonzero().flatten().tolist(), norms, factors)
            tape.fingerprint = second
            if is_kept:
                with torch.no_grad():
                    tape.add_weighted(self._sums, shared)
            else:  # the same backward pass again: one of weighted losses would round differently in bfloat16
                tape.sums, tape.factors = self._sums, shared
                self._run(Phase.SUM, losses.sum(), retain_graph=bool(self._slow))
            tape.add_slow(self._sums, shared)
            if first is not None and second is not None:
                names = {parameter: name for name, parameter in self._named}
                check_repeated(first, second, shared, self._max_grad_norm, self._dtype, names)
        except BaseException:  # the batch was added in part, and would count twice if it came again
            self._sums, self._num_within = Sums(), 0.0
            raise
        self._count_within(norms)
        return Clipped(norms, factors, losses.detach())

    def _add_apart(self, losses: torch.Tensor, chosen: list[int], norms: torch.Tensor, factors: torch.Tensor) -> None:
        """Adds examples whose terms are too large for a sum of the batch, in float64. Sets their norms and factors."""
        tape = self._tape
        step = max(1, tape.budget.kept_bytes // (8 * sum(p.numel() for p in self._held)))
        for at in range(0, len(chosen), step):
            examples = chosen[at : at + step]
            tape.whole = whole = WholeGradients(examples)
            if self._mode == "book_keeping":
                tape.fill(whole)
            else:
                self._run(Phase.WHOLE, losses.sum(), retain_graph=True)
            tape.fill_slow(whole)
            norms[examples] = whole.norms()
            check_finite(norms)
            found = self._factors(norms[examples], whole.layer_norms())
            factors[examples] = found.whole
            whole.add_weighted(self._sums, found)

    def _observe(self, losses: torch.Tensor) -> Observation:
        tape = self._tape
        tape.fingerprint = fingerprint = Fingerprint(self._directions)
        tape.roundoff = torch.finfo(losses.dtype).eps
        self._run(Phase.NORMS_ONLY, losses.sum(), retain_graph=bool(self._slow))
        norms, *_ = self._norms_and_factors(losses)
        projections = fingerprint.total(norms).cpu()
        return Observation(losses.detach().double().cpu(), norms.cpu(), projections, tape.roundoff)

    @property
    def _is_repeated(self) -> bool:
        """True if norms and sums come from different backward passes."""
        return self._mode == "two_pass" or bool(self._slow)

    def _run(self, phase: Phase, loss: torch.Tensor, retain_graph: bool = False) -> None:
        self._tape.phase = phase
        with repeatable(phase is not Phase.TRACE and self._is_repeated):
            loss.backward(retain_graph=retain_graph)  # type: ignore[no-untyped-call]
        is_first = phase is Phase.TRACE and self._tape.was_called
        for name, parameter in self._named:
            if parameter.requires_grad and parameter.grad is not None:
                if name not in self._trained or not (is_first or parameter in self._slow):
                    raise uncaught(name, is_new=name not in self._trained, has_run=self._tape.was_called)
                self._tape.slow.setdefault(parameter, "it is used outside a layer with a rule")
                parameter.grad = None
        if phase is not Phase.TRACE:
            check_settled(self._tape, self._slow)
        check_unchanged(self._named, self._held)

    def _norms_and_factors(self, losses: torch.Tensor) -> tuple[torch.Tensor, Factors, torch.Tensor, bool]:
        """Returns (B,) norms, their factors, a mask of examples to be added in float64, and if there are any."""
        with torch.no_grad():
            norms, settled = self._tape.rough_norms(len(losses), losses.device)
            factors, apart, (is_finite, is_any, is_cancelled) = self._judged(norms, losses)
            if is_cancelled:
                norms = settled()
                factors, apart, (is_finite, is_any, _) = self._judged(norms, losses)
        if not is_finite:
            self._is_traced = False  # gradients that are not finite show nothing
            raise not_finite()
        return norms, factors, apart, is_any

    def _judged(self, norms: torch.Tensor, losses: torch.Tensor) -> tuple[Factors, torch.Tensor, list[bool]]:
        """Returns factors, the mask, and three answers for which a GPU is waited for once: finite, any, cancelled."""
        tape = self._tape
        assert tape.magnitudes is not None  # noqa: S101
        factors = self._factors(norms, tape.layer_norms)
        magnitudes = factors.magnitudes(tape.magnitudes, tape.layer_magnitudes)
        apart = cancelling(magnitudes, self._max_grad_norm, self._dtype)
        finite = torch.isfinite(losses.detach()).all() & torch.isfinite(norms).all()
        answers: list[bool] = torch.stack([finite, apart.any(), tape.is_cancelled]).tolist()
        return factors, apart, answers

    def _factors(self, norms: torch.Tensor, layer_norms: Mapping[torch.nn.Parameter, torch.Tensor]) -> Factors:
        count = len(self.parameters) if self._clipping == "per_layer" else 0
        return factors_of(norms, layer_norms, count, self._max_grad_norm, self._clipping, self._dtype)

    @property
    def _dtype(self) -> torch.dtype:
        """The coarsest dtype of the sums."""
        trained = (p for p in self._model.parameters() if p.requires_grad)
        return torch.float64 if all(p.dtype == torch.float64 for p in trained) else torch.float32

    def take_sums(self) -> list[torch.Tensor]:
        """Returns and resets the clipped sums since the last call, one for each parameter, float32 or float64."""
        taken = [self._sums.of(p) for p in self.parameters]
        self._sums = Sums()
        self._num_within = 0.0
        return taken

    def _count_within(self, norms: torch.Tensor) -> None:
        self._num_within = self._num_within + (norms <= self._max_grad_norm).double().sub(0.5).sum()

    @property
    def num_within(self) -> float:
        """Number of examples within the clipping norm since `take_sums`, less one half for each example. Private."""
        return float(self._num_within)
