"""Poisson sampling: who enters a step, and how a sample is cut to physical batches that fit into memory.

Public versus private: the rate and the number of steps derive from the number of private records, which is equal in
neighbouring data sets where one record is *replaced* (design, section 5, "Shard"). Samples and their sizes are private.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from torch.utils.data import DataLoader

from pipelines.training.engine.ranks import ALONE, Ranks
from pipelines.training.randomness import PrivateRandomness

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class PrivatePlan:
    """The private steps of a run, fixed before it starts.

    Attributes:
        sample_rate: probability with which each record enters a step.
        expected_batch_size: records in an average step, ``sample_rate * num_records``; divides the noisy sum.
        steps_per_epoch: steps in which ``num_records`` records are drawn on average (CRT, footnote 2).
        num_steps: steps of the whole run.
    """

    sample_rate: float
    expected_batch_size: float
    steps_per_epoch: int
    num_steps: int


def plan_private_steps(num_records: int, expected_batch_size: int, epochs: int) -> PrivatePlan:
    """Fixes rate and number of steps. No records, no steps; fewer records than the batch, all of them each step."""
    if num_records == 0:
        return PrivatePlan(sample_rate=0.0, expected_batch_size=0.0, steps_per_epoch=0, num_steps=0)
    rate = min(1.0, expected_batch_size / num_records)
    steps = max(1, round(1 / rate))
    return PrivatePlan(
        sample_rate=rate, expected_batch_size=rate * num_records, steps_per_epoch=steps, num_steps=steps * epochs
    )


def poisson_sample(num_records: int, sample_rate: float, rng: np.random.Generator) -> IntArray:
    """The numbers of the records that enter a step: each on its own with probability ``sample_rate``."""
    return np.flatnonzero(rng.random(num_records) < sample_rate)


def physical_batches(rows: IntArray, max_physical_batch_size: int | None) -> list[IntArray]:
    """A sample cut into as few, evenly filled parts as the limit allows; none for an empty sample."""
    if not len(rows):
        return []
    count = 1 if max_physical_batch_size is None else -(-len(rows) // max_physical_batch_size)
    return np.array_split(rows, count)


class Stepper(Protocol):
    """What a loader tells about steps: `pipelines.training.engine.optimizer.PrivateOptimizer`."""

    num_steps: int

    def begin_batch(self, rng: np.random.Generator, *, is_last: bool) -> None:
        """A physical batch is about to be handed out."""

    def end_batch(self) -> None:
        """The loop is done with the batch."""

    def abandon(self) -> None:
        """The loop was left, or has not begun: no sample is under way."""

    def empty_step(self, rng: np.random.Generator) -> None:
        """The sample of a step was empty."""


class PoissonLoader:
    """An epoch of Poisson samples, as physical batches for an ordinary training loop.

    A step whose sample is empty is taken by the loader itself, for there is no batch to hand out: noise alone enters
    it. The last batch of a sample is followed by the optimizer's real step; its steps after others only mark time.

    Args:
        loader: whose data set, collate function and workers are used.
        plan: rate and steps of an epoch.
        stepper: told of every batch.
        randomness: the generator of each step; it gives the sample first, then the noise.
        max_physical_batch_size: most records in a batch.
        ranks: the processes that draw, each from its own share of the records.
    """

    def __init__(
        self,
        loader: DataLoader[Any],
        plan: PrivatePlan,
        stepper: Stepper,
        randomness: PrivateRandomness,
        *,
        max_physical_batch_size: int | None = None,
        ranks: Ranks = ALONE,
    ) -> None:
        self._plan = plan
        self._stepper = stepper
        self._randomness = randomness
        self._limit = max_physical_batch_size
        self._rows = ranks.share(np.arange(len(loader.dataset)))  # type: ignore[arg-type]
        self._drawn: deque[tuple[np.random.Generator, bool | None]] = deque()
        self._inner: DataLoader[Any] = DataLoader(
            loader.dataset,
            batch_sampler=_Batches(self),
            collate_fn=loader.collate_fn,
            num_workers=loader.num_workers,
            pin_memory=loader.pin_memory,
            worker_init_fn=loader.worker_init_fn,
        )
        self.dataset = loader.dataset
        self.batch_size = None

    def __len__(self) -> int:
        """Steps of an epoch. There are more batches where samples are cut, and fewer where they are empty."""
        return self._plan.steps_per_epoch

    def draw(self) -> Iterator[list[int]]:
        """The batches of an epoch; what the optimizer must know of each goes into a queue."""
        self._drawn.clear()
        first = self._stepper.num_steps
        for step in range(first, first + self._plan.steps_per_epoch):
            rng = self._randomness(step)
            rows = self._rows[poisson_sample(len(self._rows), self._plan.sample_rate, rng)]
            parts = physical_batches(rows, self._limit)
            if not parts:
                self._drawn.append((rng, None))
            for number, part in enumerate(parts):
                self._drawn.append((rng, number == len(parts) - 1))
                yield part.tolist()

    def __iter__(self) -> Iterator[Any]:
        """Yields the physical batches of one epoch."""
        self._stepper.abandon()
        try:
            yield from self._batches()
        finally:
            self._stepper.abandon()

    def _batches(self) -> Iterator[Any]:
        for batch in self._inner:
            self._take_empty_steps()
            rng, is_last = self._drawn.popleft()
            self._stepper.begin_batch(rng, is_last=bool(is_last))
            yield batch
            self._stepper.end_batch()
        self._take_empty_steps()

    def _take_empty_steps(self) -> None:
        while self._drawn and self._drawn[0][1] is None:
            self._stepper.empty_step(self._drawn.popleft()[0])


class _Batches:
    """What ``torch.utils.data.DataLoader`` asks for batches."""

    def __init__(self, owner: PoissonLoader) -> None:
        self._owner = owner

    def __iter__(self) -> Iterator[list[int]]:
        return self._owner.draw()

    def __len__(self) -> int:
        return len(self._owner)
