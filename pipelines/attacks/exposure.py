"""Exposure: how far up a canary stands among all that it could have been.

``exposure = log2 |R| - log2 rank`` (Carlini et al. 2019, "The Secret Sharer", exposure; Shi et al. 2022, Definition 5;
Zhao et al. 2022, Definition 9). The rank is 1 for the candidate with the least log-perplexity, which is the sum of
its tokens' losses (Carlini et al., Definition 1), not their mean. Normalised by a reference model, candidates are
ranked by the difference of the two log-perplexities.

Ties. The papers count candidates as good as the canary before it: a model that says the same of all would give exposure
0. `Rank` keeps both ends; `Rank.middle` is the one that is reported, and the two others bound it. The most pessimistic
for the model is `Rank.first`.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy import stats

from pipelines.intervals import clopper_pearson

FloatArray = npt.NDArray[np.float64]

TIE_NATS: Final = 1e-9
"""Losses that differ by less are equal: what float64 leaves of one and the same loss, computed in another order."""


@dataclass(frozen=True, kw_only=True)
class Rank:
    """Where a canary stands among ``size`` candidates, itself included.

    Attributes:
        size: |R|.
        num_below: candidates with less loss.
        num_tied: other candidates with the same loss.
    """

    size: int
    num_below: int
    num_tied: int = 0

    def __post_init__(self) -> None:
        if min(self.num_below, self.num_tied) < 0 or self.num_below + self.num_tied >= self.size:
            raise ValueError("a rank needs at most size - 1 candidates beside the canary")

    @property
    def first(self) -> int:
        """With ties behind it."""
        return self.num_below + 1

    @property
    def last(self) -> int:
        """With ties before it, as the papers count."""
        return self.num_below + self.num_tied + 1

    @property
    def middle(self) -> float:
        """The mean of the two."""
        return self.num_below + 1 + self.num_tied / 2


@dataclass(frozen=True, kw_only=True)
class Exposure:
    """A canary's exposure, in bits.

    Attributes:
        bits: by the middle rank.
        low, high: by the last and by the first rank; of samples, the interval at ``confidence``.
        rank: among all candidates, or among the sampled ones and the canary.
        confidence: that the interval holds the exposure over all candidates; None where all were ranked.
    """

    bits: float
    low: float
    high: float
    rank: Rank
    confidence: float | None = None

    def document(self) -> dict[str, Any]:
        """As JSON; numbers only."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class FittedExposure:
    """An estimate of a canary's exposure, by a distribution that was fitted to sampled candidates.

    Attributes:
        bits: the estimate, at most log2 |R|.
        is_capped: whether it is that most.
        shape, location, scale: of the skew normal distribution, of log-perplexities in nats.
        fit_distance: of Kolmogorov and Smirnov, between the sample and the distribution.
        num_samples: what it was fitted to.
    """

    bits: float
    is_capped: bool
    shape: float
    location: float
    scale: float
    fit_distance: float
    num_samples: int

    def document(self) -> dict[str, Any]:
        """As JSON; numbers only."""
        return {**asdict(self), "is_estimate": True}


def exposure_bits(size: int, rank: float) -> float:
    """log2 |R| - log2 rank.

    Args:
        size: |R|.
        rank: 1 to ``size``.

    Raises:
        ValueError: there is no such rank.
    """
    if not 1 <= rank <= size:
        raise ValueError(f"a rank among {size} candidates is 1 to {size}, not {rank}")
    return math.log2(size) - math.log2(rank)


def rank_among(loss: float, others: FloatArray, tie: float = TIE_NATS) -> Rank:
    """The rank of a loss among those of other candidates.

    Args:
        loss: the canary's, in nats; it may be a difference to a reference model's.
        others: (n,) of all candidates but the canary.
        tie: what losses may differ by and count as equal.
    """
    num_below = int(np.count_nonzero(others < loss - tie))
    num_not_above = int(np.count_nonzero(others <= loss + tie))
    return Rank(size=len(others) + 1, num_below=num_below, num_tied=num_not_above - num_below)


def exposure_of(rank: Rank) -> Exposure:
    """The exposure where all candidates were ranked."""
    return Exposure(
        bits=exposure_bits(rank.size, rank.middle),
        low=exposure_bits(rank.size, rank.last),
        high=exposure_bits(rank.size, rank.first),
        rank=rank,
    )


def sampled_exposure(loss: float, sampled: FloatArray, size: int, confidence: float = 0.95) -> Exposure:
    """Exposure by sampling: -log2 of the share of candidates that are as good (Carlini et al. 2019).

    The canary counts as one more draw, so that its rank is uniform where nothing was learnt; without one draw as good
    as it the estimate is therefore log2 (n + 1), and how far above the exposure may lie is what ``high`` says. The
    interval is that of Clopper and Pearson for the share, with ties counted to either side.

    Args:
        loss: the canary's, in nats.
        sampled: (n,) of candidates drawn uniformly, with replacement, independently of the canary.
        size: |R|.
        confidence: of the interval.
    """
    rank = rank_among(loss, sampled)
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
    """An estimate of exposure for spaces too large to enumerate, beyond what sampling reaches.

    Log-perplexities are taken to follow a skew normal distribution, and exposure is -log2 of its probability up to the
    canary's (Carlini et al. 2019, by distribution modelling). How well it fits far out, where memorised canaries stand,
    no sample says.

    Args:
        loss: the canary's, in nats.
        sampled: (n,) of candidates drawn uniformly.
        size: |R|.

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
    """Of the skew normal distribution; far out, where the probability itself is 0 in float64, too."""
    plain = float(stats.skewnorm.cdf(at, shape, location, scale))
    if plain > 1e-6:
        return math.log(plain)
    # Integrates the density downwards from ``at``, in logarithms, over steps that grow.
    steps = np.linspace(-25.0, 5.0, 6_001)
    below = scale * np.exp(steps)
    logs = stats.skewnorm.logpdf(at - below, shape, location, scale) + np.log(below)
    peak = float(logs.max())
    return peak + math.log(float(np.trapezoid(np.exp(logs - peak), steps)))
