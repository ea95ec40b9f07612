"""The null distribution of exposures, if a model learnt nothing, and a test of many canaries against it.

If a canary was drawn uniformly and the model knows nothing about it, its rank is uniform on 1 … |R|. Exposure is then
exponential with mean and standard deviation 1 / ln 2 = 1.44 bits: one in eight canaries has more than 3 bits. A single
canary's small exposure says nothing, and neither does the largest of ten, which has mean 4.2.

Ranks are made continuous by a random place within their step and their ties. This makes them exactly uniform under the
null hypothesis, even for small spaces and for models with the same loss for many candidates. The three tests are then
exact:

- Kolmogorov and Smirnov's of uniform ranks, two-sided;
- the mean of n exponential variables has the Gamma distribution of shape n;
- the largest is below x with probability (1 - 2^-x)^n.

Canaries are independent draws. Those of one form are different, which matters only if they are a large part of all
candidates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

import numpy as np
from scipy import stats

from pipelines.attacks.exposure import Rank

NULL_MEAN_BITS: Final = 1 / math.log(2)
"""Mean, and also standard deviation, of an exposure under the null hypothesis."""
FEWEST_CANARIES: Final = 50
_NUM_TESTS: Final = 3
_POWER: Final = 0.95

Conclusion = Literal["rejected", "not rejected", "too few canaries"]


@dataclass(frozen=True, kw_only=True)
class NullJudgement:
    """The judgement if the exposures of canaries are those of a model that knows nothing about them.

    Attributes:
        conclusion: ``rejected`` if the model knows canaries, however few there are, ``not rejected`` if nothing was
            seen with at least `FEWEST_CANARIES`, or ``too few canaries`` if nothing was seen and nothing follows.
        reading: conclusion in a sentence, with its limits.
        num_canaries: n, number of canaries.
        level: probability to reject if nothing was learnt, of all tests together.
        p_value: p-value of all three tests, the smallest times three (Bonferroni).
        p_uniform: p-value of uniform ranks.
        p_mean: p-value of a mean at least as large.
        p_maximum: p-value of a maximum at least as large.
        mean_bits: mean exposure, of ranks at random places within their steps, as in all three tests.
        mean_limit_bits: 1.44 + 3 standard errors of the mean under the null hypothesis.
        maximum_bits: largest exposure.
        detectable_bits: increase of all exposures that would be found with probability 0.95.
    """

    conclusion: Conclusion
    reading: str
    num_canaries: int
    level: float
    p_value: float
    p_uniform: float
    p_mean: float
    p_maximum: float
    mean_bits: float
    mean_limit_bits: float
    maximum_bits: float
    detectable_bits: float

    @property
    def is_mean_within_limit(self) -> bool:
        """True if the mean is at most 1.44 + 3 standard errors."""
        return self.mean_bits <= self.mean_limit_bits

    def document(self) -> dict[str, Any]:
        """Returns the judgement as JSON values."""
        return {**asdict(self), "is_mean_within_limit": self.is_mean_within_limit}


def judge_exposures(ranks: Mapping[str, Rank], generator: np.random.Generator, *, level: float = 0.05) -> NullJudgement:
    """Tests if ranks are those of canaries that the model knows nothing about.

    At the usual level a mean above 1.44 + 3 standard errors always rejects.

    Args:
        ranks: rank of each canary by its identifier, among all candidates, or among sampled ones and the canary. Copies
            of a canary are not separate canaries.
        generator: generator of the places within steps and ties.
        level: probability of a false rejection, strictly between 0 and 1.

    Raises:
        ValueError: there is no canary.
    """
    if not ranks:
        raise ValueError("there is no canary to judge by")
    shares = uniform_shares(ranks, generator)
    bits = -np.log2(shares)
    num, mean, maximum = len(shares), float(bits.mean()), float(bits.max())
    p_uniform = float(stats.kstest(shares, "uniform").pvalue)
    p_mean = float(stats.gamma.sf(num * mean / NULL_MEAN_BITS, num))
    p_maximum = maximum_p_value(maximum, num)
    p_value = min(1.0, _NUM_TESTS * min(p_uniform, p_mean, p_maximum))
    conclusion: Conclusion = (
        "rejected" if p_value <= level else "not rejected" if num >= FEWEST_CANARIES else "too few canaries"
    )
    return NullJudgement(
        conclusion=conclusion,
        reading=_reading(conclusion, num, maximum, p_maximum, p_value),
        num_canaries=num,
        level=level,
        p_value=p_value,
        p_uniform=p_uniform,
        p_mean=p_mean,
        p_maximum=p_maximum,
        mean_bits=mean,
        mean_limit_bits=mean_limit(num),
        maximum_bits=maximum,
        detectable_bits=detectable_shift(num, level),
    )


def uniform_shares(ranks: Mapping[str, Rank], generator: np.random.Generator) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Returns (n,) rank / |R| at random places within steps and ties: uniform on (0, 1] under the null hypothesis.

    The order is that of the identifiers, so that the same canaries always get the same places.
    """
    places = 1 - generator.random(len(ranks))  # never 0
    ordered = [ranks[canary_id] for canary_id in sorted(ranks)]
    return np.asarray(
        [(r.num_below + (r.num_tied + 1) * place) / r.size for r, place in zip(ordered, places, strict=True)]
    )


def maximum_p_value(bits: float, num: int) -> float:
    """Returns the probability that the largest of ``num`` exposures is at least ``bits``, if nothing was learnt."""
    if bits <= 0:
        return 1.0
    return -math.expm1(num * math.log1p(-(2.0**-bits)))


def mean_limit(num: int) -> float:
    """Returns 1.44 + 3 standard errors. The mean of ``num`` exposures hardly exceeds it if nothing was learnt."""
    return NULL_MEAN_BITS * (1 + 3 / math.sqrt(num))


def detectable_shift(num: int, level: float) -> float:
    """Returns the increase of ``num`` exposures, in bits, at which the test of the mean rejects 95 times in 100."""
    critical = stats.gamma.isf(level / _NUM_TESTS, num)
    return float(critical - stats.gamma.ppf(1 - _POWER, num)) / num * NULL_MEAN_BITS


def _reading(conclusion: Conclusion, num: int, maximum: float, p_maximum: float, p_value: float) -> str:
    if conclusion == "rejected":
        return f"The model knows of the canaries: ranks like these come with probability {p_value:.2g} by chance."
    if conclusion == "not rejected":
        return (
            f"The ranks of {num} canaries are like those of a model that knows nothing of them (p = {p_value:.2g}). "
            "That is no proof that it knows nothing."
        )
    return (
        f"{num} {'canary is' if num == 1 else 'canaries are'} too few to say that nothing was learnt: a largest "
        f"exposure of {maximum:.1f} bits or more (at a random place within its rank) comes with probability "
        f"{p_maximum:.2g} where nothing was, and a small one where something was. {FEWEST_CANARIES} are needed."
    )
