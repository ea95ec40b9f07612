"""A lower bound on epsilon from the two error rates of a membership test (Jagielski, Ullman and Oprea 2020).

Any test that distinguishes two neighbouring worlds obeys FNR >= 1 - delta - e^epsilon FPR, and the same with the rates
exchanged (Kairouz, Oh and Viswanath 2015: the privacy region of a hypothesis test). Exact binomial upper bounds on both
rates therefore give a lower bound on epsilon (Jagielski et al. 2020; Nasr et al. 2021, arXiv 2101.04535).
"""

from __future__ import annotations

import math

from pipelines.intervals import clopper_pearson_upper


def epsilon_of_rates(false_positive_rate: float, false_negative_rate: float, delta: float) -> float:
    """Returns the least epsilon that allows both rates: Kairouz et al. 2015, privacy region, solved for epsilon.

    Returns:
        Epsilon, at least 0; infinity if one rate is 0 and the other below 1 - delta.
    """
    found = 0.0
    for one, other in ((false_positive_rate, false_negative_rate), (false_negative_rate, false_positive_rate)):
        power = 1 - delta - other
        if power > 0:
            found = max(found, math.log(power / one) if one > 0 else math.inf)
    return found


def rate_bounds(
    false_positives: int, num_out: int, false_negatives: int, num_in: int, significance: float
) -> tuple[float, float]:
    """Returns upper bounds on FPR and FNR that hold together with probability 1 - ``significance``, half for each.

    Args:
        false_positives: number of trials without the canary that the test took for trials with it.
        num_out: number of trials without the canary.
        false_negatives: number of trials with the canary that the test took for trials without it.
        num_in: number of trials with the canary.
        significance: significance, strictly between 0 and 1.
    """
    if not (0 <= false_positives <= num_out and 0 <= false_negatives <= num_in):
        raise ValueError("a test cannot err more often than it was tried")
    confidence = 1 - significance / 2
    return (
        clopper_pearson_upper(false_positives, num_out, confidence),
        clopper_pearson_upper(false_negatives, num_in, confidence),
    )


def clopper_pearson_bound(
    false_positives: int, num_out: int, false_negatives: int, num_in: int, *, delta: float, significance: float
) -> float:
    """Returns the lower bound on epsilon, which holds with probability 1 - ``significance``.

    It assumes independent trials and a threshold that was fixed without them. Counts as in `rate_bounds`.
    """
    rates = rate_bounds(false_positives, num_out, false_negatives, num_in, significance)
    return epsilon_of_rates(*rates, delta)
