"""DP-SGD, DP-Adam, DP-AdamW: any optimizer of torch, handed noisy clipped sums in place of gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from pipelines.errors import ConfigError, PrivacyGateError
from pipelines.training.engine.gradients import Clipped, GradientEngine
from pipelines.training.engine.noise import add_noise
from pipelines.training.engine.ranks import ALONE, Ranks


def noisy_step(
    optimizer: torch.optim.Optimizer,
    engine: GradientEngine,
    *,
    noise_multiplier: float,
    expected_batch_size: float,
    rng: np.random.Generator,
    ranks: Ranks = ALONE,
) -> None:
    """One step on the engine's sums: noise, division by the expected batch size, the optimizer's own step.

    Formal guarantees (Abadi et al. 2016, Algorithm 1): Gaussian noise of standard deviation
    ``noise_multiplier * max_grad_norm`` is added to every coordinate exactly once, whatever was added up, and the
    divisor does not depend on the sample. Weight decay, momentum and moments are post-processing.

    Args:
        optimizer: holds the engine's trainable parameters.
        engine: its sums are taken; under several processes, they are added up over all.
        noise_multiplier: noise standard deviation over the engine's max_grad_norm.
        expected_batch_size: records in an average step, over all processes.
        rng: of the noise. Under several processes only the first one's is used: one draw in total.
        ranks: the processes whose sums belong to one step.
    """
    sums = engine.take_sums()
    deviation = noise_multiplier * engine.max_grad_norm
    if ranks.is_first:
        add_noise(sums, deviation, rng, expected_batch_size)
    else:
        for total in sums:
            total.div_(expected_batch_size)
    ranks.add_up(sums)
    for parameter, total in zip(engine.parameters, sums, strict=True):
        parameter.grad = total.to(parameter.dtype)
    optimizer.step()
    for parameter in engine.parameters:
        parameter.grad = None


class PrivateOptimizer(torch.optim.Optimizer):
    """Wraps an optimizer for a loop over `pipelines.training.engine.sampling.PoissonLoader`.

    ``backward(losses)`` takes the place of ``loss.backward()``. ``step()`` acts once a sample is complete; after
    a physical batch that is not the sample's last it only marks time. Learning-rate schedulers work on it as ever.

    Attributes:
        num_steps: noisy steps taken.
        last: what the last physical batch brought. Private: norms and losses of single examples, un-noised.
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
    ) -> None:
        """Args:
        optimizer: holds the trainable parameters.
        engine: of the model.
        noise_multiplier: noise standard deviation over max_grad_norm, >= 0.
        expected_batch_size: divides the sums.
        before_step: called before each noisy step; it counts the step, and raises where no more is allowed.
        ranks: the processes that take steps together.
        """
        self._inner = optimizer
        self._engine = engine
        self._noise_multiplier = noise_multiplier
        self._expected_batch_size = expected_batch_size
        self._before_step = before_step
        self._ranks = ranks
        self._rng: np.random.Generator | None = None
        self._is_last = False
        self._is_used = True
        self.num_steps = 0
        self.last: Clipped | None = None

    @property
    def param_groups(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """Of the wrapped optimizer."""
        return self._inner.param_groups

    @property
    def state(self) -> Any:  # type: ignore[override]
        """Of the wrapped optimizer."""
        return self._inner.state

    @property
    def defaults(self) -> dict[str, Any]:  # type: ignore[override]
        """Of the wrapped optimizer."""
        return self._inner.defaults

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("a private optimizer is not copied; save its state_dict")

    def __repr__(self) -> str:
        return f"PrivateOptimizer({self._inner!r})"

    def state_dict(self) -> dict[str, Any]:
        """Of the wrapped optimizer: moments of noisy sums, which cost no further privacy."""
        return self._inner.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Into the wrapped optimizer."""
        self._inner.load_state_dict(state_dict)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Of the wrapped optimizer; sums under way are not gradients and stay."""
        self._inner.zero_grad(set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Refused: the engine was attached to the parameters there were."""
        raise ConfigError("parameter groups are set before make_private, not after")

    def begin_batch(self, rng: np.random.Generator, *, is_last: bool) -> None:
        """A physical batch is handed out: what the model does from here on is recorded."""
        self._rng, self._is_last, self._is_used = rng, is_last, False
        self._engine.start()

    def abandon(self) -> None:
        """Forgets a sample that was not finished: had its sum stayed, a record could enter the next step twice."""
        self._engine.stop()
        self._engine.take_sums()
        self._rng, self._is_used = None, True

    def end_batch(self) -> None:
        """The loop is done with the batch.

        Raises:
            PrivacyGateError: the last batch of a sample was not followed by ``step()``; its sum would leak into the
                next step, where the same record may enter again.
        """
        self._engine.stop()
        if self._rng is not None and self._is_last:
            raise PrivacyGateError("call optimizer.step() after every batch of a private loader")

    def empty_step(self, rng: np.random.Generator) -> None:
        """A step whose sample was empty: noise alone."""
        self._rng, self._is_last = rng, True
        self.step()

    def backward(self, losses: torch.Tensor) -> torch.Tensor:
        """Adds the clipped gradients of a physical batch, in place of ``loss.backward()``.

        Args:
            losses: (B,) one loss for each example.

        Returns:
            Their mean, detached, for progress bars. Private, un-noised. Its own ``backward()`` does nothing, so
            that a trainer may be handed it as the loss.

        Raises:
            PrivacyGateError: called twice for a batch, or outside a loop over the private loader.
            LossError, IsolationError, UnsupportedLayerError: see `GradientEngine.backward`.
        """
        if self._is_used:
            raise PrivacyGateError(
                "call backward once for each batch of the private loader: a record may enter a step once only"
            )
        self._is_used = True
        self.last = self._engine.backward(losses)
        return self.last.losses.mean().requires_grad_()

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """A noisy step if the batch was the sample's last; nothing otherwise.

        Raises:
            ConfigError: with a closure, which would run the model out of the engine's sight.
            PrivacyGateError: outside a loop over the private loader, or when the planned steps are used up.
        """
        if closure is not None:
            raise ConfigError("a private step takes no closure")
        if self._rng is None:
            raise PrivacyGateError("step() goes with a batch of the private loader, once each")
        rng, self._rng = self._rng, None
        if not self._is_last:
            return
        self._before_step()
        noisy_step(
            self._inner,
            self._engine,
            noise_multiplier=self._noise_multiplier,
            expected_batch_size=self._expected_batch_size,
            rng=rng,
            ranks=self._ranks,
        )
        self.num_steps += 1


def check_holds(optimizer: torch.optim.Optimizer, parameters: Sequence[torch.nn.Parameter]) -> None:
    """Checks that an optimizer holds just the trainable parameters.

    Raises:
        ConfigError: it does not.
    """
    held = {p for group in optimizer.param_groups for p in group["params"]}
    missing = [p for p in parameters if p not in held]
    foreign = [p for p in held if p.requires_grad and p not in set(parameters)]
    if missing or foreign:
        raise ConfigError(
            f"the optimizer lacks {len(missing)} of the model's trainable parameters and holds {len(foreign)} that are "
            "not the model's; build it from [p for p in model.parameters() if p.requires_grad]"
        )
