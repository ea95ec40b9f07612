"""Intervals for rates that are measured on sampled sentences.

Misses come in clusters: one odd sentence holds several. Treating tokens or secrets as independent makes an interval
too short, so the recommended one scales the sample down by the measured design effect before it applies the exact
binomial interval (Korn and Graubard 1998, "Confidence intervals for proportions with small expected number of
positive counts estimated from survey data"). Zero misses give an upper bound, never 0.

None of the intervals claims credit for sampling without replacement (the finite population correction), which keeps
them on the long side; a census needs none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

Interval = tuple[float, float]

_FEW_HIT_CLUSTERS = 20


@dataclass(frozen=True)
class ClusteredCounts:
    """Hits and units per sampled sentence; a sentence is one cluster.

    Attributes:
        hits: (num_clusters,) missed tokens or secrets of each sentence.
        units: (num_clusters,) all tokens or secrets of each sentence, at least as many.
    """

    hits: NDArray[np.float64]
    units: NDArray[np.float64]

    @classmethod
    def of(cls, hits: ArrayLike, units: ArrayLike) -> ClusteredCounts:
        """Counts of the sentences that hold a unit at all; the others carry no information on a ratio.

        Raises:
            ValueError: the shapes differ, or a sentence has fewer units than hits.
        """
        hit_array, unit_array = np.asarray(hits, dtype=np.float64), np.asarray(units, dtype=np.float64)
        if hit_array.shape != unit_array.shape or hit_array.ndim != 1:
            raise ValueError("hits and units must be one-dimensional and equally long")
        if np.any(hit_array < 0) or np.any(hit_array > unit_array):
            raise ValueError("a sentence cannot have more hits than units, nor fewer than none")
        kept = unit_array > 0
        return cls(hit_array[kept], unit_array[kept])

    @property
    def num_clusters(self) -> int:
        """Sentences with at least one unit."""
        return len(self.units)

    @property
    def num_hits(self) -> float:
        """Hits in all."""
        return float(self.hits.sum())

    @property
    def num_units(self) -> float:
        """Units in all."""
        return float(self.units.sum())

    @property
    def value(self) -> float | None:
        """The ratio of the totals; None when there is no unit."""
        return self.num_hits / self.num_units if self.num_units else None

    def standard_error(self) -> float | None:
        """The linearised standard error of the ratio (Cochran 1977, section 6.4); None below two clusters."""
        ratio = self.value
        if ratio is None or self.num_clusters < 2:
            return None
        residuals = self.hits - ratio * self.units
        share = self.num_clusters / (self.num_clusters - 1)
        return math.sqrt(share * float(residuals @ residuals)) / self.num_units


def student_t(replicate_rates: ArrayLike, confidence: float) -> Interval | None:
    """The interval of JFT: mean of the replicates' rates and Student's t, n - 1 degrees of freedom.

    It knows nothing of the range 0 to 1, so the lower end can be negative; see `clip`.

    Returns:
        None with fewer than two replicates.
    """
    rates = np.asarray(replicate_rates, dtype=np.float64)
    if len(rates) < 2:
        return None
    centre = float(rates.mean())
    reach = _t(0.5 + confidence / 2, len(rates) - 1) * float(rates.std(ddof=1)) / math.sqrt(len(rates))
    return centre - reach, centre + reach


def clip(interval: Interval) -> Interval:
    """The interval cut to the range 0 to 1."""
    return min(max(interval[0], 0.0), 1.0), min(max(interval[1], 0.0), 1.0)


def clopper_pearson(num_hits: float, num_units: float, confidence: float) -> Interval:
    """The exact two-sided binomial interval (Clopper and Pearson 1934) for independent units.

    Counts may be fractional (effective sample sizes). No unit at all gives (0, 1).
    """
    tail = (1 - confidence) / 2
    return _lower(num_hits, num_units, tail), _upper(num_hits, num_units, tail)


def clopper_pearson_upper(num_hits: float, num_units: float, confidence: float) -> float:
    """The exact one-sided upper bound; 1 - (1 - confidence)^(1/n) for zero hits, 1 when there is no unit."""
    return _upper(num_hits, num_units, 1 - confidence)


def cluster_robust(counts: ClusteredCounts, confidence: float) -> Interval | None:
    """The ratio's linearised interval with Student's t over sentences, cut to 0 to 1.

    Returns:
        None below two sentences, and with zero hits or nothing but hits, where the spread measured is 0 and an
        interval of no length would be a lie.
    """
    error, ratio = counts.standard_error(), counts.value
    if error is None or ratio is None or error == 0:
        return None
    reach = _t(0.5 + confidence / 2, counts.num_clusters - 1) * error
    return clip((ratio - reach, ratio + reach))


def effective_sample_size(counts: ClusteredCounts, tail: float) -> float:
    """How many independent units the clustered sample is worth, with a correction for few sentences.

    Never more than the units themselves (a design effect below 1 is luck), and one per sentence where no spread
    can be measured: with zero hits, with nothing but hits, or with a single sentence.

    Args:
        counts: hits and units per sentence.
        tail: the error probability of one side of the interval, for the correction for few sentences.
    """
    error, ratio = counts.standard_error(), counts.value
    if ratio is None:
        return 0.0
    if error is None or error == 0 or ratio in (0.0, 1.0):
        return float(counts.num_clusters)
    size = ratio * (1 - ratio) / error**2
    if counts.num_units > 1:
        # The design effect is itself measured on few sentences: Student's t at their number says how much that costs.
        size *= (_t(1 - tail, counts.num_units - 1) / _t(1 - tail, counts.num_clusters - 1)) ** 2
    if int((counts.hits > 0).sum()) < _FEW_HIT_CLUSTERS:
        # A design effect measured on a handful of hits comes out too small too often: assume that a sentence is
        # missed wholly or not at all (Kish's effective sample size) when that is worse.
        size = min(size, counts.num_units**2 / float(counts.units @ counts.units))
    return min(size, counts.num_units)


def korn_graubard(counts: ClusteredCounts, confidence: float) -> Interval:
    """The two-sided exact interval at the effective sample size; (0, 1) when there is no unit."""
    tail = (1 - confidence) / 2
    size = effective_sample_size(counts, tail)
    hits = (counts.value or 0.0) * size
    return _lower(hits, size, tail), _upper(hits, size, tail)


def korn_graubard_upper(counts: ClusteredCounts, confidence: float) -> float:
    """The one-sided upper bound at the effective sample size; 1 when there is no unit."""
    tail = 1 - confidence
    size = effective_sample_size(counts, tail)
    return _upper((counts.value or 0.0) * size, size, tail)


def num_clean_reviews_needed(upper_bound: float, confidence: float) -> int:
    """How many independent reviews without a single hit bring the upper bound down to ``upper_bound``."""
    if not 0 < upper_bound < 1:
        raise ValueError(f"upper_bound must be strictly between 0 and 1, not {upper_bound}")
    return math.ceil(math.log(1 - confidence) / math.log1p(-upper_bound))


def _t(probability: float, degrees: float) -> float:
    return float(stats.t.ppf(probability, degrees))


def _lower(hits: float, units: float, tail: float) -> float:
    if hits <= 0 or units <= 0:
        return 0.0
    return float(stats.beta.ppf(tail, hits, units - hits + 1))


def _upper(hits: float, units: float, tail: float) -> float:
    if units <= 0 or hits >= units:
        return 1.0
    return float(stats.beta.ppf(1 - tail, hits + 1, units - hits))
