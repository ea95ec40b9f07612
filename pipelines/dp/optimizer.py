"""DP-SGD, DP-Adam, DP-AdamW: any optimizer of torch, on noisy clipped sums instead of gradients."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from pipelines.dp.batch import Batch
from pipelines.dp.clipping import AdaptiveClipping
from pipelines.dp.compositions import Composition
from pipelines.dp.errors import IsolationError
from pipelines.dp.gradients import GradientEngine
from pipelines.dp.isolation import IsolationProbe
from pipelines.dp.noisy_steps import noisy_step
from pipelines.dp.observation import Clipped
from pipelines.dp.optimizer_checks import StandIns, check_trained
from pipelines.dp.ranks import ALONE, Ranks
from pipelines.dp.schedules import RateGuard, StepSchedule
from pipelines.errors import ConfigError, PrivacyGateError


class PrivateOptimizer(torch.optim.Optimizer):
    """A wrapper of an optimizer, for a loop over `pipelines.dp.sampling.PoissonLoader`.

    ``backward(losses)`` replaces ``loss.backward()``. ``step()`` takes a step once a sample is complete. After a
    physical batch that is not the sample's last, it does nothing. Pass a scheduler of learning rates to `schedule`, so
    that it counts noisy steps. Put anything else that runs after each step into ``register_step_post_hook``.

    Formal guarantees: one loss for each record of a batch, each batch once, and none left out. Anything else raises,
    and the current sample is then lost. `IsolationProbe` compares examples before the first step, and again between
    later steps.

    Attributes:
        num_steps: number of noisy steps taken.
        notes: descriptions of what the comparison of examples could not compare.
        last: result of the last physical batch. Private: norms and losses of single examples, un-noised.
    """

    def __init__(  # the wrapped optimizer holds groups and state
        self,
        optimizer: torch.optim.Optimizer,
        engine: GradientEngine,
        *,
        noise_multiplier: float,
        expected_batch_size: float,
        before_step: Callable[[], None],
        ranks: Ranks = ALONE,
        adaptive: AdaptiveClipping | None = None,
    ) -> None:
        """Args:
        optimizer: optimizer of the trainable parameters.
        engine: engine that is attached to the model.
        noise_multiplier: noise standard deviation over max_grad_norm, >= 0.
        expected_batch_size: divisor of the sums.
        before_step: function called before each noisy step. It counts the step, and raises if no more is allowed.
        ranks: processes that take steps together.
        adaptive: settings of an adaptive clipping norm; None: a fixed norm.
        """
        self._adaptive = adaptive
        self._inner = optimizer
        self._engine = engine
        self._noise_multiplier = noise_multiplier
        self._expected_batch_size = expected_batch_size
        self._before_step = before_step
        self._ranks = ranks
        self._batch: Batch | None = None
        self._probe: IsolationProbe | None = None
        self._first_probe: IsolationProbe | None = None
        self._is_coupled = False
        self.notes: tuple[str, ...] = ()
        self.num_steps = 0
        self.last: Clipped | None = None
        self._rates = RateGuard()
        self._stand_ins = StandIns(engine.parameters)
        self._optimizer_step_post_hooks: OrderedDict[int, Any] = OrderedDict()  # torch's own registration fills it

    _is_accelerate_prepared = True  # accelerate.prepare then returns the optimizer as it is, with its backward
    step_was_skipped = False  # accelerate and trainers read it

    @property
    def optimizer(self) -> PrivateOptimizer:
        """This optimizer: accelerate looks for the one that it would have wrapped."""
        return self

    @property
    def model(self) -> torch.nn.Module:
        """The model that the engine is attached to."""
        return self._engine.model

    @property
    def is_adaptive(self) -> bool:
        """True if the clipping norm changes from step to step."""
        return self._adaptive is not None

    @property
    def expected_batch_size(self) -> float:
        """Number of records in an average step, over all processes. Divides the noisy sum."""
        return self._expected_batch_size

    @property
    def noise_multiplier(self) -> float:
        """Noise standard deviation over max_grad_norm, as given to `make_private`."""
        return self._noise_multiplier

    @noise_multiplier.setter
    def noise_multiplier(self, value: float) -> None:
        raise ConfigError(
            "noise_multiplier is set in make_private, whose epsilon counts with it, and stays. For other noise, call "
            "make_private of another PrivacyEngine, and add up what both of them spent"
        )

    @property
    def max_grad_norm(self) -> float:
        """The clipping norm of the next step. An adaptive one follows from what was released, and may be published."""
        return self._engine.max_grad_norm

    @max_grad_norm.setter
    def max_grad_norm(self, value: float) -> None:
        self._engine.max_grad_norm = value

    @property
    def param_groups(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The parameter groups of the wrapped optimizer."""
        return self._inner.param_groups

    @property
    def state(self) -> Any:  # type: ignore[override]
        """The state of the wrapped optimizer."""
        return self._inner.state

    @property
    def defaults(self) -> dict[str, Any]:  # type: ignore[override]
        """The defaults of the wrapped optimizer."""
        return self._inner.defaults

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("a private optimizer is not copied; save its state_dict")

    def __repr__(self) -> str:
        return f"PrivateOptimizer({self._inner!r})"

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of the wrapped optimizer: moments of noisy sums, which cost no further privacy."""
        return self._inner.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads a state into the wrapped optimizer."""
        self._inner.load_state_dict(state_dict)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clears the gradients of the wrapped optimizer. Unfinished sums are not gradients and stay."""
        self._stand_ins.remove()
        self._inner.zero_grad(set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Raises ConfigError: the engine is attached to the parameters of `make_private`."""
        raise ConfigError("parameter groups are set before make_private, not after")

    def register_step_pre_hook(self, hook: Any) -> Any:
        """Raises ConfigError: calls of `step` before the sample is complete have no gradients yet."""
        raise ConfigError(
            "a private optimizer has no hooks before a step: use optimizer.register_step_post_hook, which runs after "
            "each noisy step, or register the hook on the optimizer that make_private is given"
        )

    def schedule(self, scheduler: torch.optim.lr_scheduler.LRScheduler) -> StepSchedule:
        """Makes a scheduler count noisy steps: it is stepped after each one, those of empty samples included.

        Args:
            scheduler: scheduler of ``torch.optim.lr_scheduler``, built on this optimizer or on the wrapped one.

        Returns:
            A replacement for loops and trainers that call ``step()`` after every batch.

        Raises:
            ConfigError: the scheduler needs a metric, or is no scheduler of torch.
        """
        schedule = StepSchedule(scheduler)
        self.register_step_post_hook(lambda *_: scheduler.step())
        return schedule

    @property
    def is_probing(self) -> bool:
        """True if the current batch is only compared and enters no step."""
        return self._batch is not None and self._batch.rng is None

    @property
    def num_compared(self) -> int:
        """The number of batches compared so far, of those before the first step."""
        return 0 if self._first_probe is None else self._first_probe.num_compared

    @property
    def is_compared(self) -> bool:
        """True if examples were compared before the first step, and never found to depend on each other since."""
        return self._first_probe is not None and self._first_probe.position is None and not self._is_coupled

    def begin_batch(self, rng: np.random.Generator, *, is_last: bool, num_records: int) -> None:
        """Begins a physical batch, and records the model from here on.

        Raises:
            PrivacyGateError: examples were not compared to the end, or were found to depend on each other.
        """
        if self._is_coupled:
            raise PrivacyGateError(
                "examples were found to depend on each other after steps had been taken; begin anew, with a new engine"
            )
        if self._probe is not None and self._probe.position is not None:
            raise PrivacyGateError("no step is taken before examples were compared; begin the loop again")
        self._batch = Batch(num_records, rng, is_last)
        self._engine.start(num_records)

    def start_probe(
        self, compositions: Sequence[Composition], notes: tuple[str, ...] = (), *, is_later: bool = False
    ) -> None:
        """Begins a comparison: the next batches are these, and they enter no step.

        Args:
            compositions: batches to compare.
            notes: descriptions of what could not be compared before.
            is_later: true if steps were taken already.
        """
        self._probe = IsolationProbe(self._engine, compositions, self.notes if is_later else notes, is_later=is_later)
        if not is_later:
            self._first_probe = self._probe

    def begin_probe_batch(self) -> int | None:
        """Begins the next batch of the comparison.

        Returns:
            Its number, or None when all were compared.
        """
        assert self._probe is not None  # noqa: S101
        if self._probe.position is None:
            self.notes = self._probe.notes
            return None
        with self._noting_coupling():
            number = self._probe.begin()
        self._batch = Batch(self._probe.size(number), None, is_last=False)
        return number

    @contextlib.contextmanager
    def _noting_coupling(self) -> Iterator[None]:
        try:
            yield
        except IsolationError:
            self._is_coupled = self.num_steps > 0  # the examples of those steps may have been coupled too
            raise

    def abandon(self) -> None:
        """Drops an unfinished sample. If its sum stayed, a record could enter the next step twice."""
        self._engine.stop()
        self._stand_ins.remove()
        self._engine.take_sums()
        self._batch = None
        self._rates.forget()
        if self._probe is not None:
            self._probe.pause()
        self._probe = self._first_probe  # an unfinished later comparison is dropped

    def end_batch(self) -> None:
        """Ends the current batch.

        Raises:
            PrivacyGateError: its losses were not passed to ``backward``, or ``step()`` was not called after it. The sum
                would leak into the next step, where the same record may enter again.
        """
        self._engine.stop()
        batch = self._batch
        if batch is None:
            return
        batch.check_added()
        if not batch.is_stepped and (batch.is_last or batch.rng is None):
            raise PrivacyGateError("call optimizer.step() after every batch of a private loader")

    def begin_empty(self, rng: np.random.Generator) -> None:
        """Begins a sample without records. The next call of ``step`` takes a step of noise alone."""
        self._batch = Batch(0, rng, is_last=True, is_begun=True, is_added=True)

    def backward(self, losses: torch.Tensor) -> torch.Tensor:
        """Adds the clipped gradients of a physical batch. Replaces ``loss.backward()``.

        Args:
            losses: (B,) loss of each record of the batch, in the order of the records.

        Returns:
            The mean of the losses, detached, for progress bars. Private, un-noised. Its own ``backward()`` does
            nothing, so that a trainer may use it as the loss.

        Raises:
            PrivacyGateError: called twice for a batch, or outside a loop over the private loader; more or fewer losses
                than the batch has records.
            IsolationError: examples depend on each other: see `pipelines.dp.isolation`.
            LossError, UnsupportedLayerError: see `GradientEngine.backward`.
        """
        batch = self._batch
        if batch is None or batch.is_begun:
            raise PrivacyGateError(
                "call backward once for each batch of the private loader: a record may enter a step once only"
            )
        if losses.dim() == 1 and len(losses) != batch.num_records:
            raise PrivacyGateError(
                f"{len(losses)} losses for a batch of {batch.num_records} records: one record has to be one example, "
                "for each example may add max_grad_norm to the sum. Let the data set, not the collate function, cut "
                "texts into records; give one that has nothing to learn from a loss of 0, and do not leave it out"
            )
        check_trained(self._inner, self.model)
        batch.is_begun = True
        with self._noting_coupling():
            if batch.rng is not None:
                self.last = self._engine.backward(losses)
            else:
                assert self._probe is not None  # noqa: S101
                seen = self._probe.take(losses)
                self.last = Clipped(seen.norms, torch.zeros_like(seen.norms), losses.detach())
        batch.is_added = True
        self._stand_ins.put()
        return self.last.losses.mean().requires_grad_()

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Takes a noisy step if the batch was the sample's last. Does nothing otherwise.

        Raises:
            ConfigError: a closure was given. It would run the model without the engine.
            PrivacyGateError: outside a loop over the private loader, before ``backward``, or when the planned steps
                are used up.
        """
        if closure is not None:
            raise ConfigError("a private step takes no closure")
        batch = self._batch
        if batch is None or batch.is_stepped:
            raise PrivacyGateError("step() goes with a batch of the private loader, once each")
        batch.check_added()
        self._rates.see(self.param_groups)
        batch.is_stepped = True
        self._stand_ins.remove()
        if batch.is_last and batch.rng is not None:
            self._take_step(batch.rng)

    def _take_step(self, rng: np.random.Generator) -> None:
        self._before_step()
        noisy_step(
            self._inner,
            self._engine,
            noise_multiplier=self._noise_multiplier,
            expected_batch_size=self._expected_batch_size,
            rng=rng,
            ranks=self._ranks,
            adaptive=self._adaptive,
        )
        self.num_steps += 1
        self._rates.forget()
        self._opt_called = True  # schedulers of torch check it, and the loader takes steps of empty samples
        for hook in list(self._optimizer_step_post_hooks.values()):
            hook(self, (), {})
