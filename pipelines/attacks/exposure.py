"""Exposure: the rank of a canary among all candidates of its form, in bits.

``exposure = log2 |R| - log2 rank`` (Carlini et al. 2019, "The Secret Sharer", exposure; Shi et al. 2022, Definition 5;
Zhao et al. 2022, Definition 9). The rank is 1 for the candidate with the least log-perplexity, which is the sum of
its tokens' losses (Carlini et al., Definition 1), not their mean. Normalised by a reference model, candidates are
ranked by the difference of the two log-perplexities.

Ties. The papers rank equally good candidates before the canary: a model with the same loss for all would give exposure
0. `Rank` keeps both ends. `Rank.middle` is reported, and the two others bound it. `Rank.first` is the most pessimistic
for the model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy import stats

from pipelines.intervals import clopper_pearson

FloatArray = npt.NDArray[np.float64]

TIE_NATS: Final = 1e-9
"""Difference below which losses are equal: the rounding of one loss in float64, computed in another order."""


@dataclass(frozen=True, kw_only=True)
class Rank:
    """The rank of a canary among ``size`` candidates, itself included.

    Attributes:
        size: |R|, number of candidates.
        num_below: number of candidates with less loss.
        num_tied: number of other candidates with the same loss.
    """

    size: int
    num_below: int
    num_tied: int = 0

    def __post_init__(self) -> None:
        if min(self.num_below, self.num_tied) < 0 or self.num_below + self.num_tied >= self.size:
            raise ValueError("a rank needs at most size - 1 candidates in addition to the canary")

    @property
    def first(self) -> int:
        """The rank with ties after the canary."""
        return self.num_below + 1

    @property
    def last(self) -> int:
        """The rank with ties before the canary, as the papers count."""
        return self.num_below + self.num_tied + 1

    @property
    def middle(self) -> float:
        """The mean of the first and the last rank."""
        return self.num_below + 1 + self.num_tied / 2


@dataclass(frozen=True, kw_only=True)
class Exposure:
    """A canary's exposure, in bits.

    Attributes:
        bits: exposure by the middle rank.
        low, high: exposure by the last and by the first rank; for samples, the interval at ``confidence``.
        rank: rank among all candidates, or among the sampled ones and the canary.
        confidence: probability that the interval holds the exposure over all candidates; None if all were ranked.
    """

    bits: float
    low: float
    high: float
    rank: Rank
    confidence: float | None = None


@dataclass(frozen=True, kw_only=True)
class FittedExposure:
    """An estimate of a canary's exposure, by a distribution that was fitted to sampled candidates.

    Attributes:
        bits: estimate, at most log2 |R|.
        is_capped: true if the estimate is capped at log2 |R|.
        shape, location, scale: parameters of the skew normal distribution of log-perplexities, in nats.
        fit_distance: distance of Kolmogorov and Smirnov between the sample and the distribution.
        num_samples: number of sampled candidates.
    """

    bits: float
    is_capped: bool
    shape: float
    location: float
    scale: float
    fit_distance: float
    num_samples: int


def exposure_bits(size: int, rank: float) -> float:
    """Returns log2 |R| - log2 rank.

    Args:
        size: |R|, number of candidates.
        rank: rank, 1 to ``size``.

    Raises:
        ValueError: there is no such rank.
    """
    if not 1 <= rank <= size:
        raise ValueError(f"a rank among {size} candidates is 1 to {size}, not {rank}")
    return math.log2(size) - math.log2(rank)


def rank_among(loss: float, others: FloatArray) -> Rank:
    """Returns the rank of a loss among those of other candidates.

    Args:
        loss: loss of the canary in nats, or its difference to a reference model's.
        others: (n,) losses of all candidates except the canary.
    """
    num_below = int(np.count_nonzero(others < loss - TIE_NATS))
    num_not_above = int(np.count_nonzero(others <= loss + TIE_NATS))
    return Rank(size=len(others) + 1, num_below=num_below, num_tied=num_not_above - num_below)


def exposure_of(rank: Rank) -> Exposure:
    """Returns the exposure if all candidates were ranked."""
    return Exposure(
        bits=exposure_bits(rank.size, rank.middle),
        low=exposure_bits(rank.size, rank.last),
        high=exposure_bits(rank.size, rank.first),
        rank=rank,
    )


def sampled_exposure(loss: float, sampled: FloatArray, size: int) -> Exposure:
    """Returns the exposure by sampling: -log2 of the share of candidates that are as good (Carlini et al. 2019).

    The canary counts as one more draw, so that its rank is uniform if nothing was learnt. If no draw is as good as the
    canary, the estimate is therefore log2 (n + 1), and ``high`` bounds the exposure from above. The interval is that of
    Clopper and Pearson for the share, with ties counted to either side.

    Args:
        loss: loss of the canary, in nats.
        sampled: (n,) losses of candidates drawn uniformly, with replacement, independently of the canary.
        size: |R|, number of all candidates.
    """
    confidence, rank = 0.95, rank_among(loss, sampled)
    num, most = len(sampled), math.log2(size)
    _, upper = clopper_pearson(rank.last - 1, num, confidence)
    lower, _ = clopper_pearson(rank.num_below, num, confidence)
    return Exposure(
        bits=min(most, exposure_bits(num + 1, rank.middle)),
        low=max(0.0, -math.log2(upper)),
        high=most if lower * size <= 1 else -math.log2(lower),
        rank=rank,
        confidence=confidence,
    )


def fitted_exposure(loss: float, sampled: FloatArray, size: int) -> FittedExposure:
    """Estimates the exposure for spaces too large to enumerate, beyond the reach of sampling.

    Log-perplexities are assumed to follow a skew normal distribution, and exposure is -log2 of its probability up to
    the canary's (Carlini et al. 2019, by distribution modelling). No sample shows how well it fits far out, in the
    range of memorised canaries.

    Args:
        loss: loss of the canary, in nats.
        sampled: (n,) losses of candidates drawn uniformly.
        size: |R|, number of all candidates.

    Raises:
        ValueError: the sample has no spread.
    """
    if len(sampled) < 2 or np.ptp(sampled) <= TIE_NATS:
        raise ValueError("no distribution can be fitted to candidates of one loss")
    shape, location, scale = map(float, stats.skewnorm.fit(sampled))
    bits, most = -_log_cdf(loss, shape, location, scale) / math.log(2), math.log2(size)
    distance = stats.kstest(sampled, stats.skewnorm(shape, location, scale).cdf).statistic
    return FittedExposure(
        bits=min(max(bits, 0.0), most),
        is_capped=bits > most,
        shape=shape,
        location=location,
        scale=scale,
        fit_distance=float(distance),
        num_samples=len(sampled),
    )


def _log_cdf(at: float, shape: float, location: float, scale: float) -> float:
    """Returns the log-CDF of the skew normal distribution, also far out, where the CDF is 0 in float64."""
    plain = float(stats.skewnorm.cdf(at, shape, location, scale))
    if plain > 1e-6:
        return math.log(plain)
    # Integrates the density downwards from ``at``, in logarithms, over steps that grow.
    steps = np.linspace(-25.0, 5.0, 6_001)
    below = scale * np.exp(steps)
    logs = stats.skewnorm.logpdf(at - below, shape, location, scale) + np.log(below)
    peak = float(logs.max())
    return peak + math.log(float(np.trapezoid(np.exp(logs - peak), steps)))
