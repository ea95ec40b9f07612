"""From the losses of examples to the sum of their clipped gradients."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch

from pipelines.training.engine.attach import attach
from pipelines.training.engine.clipping import ClippingName, clip_factors
from pipelines.training.engine.errors import LossError, UnsupportedLayerError
from pipelines.training.engine.tape import Phase, Tape
from pipelines.training.engine.uses import MemoryBudget, Sums

ModeName = Literal["book_keeping", "two_pass"]


@dataclass(frozen=True)
class Clipped:
    """What a physical batch brought. Private: it describes single examples.

    Attributes:
        norms: (B,) float64 gradient norms before clipping.
        factors: (B,) float64, what each gradient was multiplied with.
        losses: (B,) the losses, detached.
    """

    norms: torch.Tensor
    factors: torch.Tensor
    losses: torch.Tensor


class GradientEngine:
    """Adds up clipped per-example gradients of a model, instantiating none that is large.

    Formal guarantees, for any batch in which an example's loss depends on that example only (which is checked on the
    first batch of two or more, exactly, by tracing the first and the last example's losses):
        * every example's share of the sum has norm at most max_grad_norm (1 + 1e-6) in float32 (1e-13 in float64),
          shared parameters, adapters and recurrences included;
        * the share is the example's gradient times its clip factor, to 1e-5 relative in float32;
        * a trainable parameter that is used outside a layer with a rule raises: nothing is ever left out silently.
    Under reduced precision the layers' inputs and output gradients are taken as they were computed, in bfloat16;
    norms and sums are float32.

    Edge cases: an example with zero gradient contributes nothing; a loss or norm that is not finite raises and adds
    nothing; a batch of no examples adds nothing.

    Modes: ``book_keeping`` does one backward pass and keeps layer inputs and output gradients till the norms are
    known (Bu et al. 2022), or the gradients of the examples where they are about as small. ``two_pass`` is the ghost
    clipping of Li et al. 2022, section 4: a first backward pass for the norms, a second one for the weighted sum,
    with nothing kept in between. The sums are the same.

    Use: build it, run the model inside `recording`, hand the losses to `backward`, take the sums with `take_sums`.
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
        """
        if not 0 < max_grad_norm < float("inf"):
            raise ValueError(f"max_grad_norm must be a finite number above 0, not {max_grad_norm}")
        if mode not in ("book_keeping", "two_pass"):
            raise ValueError(f"unknown mode {mode!r}; known are book_keeping and two_pass")
        clip_factors(torch.zeros(1), max_grad_norm, clipping, torch.float32)
        self._model = model
        self._max_grad_norm = max_grad_norm
        self._clipping: ClippingName = clipping
        self._mode = mode
        self._tape = Tape(budget or MemoryBudget())
        self._sums = Sums()
        self._is_isolated = False
        if not any(p.requires_grad for p in model.parameters()):
            raise UnsupportedLayerError("the model has no trainable parameter; set requires_grad_(True) on some")
        self._detach = attach(model, self._tape)

    @property
    def max_grad_norm(self) -> float:
        """What the norm of an example's share is at most."""
        return self._max_grad_norm

    @property
    def parameters(self) -> list[torch.nn.Parameter]:
        """The trainable parameters, each once."""
        return [p for p in self._model.parameters() if p.requires_grad]

    def detach(self) -> None:
        """Takes the rules off the model."""
        self._detach()

    @contextlib.contextmanager
    def recording(self, batch_size: int | None = None) -> Iterator[None]:
        """Runs forward passes under the engine's rules; outside, the model is trained and used as ever.

        Args:
            batch_size: examples in the batch; unset: as the first layer sees it.
        """
        self.start(batch_size)
        try:
            yield
        finally:
            self.stop()

    def start(self, batch_size: int | None = None) -> None:
        """Begins recording a batch; see `recording`."""
        self._tape.reset()
        self._tape.batch_size = batch_size
        self._tape.phase = Phase.FORWARD

    def stop(self) -> None:
        """Ends recording."""
        if self._tape.phase is Phase.FORWARD:
            self._tape.phase = Phase.OFF

    def backward(self, losses: torch.Tensor) -> Clipped:
        """Adds the clipped gradients of the examples to the sums.

        Args:
            losses: (B,) one loss for each example of the last forward pass inside `recording`, each depending on its
                own example only.

        Raises:
            LossError: not one loss for each example, or a value that is not finite; nothing was added.
            IsolationError: the losses of examples depend on each other, or the example axis is not the first.
            UnsupportedLayerError: a trainable parameter is used outside the layers with a rule.
        """
        if losses.dim() != 1:
            raise LossError(
                f"give the loss of each example, a tensor with one axis, not one with {losses.dim()}: a mean over the "
                "batch hides the examples. Normalise inside each example, for instance with reduction='none'"
            )
        values = losses.detach()
        if not len(losses):
            empty = values.double()
            return Clipped(empty, empty, values)
        _check_finite(values)
        if losses.grad_fn is None:
            raise LossError("the losses carry no gradient: run the model inside `recording`, with gradients enabled")
        tape = self._tape
        if tape.batch_size is None:
            tape.batch_size = len(losses)
        if tape.batch_size != len(losses):
            raise LossError(f"{len(losses)} losses for a batch of {tape.batch_size} examples; give one for each")
        held = [(p, p.grad) for p in self.parameters]
        try:
            with torch.autocast(losses.device.type, enabled=False):
                return self._clip(losses, values)
        finally:
            tape.phase = Phase.OFF
            tape.reset()
            for parameter, gradient in held:
                parameter.grad = gradient

    def _clip(self, losses: torch.Tensor, values: torch.Tensor) -> Clipped:
        tape = self._tape
        for parameter in self.parameters:
            parameter.grad = None
        is_probing = not self._is_isolated and len(losses) > 1
        if is_probing:
            for probed in (0, len(losses) - 1):
                tape.probed = probed
                self._run(Phase.PROBE, losses[probed], retain_graph=True)
        if self._mode == "book_keeping":
            self._run(Phase.KEEP, losses.sum())
            norms, factors = self._norms_and_factors(values)
            with torch.no_grad():
                tape.add_weighted(self._sums, factors)
        else:
            self._run(Phase.NORMS_ONLY, losses.sum(), retain_graph=True)
            norms, factors = self._norms_and_factors(values)
            # The same backward pass again, not one of weighted losses: in bfloat16 that would round differently, and
            # a share could exceed the bound.
            tape.sums, tape.factors = self._sums, factors
            self._run(Phase.SUM, losses.sum())
        self._is_isolated = self._is_isolated or is_probing
        return Clipped(norms, factors, values)

    def _run(self, phase: Phase, loss: torch.Tensor, retain_graph: bool = False) -> None:
        self._tape.phase = phase
        loss.backward(retain_graph=retain_graph)  # type: ignore[no-untyped-call]
        for name, parameter in self._model.named_parameters():
            if parameter.requires_grad and parameter.grad is not None:
                raise UnsupportedLayerError(
                    f"parameter {name!r} is used outside the layer that holds it (its weight is read directly, or a "
                    "penalty on it is in the loss), so its gradients for single examples are not known. Call the layer "
                    "itself, or freeze the parameter"
                )

    def _norms_and_factors(self, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.no_grad():
            norms = self._tape.norms(len(values), values.device)
        _check_finite(norms)
        dtype = torch.float64 if all(p.dtype == torch.float64 for p in self.parameters) else torch.float32
        return norms, clip_factors(norms, self._max_grad_norm, self._clipping, dtype)

    def take_sums(self) -> list[torch.Tensor]:
        """The clipped sums since the last call, one for each of `parameters`, float32 or float64; starts afresh."""
        taken = [self._sums.of(p) for p in self.parameters]
        self._sums = Sums()
        return taken


def _check_finite(values: torch.Tensor) -> None:
    if not bool(torch.isfinite(values).all()):
        raise LossError(
            "the loss or the gradient of an example is not a finite number; nothing was added. Lower the learning "
            "rate, look for divisions by zero and logarithms of zero in the loss, or use bfloat16 in place of float16"
        )
