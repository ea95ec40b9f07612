"""All lower bounds on epsilon side by side, each with its ceiling and with what it supposes.

Thresholds are chosen on one half of the trials and judged by the other; numbers of guesses and order statistics are
fixed beforehand, and where several are tried, confidence is shared among them (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, TypedDict

import numpy as np

from pipelines.accounting.events import NeighboringRelation
from pipelines.attacks.ceilings import (
    clopper_pearson_ceiling,
    f_dp_ceiling,
    gaussian_ceiling,
    one_run_ceiling,
    order_statistics_ceiling,
)
from pipelines.attacks.epsilon_clopper_pearson import clopper_pearson_bound
from pipelines.attacks.epsilon_f_dp import Family, f_dp_bound
from pipelines.attacks.epsilon_gaussian import (
    ASSUMPTION,
    SCORES_ASSUMPTION,
    gaussian_bound,
    gaussian_scores_bound,
    order_statistics_bound,
)
from pipelines.attacks.epsilon_one_run import one_run_bound
from pipelines.attacks.epsilon_trials import Trials
from pipelines.errors import ConfigError

EstimatorName = Literal[
    "clopper_pearson", "one_run", "f_dp", "f_dp_gaussian", "gaussian", "gaussian_order_statistics", "gaussian_scores"
]

INDEPENDENT: Final = "one canary's score does not depend on other canaries"
GUESS_SHARES: Final = (0.05, 0.2, 0.8)
"""Guesses that one-run estimators try, as shares of the canaries; the rest are abstentions. Not all are guessed: half
of the guesses are inclusions, and where the coins fell otherwise, a perfect attack that guessed all would err."""
FALSE_POSITIVE_SHARES: Final = (0.02, 0.1, 0.5)
"""False positive rates at which order statistics are taken."""

BoundOfErrors = Callable[..., float]


@dataclass(frozen=True, kw_only=True)
class EpsilonEstimate:
    """One estimator's lower bound.

    Attributes:
        estimator: its name.
        value: the lower bound on epsilon, at least 0.
        ceiling: what a perfect attack would have given with as many trials; None where there is no limit.
        confidence: probability with which the bound holds, over coins and noise.
        delta: at which epsilon is bounded.
        relation: the neighbouring relation of the game, that of the claim it may be compared with.
        group_size: records by which the game's worlds differ.
        num_trials: canaries whose coin was guessed, or trials; those that only chose a threshold included.
        assumptions: what the bound supposes beside the coins; it is a bound only where they hold.
        counts: what it was computed of.
    """

    estimator: EstimatorName
    value: float
    ceiling: float | None
    confidence: float
    delta: float
    relation: NeighboringRelation
    num_trials: int
    group_size: int = 1
    assumptions: tuple[str, ...] = ()
    counts: dict[str, float] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "relation": str(self.relation), "assumptions": list(self.assumptions)}


class _Level(TypedDict):
    delta: float
    significance: float


@dataclass(frozen=True, kw_only=True)
class _Setting:
    delta: float
    confidence: float
    relation: NeighboringRelation
    num_trials: int
    group_size: int

    def level(self, num_tried: int = 1) -> _Level:
        return {"delta": self.delta, "significance": (1 - self.confidence) / num_tried}

    def estimate(
        self,
        estimator: EstimatorName,
        value: float,
        ceiling: float | None,
        assumptions: tuple[str, ...] = (),
        **counts: float,
    ) -> EpsilonEstimate:
        return EpsilonEstimate(
            estimator=estimator, value=value, ceiling=ceiling, confidence=self.confidence, delta=self.delta,
            relation=self.relation, num_trials=self.num_trials, group_size=self.group_size, assumptions=assumptions,
            counts=counts,
        )  # fmt: skip


def epsilon_estimates(
    trials: Trials,
    *,
    delta: float,
    confidence: float,
    rng: np.random.Generator,
    relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    group_size: int = 1,
    guess_shares: Sequence[float] = GUESS_SHARES,
    false_positive_shares: Sequence[float] = FALSE_POSITIVE_SHARES,
) -> dict[EstimatorName, EpsilonEstimate]:
    """Every estimator's lower bound from one game.

    ``one_run`` and ``f_dp`` suppose nothing but fair coins. The others suppose what their ``assumptions`` say.

    Args:
        trials: scores of canaries, each of which a fair coin of its own included.
        delta: of the claim that is audited.
        confidence: of each bound, strictly between 0.5 and 1. That all hold together is not promised.
        rng: draws the halves, and breaks ties.
        relation: what a coin does to the data set.
        group_size: records that one coin includes.
        guess_shares: numbers of guesses that one-run estimators try, as shares of the canaries, fixed beforehand.
        false_positive_shares: where order statistics are taken, fixed beforehand.

    Raises:
        ConfigError: confidence, delta or a share out of range.
    """
    if not 0.5 < confidence < 1 or not 0 < delta < 1:
        raise ConfigError(f"confidence {confidence} must be between 0.5 and 1, and delta {delta} between 0 and 1")
    if not guess_shares or not all(0 < share <= 1 for share in guess_shares):
        raise ConfigError(f"shares of canaries to guess must be above 0 and at most 1, not {list(guess_shares)}")
    if not false_positive_shares or not all(0 < share < 1 for share in false_positive_shares):
        raise ConfigError(f"false positive rates must be between 0 and 1, not {list(false_positive_shares)}")
    setting = _Setting(
        delta=delta, confidence=confidence, relation=relation, num_trials=len(trials), group_size=group_size
    )
    if not len(trials):
        raise ConfigError("an audit needs canaries; there is none")
    guesses = sorted({max(1, round(share * len(trials))) for share in guess_shares})
    made = [
        *_of_thresholds(trials, setting, rng),
        *_of_guesses(trials, setting, rng, guesses),
        *_of_samples(trials, setting, false_positive_shares),
    ]
    return {estimate.estimator: estimate for estimate in made}


def best_threshold(trials: Trials, bound: Callable[[int, int, int, int], float]) -> float:
    """The threshold at which a bound is highest on these trials; it may be used on others only.

    Args:
        trials: to choose by.
        bound: of false positives, trials without, false negatives, trials with.
    """
    ordered = np.sort(trials.scores)
    if not len(ordered):
        return 0.0
    places = np.unique(np.linspace(0, len(ordered) - 1, 200).round().astype(np.int64))
    # Between two scores, so that trials like those on either side fall on that side.
    candidates = (ordered[places] + ordered[np.minimum(places + 1, len(ordered) - 1)]) / 2
    return float(max(candidates, key=lambda threshold: bound(*trials.errors_at(threshold))))


def _of_thresholds(trials: Trials, setting: _Setting, rng: np.random.Generator) -> list[EpsilonEstimate]:
    choosing, judging = trials.halves(rng)
    num_in, num_out = len(judging.in_scores), len(judging.out_scores)
    level = setting.level()
    made = []
    kinds: tuple[tuple[EstimatorName, BoundOfErrors, BoundOfErrors, tuple[str, ...]], ...] = (
        ("clopper_pearson", clopper_pearson_bound, clopper_pearson_ceiling, (INDEPENDENT,)),
        ("gaussian", gaussian_bound, gaussian_ceiling, (INDEPENDENT, ASSUMPTION)),
    )
    for name, bound, ceiling, assumptions in kinds:
        threshold = best_threshold(choosing, lambda *errors, bound=bound: bound(*errors, **level))
        errors = judging.errors_at(threshold)
        made.append(
            setting.estimate(
                name, bound(*errors, **level), ceiling(num_in, num_out, **level), assumptions,
                **dict(zip(("false_positives", "num_out", "false_negatives", "num_in"), errors, strict=True)),
            )
        )  # fmt: skip
    return made


def _of_guesses(
    trials: Trials, setting: _Setting, rng: np.random.Generator, guesses: Sequence[int]
) -> list[EpsilonEstimate]:
    level, whole = setting.level(len(guesses)), setting.level()
    correct = {r: trials.correct_guesses(r, rng) for r in guesses}

    def best(name: EstimatorName, bound: BoundOfErrors, ceiling: float, *assumptions: str) -> EpsilonEstimate:
        found = {r: bound(len(trials), r, v) for r, v in correct.items()}
        chosen = max(found, key=lambda r: found[r])
        return setting.estimate(
            name, found[chosen], ceiling, assumptions, num_guesses=chosen, num_correct=correct[chosen],
            num_tried=len(guesses),
        )  # fmt: skip

    def of_family(name: EstimatorName, family: Family, *assumptions: str) -> EpsilonEstimate:
        return best(
            name,
            lambda *counts: f_dp_bound(*counts, family=family, **level),
            f_dp_ceiling(len(trials), guesses, family=family, **whole),
            *assumptions,
        )

    return [
        best(
            "one_run", lambda *counts: one_run_bound(*counts, **level), one_run_ceiling(len(trials), guesses, **whole)
        ),
        of_family("f_dp", "approximate"),
        of_family("f_dp_gaussian", "gaussian", ASSUMPTION),
    ]


def _of_samples(trials: Trials, setting: _Setting, shares: Sequence[float]) -> list[EpsilonEstimate]:
    level = setting.level()
    samples = trials.in_scores, trials.out_scores
    num_in, num_out = len(samples[0]), len(samples[1])
    return [
        setting.estimate(
            "gaussian_order_statistics",
            order_statistics_bound(*samples, shares=shares, **level),
            order_statistics_ceiling(num_in, num_out, shares=shares, **level),
            (INDEPENDENT, ASSUMPTION),
            num_tried=len(shares),
        ),
        setting.estimate(
            "gaussian_scores", gaussian_scores_bound(*samples, **level), None, (INDEPENDENT, SCORES_ASSUMPTION)
        ),
    ]
