"""Schedules of learning rates that count noisy steps, not physical batches.

The number of physical batches of a sample depends on the number of drawn records, which is private, and a sample may be
empty. A schedule that counts batches would end too early, and its learning rates would reveal the sizes of samples,
which no epsilon covers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from pipelines.errors import ConfigError, PrivacyGateError


class StepSchedule:
    """A scheduler that the optimizer steps once after each noisy step. Its own `step` does nothing.

    It replaces the scheduler in loops and trainers that call ``step`` after every batch.

    Attributes:
        inner: the scheduler of torch.
    """

    def __init__(self, inner: torch.optim.lr_scheduler.LRScheduler) -> None:
        """Raises ConfigError if the scheduler needs a metric, or is no scheduler of torch."""
        if isinstance(inner, torch.optim.lr_scheduler.ReduceLROnPlateau):
            raise ConfigError(
                "ReduceLROnPlateau needs a metric, not steps: call its step(metric) yourself, once an epoch, with "
                "a metric of public records. One of private records is a release that no epsilon covers"
            )
        if not isinstance(inner, torch.optim.lr_scheduler.LRScheduler):
            raise ConfigError(
                f"{type(inner).__name__} is no scheduler of torch.optim.lr_scheduler; call what it does from "
                "optimizer.register_step_post_hook, which runs after each noisy step"
            )
        self.inner = inner

    def step(self, *_: Any) -> None:
        """Does nothing: the optimizer steps the schedule after each noisy step."""

    def get_last_lr(self) -> list[Any]:
        """Returns the current learning rates of the optimizer's groups."""
        return list(self.inner.get_last_lr())

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of the scheduler."""
        return self.inner.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads a state into the scheduler."""
        self.inner.load_state_dict(state_dict)


class RateGuard:
    """A check that no learning rate changes within a sample."""

    def __init__(self) -> None:
        self._rates: list[float] | None = None

    def see(self, groups: Sequence[dict[str, Any]]) -> None:
        """Compares the rates with those of the last physical batch of the same sample.

        Raises:
            PrivacyGateError: a rate has changed.
        """
        rates = [float(group["lr"]) for group in groups if "lr" in group]
        if self._rates is not None and rates != self._rates:
            raise PrivacyGateError(
                "the learning rate changed within one step: a scheduler counts physical batches, and their number in a "
                "sample depends on how many records were drawn. Call scheduler = optimizer.schedule(scheduler) once, "
                "before the loop: it then counts noisy steps"
            )
        self._rates = rates

    def forget(self) -> None:
        """Forgets the rates: the next batch begins a sample."""
        self._rates = None
