"""Confidence intervals for rates that are measured on sampled sentences.

Misses come in clusters, because one odd sentence holds several. Treating tokens or secrets as independent makes an
interval too short. The recommended interval therefore scales the sample down by the measured design effect before it
applies the exact binomial interval (Korn and Graubard 1998, "Confidence intervals for proportions with small expected
number of positive counts estimated from survey data"). Zero misses give an upper bound, never 0.

A design effect measured on few misses is too small too often. It is therefore measured as if two more sentences had
been drawn whose every secret was missed (see `effective_size`). `tests/statistical` simulates the result: the stated
coverage at rates of 0 to 2 %, at the width that a known design effect would give.

No interval claims credit for sampling without replacement (the finite population correction), so the intervals are
rather too long. A census needs no interval.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

Interval = tuple[float, float]

_EXTRA_SENTENCES = 2
_PARTS = 4
_MOST_STEPS = 256
_FEW_HIT_SENTENCES = 5
"""The number of sentences with misses from which the added pessimistic sentences count for less."""


@dataclass(frozen=True)
class ClusteredCounts:
    """The hits and units of each sampled sentence. A sentence is one cluster.

    Attributes:
        hits: (num_clusters,) missed tokens or secrets of each sentence, weighted.
        units: (num_clusters,) all tokens or secrets of each sentence, at least as many.
        worst: (num_clusters,) largest possible number of hits of each sentence: its secrets, or its sensitive tokens.
        weight_factor: factor by which unequal weights shrink the sample (Kish 1965); 1 if all are equal.
    """

    hits: NDArray[np.float64]
    units: NDArray[np.float64]
    worst: NDArray[np.float64]
    weight_factor: float = 1.0

    @classmethod
    def of(
        cls, hits: ArrayLike, units: ArrayLike, *, worst: ArrayLike | None = None, weights: ArrayLike | None = None
    ) -> ClusteredCounts:
        """Makes counts of the sentences that hold a unit. The others carry no information on a ratio.

        Args:
            hits: number of hits of each sentence.
            units: number of units of each sentence.
            worst: largest possible number of hits of each sentence; its units if not given.
            weights: 1 / inclusion probability of each sentence; equal if not given.

        Raises:
            ValueError: the shapes differ, a sentence has more hits than units, or a weight is not positive.
        """
        hit_array, unit_array = np.asarray(hits, dtype=np.float64), np.asarray(units, dtype=np.float64)
        worst_array = unit_array if worst is None else np.asarray(worst, dtype=np.float64)
        weight_array = np.ones_like(unit_array) if weights is None else np.asarray(weights, dtype=np.float64)
        if not hit_array.shape == unit_array.shape == worst_array.shape == weight_array.shape or hit_array.ndim != 1:
            raise ValueError("hits, units, worst and weights must be one-dimensional and equally long")
        if np.any(hit_array < 0) or np.any(hit_array > worst_array) or np.any(worst_array > unit_array):
            raise ValueError("a sentence cannot have more hits than units, nor fewer than none")
        if np.any(weight_array <= 0) or not np.all(np.isfinite(weight_array)):
            raise ValueError("the weight of a sentence must be positive")
        kept = unit_array > 0
        weight = weight_array[kept]
        if len(weight) == 0 or np.all(weight == weight[0]):
            return cls(hit_array[kept], unit_array[kept], worst_array[kept])
        weight = weight / weight.mean()
        factor = float(np.mean(weight**2))
        return cls(hit_array[kept] * weight, unit_array[kept] * weight, worst_array[kept] * weight, factor)

    @property
    def num_clusters(self) -> int:
        """The number of sentences with at least one unit."""
        return len(self.units)

    @property
    def num_hits(self) -> float:
        """The weighted total of hits."""
        return float(self.hits.sum())

    @property
    def num_units(self) -> float:
        """The weighted total of units."""
        return float(self.units.sum())

    @property
    def value(self) -> float | None:
        """The ratio of the totals; None if there is no unit."""
        return self.num_hits / self.num_units if self.num_units else None

    def standard_error(self) -> float | None:
        """Computes the linearised standard error of the ratio (Cochran 1977, section 6.4); None below two clusters."""
        ratio = self.value
        if ratio is None or self.num_clusters < 2:
            return None
        residuals = self.hits - ratio * self.units
        share = self.num_clusters / (self.num_clusters - 1)
        return math.sqrt(share * float(residuals @ residuals)) / self.num_units

    def sums(self) -> ClusterSums:
        """Computes the sums that the intervals need."""
        able = self.worst > 0
        num_able = int(able.sum())
        return ClusterSums(
            clusters=np.float64(self.num_clusters),
            hits=np.float64(self.num_hits),
            units=np.float64(self.num_units),
            hits_squared=np.float64(self.hits @ self.hits),
            hits_by_units=np.float64(self.hits @ self.units),
            units_squared=np.float64(self.units @ self.units),
            worst_hits=np.float64(self.worst.sum() / num_able * self.weight_factor if num_able else 0.0),
            worst_units=np.float64(self.units[able].sum() / num_able * self.weight_factor if num_able else 0.0),
        )


@dataclass(frozen=True, kw_only=True)
class ClusterSums:
    """Sums over the clusters of one sample, or of many samples at once (each attribute an array of one shape).

    Attributes:
        clusters, hits, units: numbers of clusters, hits and units.
        hits_squared, hits_by_units, units_squared: sums over clusters of the squares and of the product.
        worst_hits, worst_units: hits and units of a sentence of average size whose every secret is missed; the
            average is over the sentences that hold a secret. 0 if it is not known.
    """

    clusters: Any
    hits: Any
    units: Any
    hits_squared: Any
    hits_by_units: Any
    units_squared: Any
    worst_hits: Any
    worst_units: Any


def student_t(replicate_rates: ArrayLike, confidence: float) -> Interval | None:
    """Computes the interval of JFT: mean of the replicates' rates and Student's t, n - 1 degrees of freedom.

    The interval ignores the range 0 to 1, so the lower end can be negative; see `clip`.

    Returns:
        The interval; None with fewer than two replicates.
    """
    rates = np.asarray(replicate_rates, dtype=np.float64)
    if len(rates) < 2:
        return None
    centre = float(rates.mean())
    reach = float(_t(0.5 + confidence / 2, len(rates) - 1)) * float(rates.std(ddof=1)) / math.sqrt(len(rates))
    return centre - reach, centre + reach


def clip(interval: Interval) -> Interval:
    """Cuts an interval to the range 0 to 1."""
    return min(max(interval[0], 0.0), 1.0), min(max(interval[1], 0.0), 1.0)


def clopper_pearson(num_hits: float, num_units: float, confidence: float) -> Interval:
    """Computes the exact two-sided binomial interval (Clopper and Pearson 1934) for independent units.

    Args:
        num_hits, num_units: counts; they may be fractional (effective sample sizes). No unit at all gives (0, 1).
        confidence: confidence level, strictly between 0 and 1.
    """
    tail = (1 - confidence) / 2
    return float(_lower(num_hits, num_units, tail)), float(_upper(num_hits, num_units, tail))


def clopper_pearson_upper(num_hits: float, num_units: float, confidence: float) -> float:
    """Computes the exact one-sided upper bound: 1 - (1 - confidence)^(1/n) for zero hits, 1 if there is no unit.

    Args:
        num_hits, num_units: counts; they may be fractional.
        confidence: confidence level, strictly between 0 and 1.
    """
    return float(_upper(num_hits, num_units, 1 - confidence))


def cluster_robust(counts: ClusteredCounts, confidence: float) -> Interval | None:
    """Computes the ratio's linearised interval with Student's t over sentences, cut to 0 to 1.

    Returns:
        The interval. None below two sentences, and with zero hits or only hits, because the measured spread is then 0
        and an interval of no length would be wrong.
    """
    error, ratio = counts.standard_error(), counts.value
    if error is None or ratio is None or error == 0:
        return None
    reach = float(_t(0.5 + confidence / 2, counts.num_clusters - 1)) * error
    return clip((ratio - reach, ratio + reach))


def effective_sample_size(counts: ClusteredCounts, tail: float) -> float:
    """Computes the number of independent units that the clustered sample is worth; see `effective_size`."""
    return float(effective_size(counts.sums(), tail)) if counts.num_units else 0.0


def effective_size(sums: ClusterSums, tail: float) -> Any:
    """Computes the number of independent units that clustered samples are worth, for one sample or for arrays of them.

    The design effect is that of the sample with two more sentences whose every secret is missed. They have average
    size, or the size of the sample's hit sentences (Σh²/Σh) if that is larger. Without them, a few misses that happen
    to stand alone would pass for independent ones. They count for less if many sentences hold misses. Without any miss,
    each sentence that holds a secret is one unit, because its secrets can be missed together. Student's t at the number
    of sentences then accounts for measuring the design effect on few of them. The result is never larger than the
    number of units (a design effect below 1 is luck).

    Args:
        sums: sums of the sample or samples; each must hold a unit.
        tail: error probability of one side of the interval, for the correction for few sentences.
    """
    some = np.where(sums.hits > 0, sums.hits, 1.0)
    hit_size = np.where(sums.hits > 0, sums.hits_squared / some, 0.0)  # Σh²/Σh: hits of the average hit's sentence
    extra_hits = np.where(sums.worst_hits > 0, np.maximum(sums.worst_hits, hit_size), 0.0)
    extra_units = sums.worst_units + (extra_hits - np.minimum(sums.worst_hits, extra_hits))
    num_hit_sentences = sums.hits / np.where(hit_size > 0, hit_size, 1.0)
    share = (
        _EXTRA_SENTENCES * np.minimum(1.0, _FEW_HIT_SENTENCES / np.maximum(num_hit_sentences, 1.0)) * (extra_hits > 0)
    )
    hits, units = sums.hits + share * extra_hits, sums.units + share * extra_units
    clusters = sums.clusters + share
    ratio = hits / units
    squares = (
        (sums.hits_squared + share * extra_hits**2)
        - 2 * ratio * (sums.hits_by_units + share * extra_hits * extra_units)
        + ratio**2 * (sums.units_squared + share * extra_units**2)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = clusters / (clusters - 1) * np.maximum(squares, 0.0) / units**2
        few = _t(1 - tail, np.maximum(sums.units - 1, 1.0)) / _t(1 - tail, np.maximum(clusters - 1, 1.0))
        size = ratio * (1 - ratio) / variance * few**2
        without_hits = np.where(sums.worst_hits > 0, sums.units / sums.worst_hits, sums.clusters)
    # No spread can be measured from nothing but hits, nor from a single sentence.
    has_spread = np.isfinite(size) & (variance > 1e-300) & (sums.hits < sums.units) & (sums.clusters > 1)
    size = np.where(has_spread, size, sums.clusters)
    return np.minimum(np.where(sums.hits > 0, size, without_hits), sums.units)


def design_effect(counts: ClusteredCounts) -> float | None:
    """Computes the number of clustered units worth one independent unit (Kish), at least 1; None without a unit."""
    return counts.num_units / effective_sample_size(counts, 0.05) if counts.num_units else None


def korn_graubard(counts: ClusteredCounts, confidence: float) -> Interval:
    """Computes the two-sided exact interval at the effective sample size; (0, 1) if there is no unit."""
    if not counts.num_units:
        return 0.0, 1.0
    low, high = korn_graubard_of(counts.sums(), confidence)
    return float(low), float(high)


def korn_graubard_of(sums: ClusterSums, confidence: float) -> tuple[Any, Any]:
    """Computes `korn_graubard` for one sample or arrays of them. Each must hold a unit."""
    tail = (1 - confidence) / 2
    size = effective_size(sums, tail)
    hits = sums.hits / sums.units * size
    return _lower(hits, size, tail), _upper(hits, size, tail)


def korn_graubard_upper(counts: ClusteredCounts, confidence: float) -> float:
    """Computes the one-sided upper bound at the effective sample size; 1 if there is no unit."""
    return float(korn_graubard_upper_of(counts.sums(), confidence)) if counts.num_units else 1.0


def ratio_upper(counts: ClusteredCounts, confidence: float) -> float:
    """Computes the one-sided upper bound for estimates: `korn_graubard_upper`, made monotone; 1 if there is no unit.

    One more hit can make the measured design effect smaller, and with it `korn_graubard_upper`. So this is the largest
    bound of the sample itself and of samples with the same units and fewer hits, down to none.
    """
    if not counts.num_units:
        return 1.0
    sums, hit = counts.sums(), np.flatnonzero(counts.hits > 0)
    found = [korn_graubard_upper_of(sums, confidence)]
    for order in (
        np.lexsort((counts.units[hit], -counts.hits[hit])),
        np.lexsort((-counts.hits[hit], counts.units[hit])),
    ):
        hits, units = counts.hits[hit][order], counts.units[hit][order]  # (num_hit,) weighted, in the order of keeping
        parts = np.arange(1, _PARTS + 1) / _PARTS
        before = (
            [np.concatenate([[0.0], np.cumsum(a)[:-1]]) for a in (hits, hits**2, hits * units)] if len(hits) else []
        )
        steps = [
            np.concatenate([[0.0], (b[:, None] + a[:, None] * parts**power).ravel()])
            for b, a, power in zip(before, (hits, hits**2, hits * units), (1, 2, 1), strict=False)
        ] or [np.zeros(1)] * 3
        kept = np.unique(np.linspace(0, len(steps[0]) - 1, min(len(steps[0]), _MOST_STEPS)).astype(int))
        fewer = dataclasses.replace(
            sums, hits=steps[0][kept], hits_squared=steps[1][kept], hits_by_units=steps[2][kept]
        )
        found.append(np.max(korn_graubard_upper_of(fewer, confidence)))
    return float(max(found))


def korn_graubard_upper_of(sums: ClusterSums, confidence: float) -> Any:
    """Computes `korn_graubard_upper` for one sample or arrays of them. Each must hold a unit."""
    tail = 1 - confidence
    size = effective_size(sums, tail)
    return _upper(sums.hits / sums.units * size, size, tail)


def bootstrap(counts: ClusteredCounts, confidence: float, rng: np.random.Generator) -> Interval | None:
    """Computes the percentile interval of the ratio over 2,000 resamples of sentences (Efron 1979).

    Resampling cannot invent a miss that the sample lacks, so the interval is too short with few misses. It is shown for
    comparison and never recommended.

    Returns:
        The interval; None below two sentences, with zero hits, or with only hits.
    """
    ratio = counts.value
    if ratio is None or counts.num_clusters < 2 or ratio in (0.0, 1.0):
        return None
    kinds, number = np.unique(np.stack([counts.hits, counts.units], axis=1), axis=0, return_counts=True)
    drawn = rng.multinomial(counts.num_clusters, number / counts.num_clusters, size=2_000)  # (B, kinds)
    totals = drawn @ kinds  # (B, 2)
    tail = (1 - confidence) / 2
    low, high = np.quantile(totals[:, 0] / totals[:, 1], (tail, 1 - tail))
    return float(low), float(high)


def num_clean_reviews_needed(upper_bound: float, confidence: float) -> int:
    """Computes the number of independent reviews without a hit that bring the upper bound down to ``upper_bound``."""
    if not 0 < upper_bound < 1:
        raise ValueError(f"upper_bound must be strictly between 0 and 1, not {upper_bound}")
    return math.ceil(math.log(1 - confidence) / math.log1p(-upper_bound))


def _t(probability: float, degrees: Any) -> Any:
    return stats.t.ppf(probability, degrees)


def _lower(hits: Any, units: Any, tail: float) -> Any:
    safe = np.where(hits > 0, hits, 1.0)
    bound = stats.beta.ppf(tail, safe, np.maximum(units - hits, 0.0) + 1)
    return np.where((hits > 0) & (units > 0), bound, 0.0)


def _upper(hits: Any, units: Any, tail: float) -> Any:
    rest = units - hits
    # An array of samples may mix both cases; ones stand in where the formula does not apply.
    bound = stats.beta.ppf(1 - tail, np.where(rest > 0, hits, 0.0) + 1, np.where(rest > 0, rest, 1.0))
    return np.where((rest > 0) & (units > 0), bound, 1.0)
