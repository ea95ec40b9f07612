"""Plan of a training with noise before anybody trains: what to sample, how many at a time, how often, and the noise.

A step divides a sum of clipped contributions by the expected batch size B. Three figures follow from its noise:

- ``noise_batch_ratio``, sigma / B: deviation of the noise in one coordinate of the mean, over the clipping norm
  (McKenna et al. 2025, arXiv 2501.18914; the effective noise multiplier of Li et al. 2022).
- ``total_noise``, sigma / (B sqrt(T)): the same for the sum of all T steps, over the largest sum that the signal can
  have, because noise adds up as the root of T, and a signal of one direction as T.
- ``least_total``, 2 / (N mu): the value that the second approaches for large batches, with the mu of Gaussian DP that
  has the same epsilon and delta. It depends on neither batch nor steps nor compute (Sander et al. 2023, arXiv
  2210.03403; Räisä et al. 2024, arXiv 2402.03990). Only more people and a larger epsilon lower it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from scipy.optimize import brentq

from pipelines.accounting.accountants import gdp_epsilon
from pipelines.accounting.calibration import sufficient_noise_multiplier
from pipelines.accounting.events import Event, dp_sgd
from pipelines.errors import ConfigError

BATCH_LOSS: Final = 1.1
"""Total noise of the recommended batch size over that of the best batch size of equal compute, at most."""
RECORDS_LOSS: Final = 1.1
"""Noise that several records of a drawn person may cost, over that of one record, if a person's records agree."""
DROWNED: Final = 0.0025
"""Estimate: total noise from which small models trained from scratch lost a third to almost half of what they learn
without noise beyond the frequencies of tokens (``benchmarks/plan_check.py``)."""
ENOUGH_STEPS: Final = 100
"""Estimate: number of steps below which a small model learnt less, although total noise was lower (likewise)."""
_MOST_RECORDS_EACH: Final = 64

Unit = Literal["record", "owner"]


@dataclass(frozen=True, kw_only=True)
class Goal:
    """Privacy and compute that a plan has to meet.

    Attributes:
        epsilon, delta: guarantee of the unit, under replace_one.
        gradients: most gradients of single records that the training may compute.
    """

    epsilon: float
    delta: float
    gradients: float

    def least_total(self, count: int) -> float:
        """Returns the total noise of large batches, for so many units."""
        return 2 / (count * self._mu())

    def epsilon_for(self, factor: float) -> float:
        """Returns the epsilon, at the same delta, whose total noise is smaller by a factor."""
        return gdp_epsilon(factor * self._mu(), self.delta)

    def _mu(self) -> float:
        high = 1.0
        while gdp_epsilon(high, self.delta) < self.epsilon:
            high *= 2
        return float(brentq(lambda mu: gdp_epsilon(mu, self.delta) - self.epsilon, 1e-9, high, rtol=1e-9))


@dataclass(frozen=True, kw_only=True)
class PlannedTraining:
    """A training that spends the compute.

    Attributes:
        unit: unit that a step samples and clips.
        records_each: most records that a drawn person brings; 1 if the unit is a record.
        count: number of units.
        batch: expected number of units in a step.
        epochs: expected number of times that a unit is drawn.
        noise_multiplier: standard deviation of the noise over the clipping norm, sufficient for the goal.
    """

    unit: Unit
    records_each: int
    count: int
    batch: int
    epochs: int
    noise_multiplier: float

    @property
    def sample_rate(self) -> float:
        """Returns the probability with which a unit enters a step."""
        return min(1.0, self.batch / self.count)

    @property
    def steps(self) -> int:
        """Returns the number of steps, as `pipelines.dp.sampling.plan_private_steps` has it."""
        return _steps(self.count, self.batch, self.epochs)

    @property
    def gradients(self) -> int:
        """Returns the expected number of gradients of single records, if every drawn person brings all of them."""
        return round(self.sample_rate * self.count * self.steps * self.records_each)

    @property
    def noise_batch_ratio(self) -> float:
        """Returns the noise of a coordinate of the mean gradient, over the clipping norm."""
        return self.noise_multiplier / (self.sample_rate * self.count)

    @property
    def total_noise(self) -> float:
        """Returns the noise of a coordinate of the sum of all steps, over the largest sum of the signal."""
        return self.noise_batch_ratio / math.sqrt(self.steps)

    @property
    def event(self) -> Event:
        """Returns the privacy event."""
        return dp_sgd(noise_multiplier=self.noise_multiplier, sample_rate=self.sample_rate, num_steps=self.steps)


def _steps(count: int, batch: int, epochs: int) -> int:
    return max(1, round(1 / min(1.0, batch / count))) * epochs


def planned(unit: Unit, count: int, batch: int, epochs: int, goal: Goal, records_each: int = 1) -> PlannedTraining:
    """Returns a training with noise that is sufficient, and about one per cent above the least."""
    noise = sufficient_noise_multiplier(
        target_epsilon=goal.epsilon,
        target_delta=goal.delta,
        sample_rate=min(1.0, batch / count),
        num_steps=_steps(count, batch, epochs),
    )
    return PlannedTraining(
        unit=unit, records_each=records_each, count=count, batch=batch, epochs=epochs, noise_multiplier=noise
    )


def batch_sizes(unit: Unit, count: int, goal: Goal, records_each: int = 1) -> list[PlannedTraining]:
    """Returns trainings of equal compute with batches of 2^n units.

    Raises:
        ConfigError: the compute is not enough for one epoch.
    """
    epochs = math.floor(goal.gradients / (count * records_each))
    if epochs < 1:
        raise ConfigError(
            f"{goal.gradients:,.0f} gradients are less than one epoch of {count:,} {unit}s"
            + (f" with {records_each} records each" if records_each > 1 else "")
            + "; give more compute, or train on fewer records"
        )
    first = min(3, int(math.log2(count)))
    sizes = [2**n for n in range(first, int(math.log2(count)) + 1)]
    return [planned(unit, count, size, epochs, goal, records_each) for size in sizes]


def best_batch(trainings: Sequence[PlannedTraining]) -> PlannedTraining:
    """Returns the training with the most steps whose total noise is at most `BATCH_LOSS` times the least.

    If that has fewer than `ENOUGH_STEPS`, the largest batch that leaves so many steps counts, or else the smallest.
    """
    least = min(training.total_noise for training in trainings)
    found = next(t for t in trainings if t.total_noise <= BATCH_LOSS * least)
    if found.steps >= ENOUGH_STEPS:
        return found
    return next((t for t in reversed(trainings) if t.steps >= ENOUGH_STEPS), trainings[0])


def records_each(one: PlannedTraining, goal: Goal, most: int) -> PlannedTraining:
    """Returns the training with the largest number g of records of a drawn person that the rule allows.

    The rule compares trainings of as many records a step and as many steps (up to rounding, which total noise
    allows for): with g records, a step draws a g-th of the people. The largest g counts with
    g sigma_g <= `RECORDS_LOSS` sigma_1. It loses at most that factor if a person's records agree, and gains up to the
    root of g if they differ and the clipping norm is lowered with them.

    Args:
        one: training with one record of each drawn person.
        goal: goal of the plan.
        most: largest g to try.
    """
    best = one
    for size in (2**n for n in range(1, int(math.log2(min(most, _MOST_RECORDS_EACH))) + 1)):
        batch, epochs = one.batch // size, one.epochs // size
        if batch < 1 or epochs < 1:
            break
        found = planned("owner", one.count, batch, epochs, goal, size)
        if found.total_noise <= RECORDS_LOSS * one.total_noise:
            best = found
    return best


@dataclass(frozen=True, kw_only=True)
class Option:
    """A unit that a training may sample.

    Attributes:
        name: name for people.
        curve: trainings of equal compute by batch size.
        chosen: training of the best batch size.
    """

    name: str
    curve: tuple[PlannedTraining, ...]
    chosen: PlannedTraining


def options(goal: Goal, *, num_records: int, num_people: int | None, records_of_a_person: int) -> list[Option]:
    """Returns the options, the recommended one last: records, people, and people with several records each.

    Args:
        goal: goal of the plan.
        num_records: number of records.
        num_people: number of people; None if only records can be sampled.
        records_of_a_person: number of records that a drawn person can be expected to have.

    Raises:
        ConfigError: the compute is not enough for one epoch.
    """
    curve = batch_sizes("record", num_records, goal)
    found = [Option(name="record", curve=tuple(curve), chosen=best_batch(curve))]
    if num_people is None:
        return found
    curve = batch_sizes("owner", num_people, goal)
    found.append(Option(name="owner, g = 1", curve=tuple(curve), chosen=best_batch(curve)))
    several = _several_records(curve, goal, records_of_a_person)
    if several is not None:
        each = several.records_each
        curve = batch_sizes("owner", num_people, goal, each)
        found.append(Option(name=f"owner, g = {each}", curve=tuple(curve), chosen=several))
    return found


def _several_records(curve: Sequence[PlannedTraining], goal: Goal, most: int) -> PlannedTraining | None:
    """Returns the training with the largest g among those with enough steps, and of these with the most steps."""
    best = None
    for one in reversed([training for training in curve if training.steps >= ENOUGH_STEPS]):
        found = records_each(one, goal, most)
        if found.records_each < (best.records_each if best else 2):
            break
        best = found
    return best
