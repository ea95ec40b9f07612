"""All estimators of a lower bound on epsilon, each with its ceiling and its assumptions.

The ceiling is the bound for an attack that never errs. A bound far below a claim shows a loose claim, a weak attack, or
too few trials. The ceiling detects too few trials.

Thresholds are chosen on one half of the trials and judged by the other. Numbers of guesses and order statistics are
fixed beforehand. If several are tried, they share the confidence (Bonferroni).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, TypedDict, get_args

import numpy as np

from pipelines.accounting.events import NeighboringRelation
from pipelines.attacks.epsilon_clopper_pearson import clopper_pearson_bound
from pipelines.attacks.epsilon_f_dp import f_dp_bound
from pipelines.attacks.epsilon_gaussian import (
    ASSUMPTION,
    SCORES_ASSUMPTION,
    gaussian_bound,
    gaussian_scores_bound,
    order_statistics_bound,
)
from pipelines.attacks.epsilon_one_run import one_run_bound
from pipelines.attacks.epsilon_trials import GuessPlan, Trials
from pipelines.errors import ConfigError

EstimatorName = Literal[
    "clopper_pearson", "one_run", "f_dp", "f_dp_gaussian", "gaussian", "gaussian_order_statistics", "gaussian_scores"
]

INDEPENDENT: Final = "one canary's score does not depend on other canaries"
GUESS_PLANS: Final = (GuessPlan(0.025, 0.025), GuessPlan(0.1, 0.1), GuessPlan(0.4, 0.4), GuessPlan(0.08, 0.0))
"""Plans that one-run estimators try. None guesses all canaries: if the coins fall unevenly, a perfect attack would err.
The last is for engines that reveal a part of the included canaries, and nothing about the others."""
FALSE_POSITIVE_SHARES: Final = (0.02, 0.1, 0.5)
"""False positive rates of the order statistics."""

BoundOfErrors = Callable[..., float]

ALONE: Final = "a canary's score tells of that canary, and not of the others that came with it"
ALL_ESTIMATORS: Final[tuple[EstimatorName, ...]] = get_args(EstimatorName)
_OF_COINS: Final = ("one_run", "f_dp", "f_dp_gaussian")
_NUM_THRESHOLDS: Final = 200


@dataclass(frozen=True, kw_only=True)
class EpsilonEstimate:
    """An estimator's lower bound.

    Attributes:
        estimator: name of the estimator.
        value: lower bound on epsilon, at least 0.
        ceiling: bound of a perfect attack with as many trials; None if there is no limit.
        confidence: probability with which the bound holds, over coins and noise.
        delta: delta at which epsilon is bounded.
        relation: neighbouring relation of the game, which a compared claim must have.
        group_size: number of records by which the game's worlds differ.
        num_trials: number of canaries or trials, including those that only chose a threshold.
        assumptions: assumptions of the bound in addition to fair coins. Without them it is no bound.
        counts: counts from which it was computed.
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
        """Returns the estimate as JSON values."""
        return {**asdict(self), "relation": str(self.relation), "assumptions": list(self.assumptions)}


class _Level(TypedDict):
    delta: float
    significance: float


@dataclass(frozen=True, kw_only=True)
class _Audit:
    """Arguments of the estimators: trials, their halves, guesses, and the kind of bound."""

    trials: Trials
    choosing: Trials
    judging: Trials
    guesses: Sequence[tuple[int, int]]
    shares: Sequence[float]
    delta: float
    confidence: float
    relation: NeighboringRelation
    group_size: int
    assumptions: tuple[str, ...]

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
            relation=self.relation, num_trials=len(self.trials), group_size=self.group_size,
            assumptions=(*self.assumptions, *assumptions), counts=counts,
        )  # fmt: skip


def epsilon_estimates(
    trials: Trials,
    *,
    delta: float,
    confidence: float,
    rng: np.random.Generator,
    relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    group_size: int = 1,
    plans: Sequence[GuessPlan] = GUESS_PLANS,
    false_positive_shares: Sequence[float] = FALSE_POSITIVE_SHARES,
    estimators: Sequence[EstimatorName] = ALL_ESTIMATORS,
) -> dict[EstimatorName, EpsilonEstimate]:
    """Computes every estimator's lower bound from one game.

    ``one_run`` and ``f_dp`` assume only fair coins. The others make the assumptions in their ``assumptions``.

    Args:
        trials: scores of canaries, each included by its own fair coin.
        delta: delta of the audited claim.
        confidence: confidence of each bound, strictly between 0.5 and 1; not that all hold together.
        rng: generator that draws the halves, and breaks ties.
        relation: relation between data sets that differ in one coin.
        group_size: number of records that one coin includes.
        plans: numbers of guesses that one-run estimators try, fixed beforehand.
        false_positive_shares: false positive rates of order statistics, fixed beforehand.
        estimators: names of the estimators to compute.

    Raises:
        ConfigError: an argument is out of range, or there is no canary.
    """
    if not len(trials) or not plans:
        raise ConfigError("an audit needs canaries and guesses")
    choosing, judging = trials.halves(rng)
    audit = _Audit(
        trials=trials, choosing=choosing, judging=judging, guesses=trials.guesses(plans, rng),
        shares=false_positive_shares, delta=delta, confidence=confidence, relation=relation, group_size=group_size,
        assumptions=(),
    )  # fmt: skip
    return _all_of(audit, estimators)


def two_model_estimates(
    scores_with: Mapping[str, float],
    scores_without: Mapping[str, float],
    *,
    delta: float,
    confidence: float,
    rng: np.random.Generator,
    relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    false_positive_shares: Sequence[float] = FALSE_POSITIVE_SHARES,
) -> dict[EstimatorName, EpsilonEstimate]:
    """Computes lower bounds from two models, trained with and without a set of canaries (Jagielski et al. 2020).

    The worlds differ by the whole set. Every estimate states the assumption that a canary's score depends on that
    canary alone. One-run estimators need coins and are not included.

    Args:
        scores_with: scores of the canaries, by identifier, under the model trained with them.
        scores_without: scores of the same canaries under the other model; a higher score suggests inclusion.
        delta, confidence, rng, relation, false_positive_shares: arguments as for `epsilon_estimates`.

    Raises:
        ConfigError: an argument is out of range, or there is no canary.
        InputError: the models scored different canaries.
    """
    if not scores_with:
        raise ConfigError("an audit needs canaries")
    pairs = Trials.joined(scores_with, dict.fromkeys(scores_without, True))
    other = Trials.joined(scores_without, dict.fromkeys(scores_with, False))
    order = rng.permutation(len(pairs))  # both scores of a canary fall into the same half
    choosing, judging = (
        Trials(np.concatenate([pairs.scores[half], other.scores[half]]), np.arange(2 * len(half)) < len(half))
        for half in (order[: len(order) // 2], order[len(order) // 2 :])
    )
    both = Trials(np.concatenate([pairs.scores, other.scores]), np.concatenate([pairs.included, other.included]))
    audit = _Audit(
        trials=both, choosing=choosing, judging=judging, guesses=(), shares=false_positive_shares, delta=delta,
        confidence=confidence, relation=relation, group_size=1, assumptions=(ALONE,),
    )  # fmt: skip
    return _all_of(audit, [name for name in ALL_ESTIMATORS if name not in _OF_COINS])


def best_threshold(trials: Trials, bound: Callable[[int, int, int, int], float]) -> float:
    """Returns the threshold with the highest bound on these trials. Use it on other trials only.

    Args:
        trials: trials that choose the threshold.
        bound: function of the numbers of false positives, trials without, false negatives, and trials with.
    """
    ordered = np.sort(trials.scores)
    if not len(ordered):
        return 0.0
    places = np.unique(np.linspace(0, len(ordered) - 1, _NUM_THRESHOLDS).round().astype(np.int64))
    # Thresholds lie between two scores, so that a trial like either of them falls on its side.
    candidates = (ordered[places] + ordered[np.minimum(places + 1, len(ordered) - 1)]) / 2
    return float(max(candidates, key=lambda threshold: bound(*trials.errors_at(threshold))))


def _all_of(audit: _Audit, estimators: Sequence[EstimatorName]) -> dict[EstimatorName, EpsilonEstimate]:
    if not 0.5 < audit.confidence < 1 or not 0 < audit.delta < 1:
        raise ConfigError(
            f"confidence {audit.confidence} must be between 0.5 and 1, and delta {audit.delta} between 0 and 1"
        )
    if not audit.shares or not all(0 < share < 1 for share in audit.shares):
        raise ConfigError(f"false positive rates must be between 0 and 1, not {list(audit.shares)}")
    return {name: _ESTIMATORS[name](audit) for name in estimators}


def _of_threshold(audit: _Audit, name: EstimatorName, bound: BoundOfErrors, *assumptions: str) -> EpsilonEstimate:
    level = audit.level()
    errors = audit.judging.errors_at(best_threshold(audit.choosing, lambda *errors: bound(*errors, **level)))
    false_positives, num_out, false_negatives, num_in = errors
    return audit.estimate(
        name, bound(*errors, **level), bound(0, num_out, 0, num_in, **level), (INDEPENDENT, *assumptions),
        false_positives=false_positives, num_out=num_out, false_negatives=false_negatives, num_in=num_in,
    )  # fmt: skip


def _of_guesses(audit: _Audit, name: EstimatorName, bound: Callable[..., float], *assumptions: str) -> EpsilonEstimate:
    num_canaries, level = len(audit.trials), audit.level(len(audit.guesses))
    found = [(bound(num_canaries, r, v, **level), r, v) for r, v in audit.guesses]
    value, num_guesses, num_correct = max(found)
    return audit.estimate(
        name, value, max(bound(num_canaries, r, r, **level) for r, _ in audit.guesses), assumptions,
        num_guesses=num_guesses, num_correct=num_correct, num_tried=len(found),
    )  # fmt: skip


def _of_order_statistics(audit: _Audit) -> EpsilonEstimate:
    samples = audit.trials.in_scores, audit.trials.out_scores
    separate = np.full(len(samples[0]), 2.0 * len(samples[1])), np.arange(len(samples[1]), dtype=np.float64)
    return audit.estimate(
        "gaussian_order_statistics",
        order_statistics_bound(*samples, shares=audit.shares, **audit.level()),
        order_statistics_bound(*separate, shares=audit.shares, **audit.level()),
        (INDEPENDENT, ASSUMPTION),
        num_tried=len(audit.shares),
    )


def _of_samples(audit: _Audit) -> EpsilonEstimate:
    value = gaussian_scores_bound(audit.trials.in_scores, audit.trials.out_scores, **audit.level())
    return audit.estimate("gaussian_scores", value, None, (INDEPENDENT, SCORES_ASSUMPTION))


_ESTIMATORS: Final[dict[EstimatorName, Callable[[_Audit], EpsilonEstimate]]] = {
    "clopper_pearson": lambda a: _of_threshold(a, "clopper_pearson", clopper_pearson_bound),
    "one_run": lambda a: _of_guesses(a, "one_run", one_run_bound),
    "f_dp": lambda a: _of_guesses(a, "f_dp", functools.partial(f_dp_bound, family="approximate")),
    "f_dp_gaussian": lambda a: _of_guesses(
        a, "f_dp_gaussian", functools.partial(f_dp_bound, family="gaussian"), ASSUMPTION
    ),
    "gaussian": lambda a: _of_threshold(a, "gaussian", gaussian_bound, ASSUMPTION),
    "gaussian_order_statistics": _of_order_statistics,
    "gaussian_scores": _of_samples,
}
