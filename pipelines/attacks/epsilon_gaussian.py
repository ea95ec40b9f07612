"""Lower bounds on epsilon through Gaussian differential privacy: tight, and valid only under an assumption.

If a mechanism is mu-GDP, the error rates of any test give a lower bound on mu, and mu gives epsilon at every delta
(Nasr et al. 2023, "Tight auditing", arXiv 2302.07956; Dong, Roth and Su 2022, equation 6 and Corollary 2.13). So far
smaller error rates than the observed ones are inferred, not measured. A mechanism that is not mu-GDP, such as a sampled
step, can have a smaller epsilon than these figures. State `ASSUMPTION` with every figure from this module.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy import optimize, special, stats

from pipelines.accounting.accountants import gdp_epsilon
from pipelines.attacks.epsilon_clopper_pearson import rate_bounds

ASSUMPTION: Final = "the mechanism is mu-Gaussian DP for some mu"
SCORES_ASSUMPTION: Final = "scores are Gaussian, with one variance, with and without the canary"

LARGEST_SHIFT: Final = 50.0
"""Largest counted shift between samples. It gives a bound of more than a thousand, and a smaller bound is valid too."""
_NUM_QUANTILES: Final = 4_000


def mu_of_rates(false_positive_rate: float, false_negative_rate: float) -> float:
    """Returns the least mu that allows both rates: Phi^-1(1 - FPR) - Phi^-1(FNR), at least 0.

    Dong, Roth and Su 2022, equation 6: FNR >= Phi(Phi^-1(1 - FPR) - mu).
    """
    return max(0.0, float(-special.ndtri(false_positive_rate) - special.ndtri(false_negative_rate)))


def gaussian_bound(
    false_positives: int, num_out: int, false_negatives: int, num_in: int, *, delta: float, significance: float
) -> float:
    """Returns epsilon at ``delta`` of the mu from exact bounds on both rates (Nasr et al. 2023, by Gaussian DP).

    It assumes independent trials, a threshold that was fixed without them, and `ASSUMPTION`.
    """
    rates = rate_bounds(false_positives, num_out, false_negatives, num_in, significance)
    return gdp_epsilon(mu_of_rates(*rates), delta)


def order_statistics_bound(
    in_scores: npt.NDArray[np.float64],
    out_scores: npt.NDArray[np.float64],
    *,
    shares: Sequence[float],
    delta: float,
    significance: float,
) -> float:
    """Returns a bound as `gaussian_bound`, with thresholds at order statistics of the scores without the canary.

    The false positive rate at the k-th largest of n scores without the canary is distributed as Beta(k, n - k + 1), or
    below if scores tie (David and Nagaraja 2003, section 2.1), for any distribution of the scores. The scores with the
    canary are independent of that threshold. So all trials count, and none is used up to choose a threshold.
    ``significance`` is divided by the number of ``shares`` (Bonferroni), and the best bound is taken.

    Args:
        in_scores: (num_in,) scores of trials with the canary; a higher score suggests the canary.
        out_scores: (num_out,) scores of trials without it.
        shares: target false positive rates, fixed beforehand, each strictly between 0 and 1.
        delta: delta, 0 to 1.
        significance: significance, strictly between 0 and 1.
    """
    num_in, num_out = len(in_scores), len(out_scores)
    if not num_in or not num_out:
        return 0.0
    tail = significance / (2 * len(shares))
    falling = np.sort(out_scores)[::-1]
    mu = 0.0
    for share in shares:
        rank = min(num_out, max(1, round(share * num_out)))
        threshold = falling[rank - 1]
        # P[score > threshold], strictly: ties with the threshold are no positives, in either world.
        false_positive_rate = float(stats.beta.ppf(1 - tail, rank, num_out - rank + 1))
        false_negatives = int((in_scores <= threshold).sum())
        false_negative_rate = rate_bounds(0, 0, false_negatives, num_in, 2 * tail)[1]
        mu = max(mu, mu_of_rates(false_positive_rate, false_negative_rate))
    return gdp_epsilon(mu, delta)


def gaussian_scores_bound(
    in_scores: npt.NDArray[np.float64], out_scores: npt.NDArray[np.float64], *, delta: float, significance: float
) -> float:
    """Returns epsilon of the shift between two Gaussian samples, in deviations, at its lower confidence bound.

    Student's two-sample statistic is noncentral t with parameter mu / sqrt(1/n + 1/m): (Z + parameter) / sqrt(V / nu),
    Z standard normal and V chi-squared with nu = n + m - 2 degrees (Johnson, Kotz and Balakrishnan 1995, chapter 31).
    Its distribution grows with mu. It assumes independent trials and `SCORES_ASSUMPTION`, an assumption on the scores
    that is stronger than `ASSUMPTION`.
    """
    num_in, num_out = len(in_scores), len(out_scores)
    degrees = num_in + num_out - 2
    if num_in < 2 or num_out < 2:
        return 0.0
    squares = float(((in_scores - in_scores.mean()) ** 2).sum() + ((out_scores - out_scores.mean()) ** 2).sum())
    if squares == 0:
        return 0.0
    scale = math.sqrt(1 / num_in + 1 / num_out)
    statistic = float(in_scores.mean() - out_scores.mean()) / (math.sqrt(squares / degrees) * scale)

    spreads = _spreads(degrees)

    def excess(parameter: float) -> float:
        return float(special.ndtr(parameter - statistic * spreads).mean()) - significance

    if excess(0.0) >= 0:
        return 0.0
    shift = float(optimize.brentq(excess, 0.0, statistic + 10)) * scale
    return gdp_epsilon(min(shift, LARGEST_SHIFT), delta)


@functools.lru_cache(maxsize=16)
def _spreads(degrees: int) -> npt.NDArray[np.float64]:
    """Returns (_NUM_QUANTILES,) quantiles of sqrt(V / degrees) to average over. Scipy's noncentral t fails far out."""
    middles = (np.arange(_NUM_QUANTILES) + 0.5) / _NUM_QUANTILES
    return np.asarray(np.sqrt(stats.chi2.ppf(middles, degrees) / degrees))
