"""Schedules of learning rates, by noisy steps and not by physical batches.

How many physical batches a sample is cut to follows from how many records were drawn, which is private, and a sample
may be empty. A schedule that goes by batches would be at its end too early, and its learning rates would tell of the
sizes of samples, which no epsilon covers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from pipelines.errors import ConfigError, PrivacyGateError


class StepSchedule:
    """A scheduler that the optimizer steps, once after each noisy step; `step` in a training loop does nothing.

    Stands in for the scheduler in loops and trainers that call ``step`` after every batch. Everything else is the
    scheduler's own, which is `inner`.

    Attributes:
        inner: the scheduler of torch.
    """

    def __init__(self, inner: torch.optim.lr_scheduler.LRScheduler) -> None:
        """Raises ConfigError: the scheduler goes by a metric, or is none of torch's."""
        if isinstance(inner, torch.optim.lr_scheduler.ReduceLROnPlateau):
            raise ConfigError(
                "ReduceLROnPlateau goes by a metric, not by steps: call its step(metric) yourself, once an epoch, with "
                "a metric of public records. One of private records is a release that no epsilon covers"
            )
        if not isinstance(inner, torch.optim.lr_scheduler.LRScheduler):
            raise ConfigError(
                f"{type(inner).__name__} is no scheduler of torch.optim.lr_scheduler; call what it does from "
                "optimizer.register_step_post_hook, which runs after each noisy step"
            )
        self.inner = inner

    def step(self, *_: Any) -> None:
        """Nothing: the optimizer has stepped the schedule where a noisy step was taken."""

    def get_last_lr(self) -> list[Any]:
        """The learning rates of the optimizer's groups, as they stand."""
        return list(self.inner.get_last_lr())

    def state_dict(self) -> dict[str, Any]:
        """Of the scheduler."""
        return self.inner.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Into the scheduler."""
        self.inner.load_state_dict(state_dict)


class RateGuard:
    """Sees a learning rate that changes while a sample is under way."""

    def __init__(self) -> None:
        self._rates: list[float] | None = None

    def see(self, groups: Sequence[dict[str, Any]]) -> None:
        """Compares the rates with those at the last physical batch of the same sample.

        Raises:
            PrivacyGateError: one has changed.
        """
        rates = [float(group["lr"]) for group in groups if "lr" in group]
        if self._rates is not None and rates != self._rates:
            raise PrivacyGateError(
                "the learning rate changed within one step: a scheduler goes by physical batches, of which a sample "
                "has several, by how many records were drawn. Call scheduler = optimizer.schedule(scheduler) once, "
                "before the loop: it then goes by noisy steps"
            )
        self._rates = rates

    def forget(self) -> None:
        """The next batch begins a sample."""
        self._rates = None
