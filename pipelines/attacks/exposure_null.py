"""What exposures look like where nothing was learnt, and whether those of many canaries do.

A canary that was drawn uniformly and that the model knows nothing of has a rank that is uniform on 1 … |R|. Exposure is
then exponential with mean and standard deviation 1 / ln 2 = 1.44 bits: one in eight canaries has more than 3 bits. A
single canary's small exposure says nothing, and neither does the largest of ten, which has mean 4.2.

Ranks are made continuous by a random place within their step and their ties, which makes them exactly uniform under
the null hypothesis, also of small spaces and of models that say the same of many candidates. The three tests are then
exact:

- Kolmogorov and Smirnov's of uniform ranks, two-sided;
- the mean of n exponential variables has the Gamma distribution of shape n;
- the largest is below x with probability (1 - 2^-x)^n.

Canaries are independent draws; of one form they are different, which matters only where they are a good part of all
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
"""Of an exposure under the null hypothesis; its standard deviation as well."""
FEWEST_CANARIES: Final = 50
_NUM_TESTS: Final = 3
_POWER: Final = 0.95

Conclusion = Literal["rejected", "not rejected", "too few canaries"]


@dataclass(frozen=True, kw_only=True)
class NullJudgement:
    """Whether the exposures of canaries are those of a model that knows nothing of them.

    Attributes:
        conclusion: ``rejected``: the model knows of canaries, however few there are. ``not rejected``: nothing was
            seen, with `FEWEST_CANARIES` at least. ``too few canaries``: nothing was seen, and nothing follows.
        reading: the same in a sentence, with what does not follow.
        num_canaries: n.
        level: the probability to reject where nothing was learnt, of all tests together.
        p_value: of all three tests, the smallest times three (Bonferroni).
        p_uniform: that ranks are uniform.
        p_mean: of a mean at least as large.
        p_maximum: of a maximum at least as large.
        mean_bits: the mean exposure, of ranks at random places within their steps, as all three tests read them.
        mean_limit_bits: 1.44 + 3 standard errors of the mean under the null hypothesis.
        maximum_bits: the largest of them.
        detectable_bits: what all exposures would have to be raised by, to be found with probability 0.95.
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
        """Whether the mean is at most 1.44 + 3 standard errors."""
        return self.mean_bits <= self.mean_limit_bits

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {**asdict(self), "is_mean_within_limit": self.is_mean_within_limit}


def judge_exposures(ranks: Mapping[str, Rank], generator: np.random.Generator, *, level: float = 0.05) -> NullJudgement:
    """Tests whether ranks are those of canaries that the model knows nothing of.

    At the usual level a mean above 1.44 + 3 standard errors always rejects.

    Args:
        ranks: by the canary's identifier; among sampled candidates and the canary where they were sampled. One rank
            for each canary: copies of it are no canaries of their own.
        generator: of the places within steps and ties.
        level: the probability of a false rejection, strictly between 0 and 1.

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
    """(n,) rank / |R| of each canary, at a random place within its step and its ties: uniform on (0, 1] under the null.

    In the order of the identifiers, so that the same canaries get the same places whatever order they come in.
    """
    places = 1 - generator.random(len(ranks))  # never 0
    ordered = [ranks[canary_id] for canary_id in sorted(ranks)]
    return np.asarray(
        [(r.num_below + (r.num_tied + 1) * place) / r.size for r, place in zip(ordered, places, strict=True)]
    )


def maximum_p_value(bits: float, num: int) -> float:
    """The probability that the largest of so many exposures is at least that, where nothing was learnt."""
    if bits <= 0:
        return 1.0
    return -math.expm1(num * math.log1p(-(2.0**-bits)))


def mean_limit(num: int) -> float:
    """1.44 + 3 standard errors: what the mean of so many exposures hardly exceeds where nothing was learnt."""
    return NULL_MEAN_BITS * (1 + 3 / math.sqrt(num))


def detectable_shift(num: int, level: float) -> float:
    """What each of so many exposures must be raised by, in bits, for the test of the mean to reject 95 times in 100."""
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
        f"exposure of {maximum:.1f} bits or more comes with probability {p_maximum:.2g} where nothing was, and a small "
        f"one where something was. {FEWEST_CANARIES} are needed."
    )
