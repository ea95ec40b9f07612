"""Comparison of an attack's lower bound with the claimed epsilon, and its power to catch a broken engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from pipelines.accounting.accountants import pld_epsilon
from pipelines.accounting.events import Event, NeighboringRelation, adds_no_noise
from pipelines.accounting.groups import group_epsilons
from pipelines.attacks.epsilon_estimates import GUESS_PLANS
from pipelines.attacks.epsilon_f_dp import f_dp_p_value, profile_curve
from pipelines.attacks.epsilon_trials import GuessPlan, Trials
from pipelines.errors import ConfigError
from pipelines.intervals import clopper_pearson

PROFILE_DELTAS: Final = tuple(10.0 ** (-half / 2) for half in range(1, 25))
PROFILE_INTERVAL: Final = 1e-3
"""Grid of privacy losses: every grid gives an upper bound, and this one is quick."""

_NOT_FINITE: Final = "the attacked run claims no finite epsilon, so there is nothing to test"
_UNLIKE: Final = (
    "the attack bounds epsilon for {name} {found}, and the claim is for {name} {stated}: compute the claim of the "
    "attacked run anew, with the attack's"
)


@dataclass(frozen=True, kw_only=True)
class ClaimedEpsilon:
    """An accountant's epsilon of the attacked run.

    Attributes:
        epsilon: upper bound for exactly the attacked run's rate, noise and steps.
        delta: delta at which it holds.
        relation: neighbouring relation for which it holds.
        group_size: number of records in which the compared data sets differ.
    """

    epsilon: float
    delta: float
    relation: NeighboringRelation
    group_size: int = 1


@dataclass(frozen=True, kw_only=True)
class ClaimedProfile:
    """An accountant's epsilons of the attacked run, at many deltas.

    A single (epsilon, delta) allows any outcome with probability delta, so it can hardly be refuted at a level near
    delta times the number of canaries. The points together can.

    Attributes:
        points: (epsilon, delta) pairs, each an upper bound.
        relation: neighbouring relation for which they hold.
        group_size: number of records in which the compared data sets differ.
    """

    points: tuple[tuple[float, float], ...]
    relation: NeighboringRelation
    group_size: int = 1

    @classmethod
    def of(
        cls, event: Event, relation: NeighboringRelation, deltas: Sequence[float] = PROFILE_DELTAS
    ) -> ClaimedProfile:
        """Computes the accountant's epsilons of an event (PLD, upper bounds).

        Raises:
            ConfigError: the event has no finite epsilon: there is no claim to test.
        """
        if adds_no_noise(event):
            raise ConfigError(_NOT_FINITE)
        points = tuple((pld_epsilon(event, delta, relation, PROFILE_INTERVAL), delta) for delta in deltas)
        return cls(points=points, relation=relation)

    @classmethod
    def of_group(cls, event: Event, size: int) -> ClaimedProfile:
        """Computes upper bounds for a group of records that are all replaced (`pipelines.accounting.groups`).

        Raises:
            ConfigError: the event has no finite epsilon: there is no claim to test.
        """
        if adds_no_noise(event):
            raise ConfigError(_NOT_FINITE)
        points = tuple(zip(group_epsilons(event, PROFILE_DELTAS, size), PROFILE_DELTAS, strict=True))
        return cls(points=points, relation=NeighboringRelation.REPLACE_ONE, group_size=size)


def claim_p_value(
    trials: Trials,
    claimed: ClaimedProfile,
    *,
    rng: np.random.Generator,
    plans: Sequence[GuessPlan] = GUESS_PLANS,
    relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    group_size: int = 1,
) -> float:
    """Returns at least the probability of as many right guesses if the claim is true. It assumes only fair coins.

    Uses the one-run test for trade-off curves (Mahloujifar et al. 2024, Algorithm 3) with the claimed curve.

    Args:
        trials: scores and coins.
        claimed: claim to test.
        rng: generator that breaks ties.
        plans: numbers of guesses to try; the p-value is corrected for several (Bonferroni).
        relation: relation between data sets that differ in one coin.
        group_size: number of records that one coin includes.

    Raises:
        ConfigError: the game's relation or group size is not the claim's.
    """
    _check_alike(relation, group_size, claimed)
    curve = profile_curve(claimed.points)
    found = [f_dp_p_value(len(trials), r, v, curve=curve) for r, v in trials.guesses(plans, rng)]
    return min(1.0, len(found) * min(found))


@dataclass(frozen=True, kw_only=True)
class Power:
    """The rate of audits that raised a flag.

    Attributes:
        num_flagged: number of audits that raised a flag.
        num_runs: number of audits, each with its own coins and noise.
        low, high: exact binomial interval of the rate (Clopper and Pearson 1934).
        confidence: confidence of the interval.
    """

    num_flagged: int
    num_runs: int
    low: float
    high: float
    confidence: float

    @classmethod
    def of(cls, flags: Sequence[bool], confidence: float = 0.95) -> Power:
        """Returns the rate of flags and its interval."""
        low, high = clopper_pearson(sum(flags), len(flags), confidence)
        return cls(num_flagged=sum(flags), num_runs=len(flags), low=low, high=high, confidence=confidence)


def _check_alike(relation: NeighboringRelation, group_size: int, claimed: ClaimedProfile) -> None:
    for name, found, stated in (
        ("relation", relation, claimed.relation),
        ("group size", group_size, claimed.group_size),
    ):
        if found != stated:
            raise ConfigError(_UNLIKE.format(name=name, found=found, stated=stated))
