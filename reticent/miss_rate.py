"""Rates of missed secrets: three types for three rates, intervals from plain counts, and plans of reviews.

The rate m counts missed tokens over all tokens (JFT, section 3.1). The rate γ counts secrets that are not masked stably
over all secrets, and δ₂ those of them that are public as well (CRT, Proposition 6 and Theorem 8). No formula takes one
rate for another.

    >>> from reticent.miss_rate import estimate_rate, plan_reviews
    >>> counts = estimate_rate([1, 0, 2], [400, 380, 420])  # misses and units, one row per replicate or sentence
    >>> counts.pooled, round(counts.upper_bound, 4)
    (0.0025, 0.0114)
    >>> gamma = counts.false_negative_rate(mu="secrets of the reviewed sentences")
    >>> gamma.upper == counts.upper_bound
    True
    >>> plan_reviews("gamma", bound=0.01, confidence=0.95).num_units
    299
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.errors import ConfigError, InputError
from pipelines.intervals import ClusteredCounts, clopper_pearson, clopper_pearson_upper, korn_graubard
from pipelines.miss_rate.counts import ReplicateCounts, estimate_counts
from pipelines.miss_rate.planning import Target, plan
from pipelines.miss_rate.rates import Delta2, FalseNegativeRate, MissRate

__all__ = [
    "Delta2",
    "FalseNegativeRate",
    "MissRate",
    "RateEstimate",
    "ReviewPlan",
    "Target",
    "clopper_pearson",
    "clopper_pearson_upper",
    "clustered_interval",
    "estimate_rate",
    "plan_reviews",
]

Bounds = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class RateEstimate:
    """A rate from counts of misses, with every interval that the counts allow.

    Attributes:
        num_missed, num_total: sums over all rows.
        pooled: misses over units, all rows together.
        mean: mean of the rows' rates, the estimate of JFT.
        confidence: confidence of every interval, and of the bound.
        upper_bound: one-sided bound, which formulas take.
        interval: recommended two-sided interval.
        method: method of that interval and of the bound: ``korn_graubard`` (exact at the effective sample size, Korn
            and Graubard 1998), or ``none``: the rows show no spread, no interval can be defended, and the bound is 1.
        assumption: assumption under which the interval and the bound hold; None with the method ``none``.
        reason: reason for the method.
        intervals: all intervals by name: ``student_t`` (JFT's), ``student_t_clipped``, ``clopper_pearson``,
            ``cluster_robust``, ``bootstrap``; None for an interval that does not exist.
        design_effect: number of clustered units that are worth one independent unit; None if it cannot be measured.
        warnings: warnings in words.
    """

    num_missed: int
    num_total: int
    pooled: float
    mean: float
    confidence: float
    upper_bound: float
    interval: Bounds
    method: str
    reason: str
    intervals: Mapping[str, Bounds | None]
    design_effect: float | None
    warnings: tuple[str, ...]
    assumption: str | None = None

    def miss_rate(self) -> MissRate:
        """Returns the rate as m, if you counted tokens. As in a run, its bounds are the ends of the interval."""
        lower, upper = self.interval
        return MissRate(
            value=self.pooled, lower=min(lower, self.pooled), upper=max(upper, self.pooled), confidence=self.confidence
        )

    def false_negative_rate(self, mu: str) -> FalseNegativeRate:
        """Returns the rate as γ, if you counted secrets that are not masked, or not masked stably.

        Args:
            mu: distribution of secrets that the counted secrets represent, in words.
        """
        return FalseNegativeRate(value=self.pooled, upper=self.upper_bound, confidence=self.confidence, mu=mu)

    def delta2(self, mu: str) -> Delta2:
        """Returns the rate as δ₂, if you counted missed secrets in public rows.

        Args:
            mu: distribution of secrets that the counted secrets represent, in words.
        """
        return Delta2(value=self.pooled, upper=self.upper_bound, confidence=self.confidence, mu=mu)


@dataclass(frozen=True, kw_only=True)
class ReviewPlan:
    """The size of a review after which a bound is small enough.

    Attributes:
        target, bound, confidence, expected_rate, assurance, design_effect, units_per_sentence: arguments as given.
        unit: unit that is counted: ``secrets`` or ``tokens``.
        num_units: number of units to review.
        num_units_if_none_is_missed: number of units that suffices if none of them is missed.
        num_misses_allowed: number of misses among ``num_units`` with which the bound still holds.
        num_sentences: approximate number of sentences with that many units; None if their density is unknown.
        num_large_sentences: number of large sentences, such as lists, to review as well, if the corpus has so many.
        num_population_sentences: argument ``num_population`` as given.
        is_census: true if every sentence has to be reviewed.
    """

    target: Target
    bound: float
    confidence: float
    expected_rate: float
    assurance: float
    design_effect: float
    unit: str
    num_units: int
    num_units_if_none_is_missed: int
    num_misses_allowed: int
    units_per_sentence: float | None
    num_sentences: int | None
    num_large_sentences: int
    num_population_sentences: int | None
    is_census: bool


def estimate_rate(
    missed: Sequence[int],
    total: Sequence[int],
    *,
    sentences: Sequence[int] | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> RateEstimate:
    """Estimates a rate and its intervals from plain counts, one row per replicate or sentence.

    Misses come in clusters, and each row is a cluster: the spread of the rows sets the width of the interval.

    Args:
        missed: misses in each row.
        total: tokens, or secrets, in each row; above 0, and not fewer than the misses.
        sentences: number of sentences in each row, if known. Without any miss, sentences are the clusters.
        confidence: confidence of intervals and bound, between 0.5 and 1.
        seed: seed of the bootstrap.

    Raises:
        InputError: there is no row, or the counts are impossible.
        ConfigError: the confidence is out of range.
    """
    if not 0.5 < confidence < 1:
        raise ConfigError(f"confidence must lie between 0.5 and 1, not at {confidence:g}")
    if not total or len(missed) != len(total) or len(sentences or total) != len(total):
        raise InputError("missed, total and sentences need one number per row each, and at least one row")
    if any(not 0 <= m <= t or t == 0 for m, t in zip(missed, total, strict=True)):
        raise InputError("misses must be at least 0 and at most the total of their row, which is above 0")
    if sentences is not None and any(not 0 < n <= t for n, t in zip(sentences, total, strict=True)):
        raise InputError("sentences must lie between 1 and the total of their row")
    counts = ReplicateCounts(tuple(missed), tuple(total), None if sentences is None else tuple(sentences))
    figures = estimate_counts(counts, confidence, seed)
    names = ("student_t", "student_t_clipped", "clopper_pearson", "cluster_robust", "bootstrap")
    return RateEstimate(
        **{name: figures[name] for name in ("num_missed", "num_total", "pooled", "mean", "confidence")},
        upper_bound=1.0 if figures["upper_bound"] is None else figures["upper_bound"],
        interval=figures["recommended"] or (0.0, 1.0),
        method=figures["recommended_method"] or "none",
        assumption=figures["assumption"],
        reason=figures["reason"],
        intervals={name: figures[name] for name in names},
        design_effect=figures["design_effect"],
        warnings=tuple(figures["warnings"]),
    )


def clustered_interval(hits: Sequence[int], units: Sequence[int], *, confidence: float = 0.95) -> Bounds:
    """Returns the two-sided exact interval at the effective sample size, sentences as clusters (Korn, Graubard 1998).

    Args:
        hits: misses in each sentence.
        units: tokens or secrets in each sentence.
        confidence: confidence of the interval.

    Raises:
        ValueError: more hits than units, or sequences of different lengths.
    """
    return korn_graubard(ClusteredCounts.of(hits, units), confidence)


def plan_reviews(
    target: Target,
    *,
    bound: float,
    confidence: float = 0.95,
    expected_rate: float = 0.0,
    assurance: float = 0.8,
    design_effect: float = 1.0,
    units_per_sentence: float | None = None,
    num_population: int | None = None,
) -> ReviewPlan:
    """Plans the size of a review after which a bound is small enough.

    Args:
        target: rate to bound: ``gamma``, ``miss_rate`` or ``delta2``.
        bound: one-sided upper bound to reach.
        confidence: confidence of the bound.
        expected_rate: true rate that you expect; below ``bound``.
        assurance: probability, at that rate, that the bound comes out at ``bound`` or less.
        design_effect: number of clustered units that are worth one independent unit, at least 1, from an earlier
            estimate.
        units_per_sentence: units in an average sentence, from an earlier estimate; None if unknown.
        num_population: number of sentences that exist. The plan never asks for more.

    Raises:
        ConfigError: a value is out of range, or the expected rate leaves no room below the bound.
    """
    planned: dict[str, Any] = plan(
        target,
        bound=bound,
        confidence=confidence,
        expected_rate=expected_rate,
        assurance=assurance,
        design_effect=design_effect,
        units_per_sentence=units_per_sentence,
        num_population=num_population,
    )
    return ReviewPlan(**planned)
