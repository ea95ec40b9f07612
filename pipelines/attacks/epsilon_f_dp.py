"""A lower bound on privacy loss from one training, by trade-off curves (Mahloujifar, Melis and Chaudhuri 2024).

arXiv 2410.22235. The game is that of `pipelines.attacks.epsilon_one_run`. Let p_i be the probability of i right guesses
of c', with one canary's coin flipped at a time. An attacker who guesses its coin rightly in i cases guesses it wrongly
in the i - 1 cases of the flipped coin. Under f-DP this gives, for every j (their Theorem on the number of right
guesses, with k = 2),

    sum over i >= j of (i / m) p_i  <=  1 - f( sum over i >= j - 1 of ((c' - i) / m) p_i ).

Their Algorithm 3 turns these inequalities into a test: with a probability of tau or more for at least c right guesses,
they would force all p_i together above 1.

There are two families of curves. ``approximate`` takes the curve of (epsilon, delta)-DP and assumes nothing further.
``gaussian`` takes the curves of mu-Gaussian DP. It is tighter, and bounds epsilon only if the mechanism is mu-GDP for
some mu, as the sum of a correct engine without sampling is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, Literal

import numpy as np
from scipy import special

from pipelines.accounting.accountants import gdp_epsilon
from pipelines.attacks.epsilon_one_run import check_guesses

Family = Literal["approximate", "gaussian"]
Curve = Callable[[float], float]
"""A curve of f-DP: the least false positive rate, given the true positive rate. It is 1 - f, inverted."""

_LARGEST: Final = {"approximate": 100.0, "gaussian": 40.0}
_TOLERANCE: Final = 1e-7
_SMALLEST_SIGNIFICANCE: Final = 1e-300


def gaussian_curve(mu: float) -> Curve:
    """Returns the curve of mu-GDP: Phi(Phi^-1(x) - mu) (Dong, Roth and Su 2022, equation 6)."""

    def least_rate(x: float) -> float:
        return float(special.ndtr(special.ndtri(min(x, 1.0)) - mu))

    return least_rate


def approximate_curve(epsilon: float, delta: float) -> Curve:
    """Returns the (epsilon, delta)-DP curve: 1 - f inverted, f = max(0, 1 - delta - e^eps x, e^-eps (1 - delta - x)).

    Dong, Roth and Su 2022, Proposition 2.5 (after Wasserman and Zhou 2010; Kairouz et al. 2015).
    """
    growth = math.exp(epsilon)

    def least_rate(x: float) -> float:
        return max(0.0, (x - delta) / growth, 1 - delta - growth * (1 - x))

    return least_rate


def profile_curve(points: Sequence[tuple[float, float]]) -> Curve:
    """Returns the curve of a mechanism that is (epsilon, delta)-DP for all points: the greatest of their curves.

    An accountant claims all points at once. The more points, the nearer the curve is to the mechanism's own (Dong, Roth
    and Su 2022, Proposition 2.12).

    Args:
        points: (epsilon, delta) pairs, at least one.
    """
    epsilons, deltas = np.array(points, dtype=np.float64).T
    growth = np.exp(epsilons)

    def least_rate(x: float) -> float:
        return max(0.0, float(((x - deltas) / growth).max()), float((1 - deltas - growth * (1 - x)).max()))

    return least_rate


def is_refuted(num_canaries: int, num_guesses: int, num_correct: int, *, curve: Curve, significance: float) -> bool:
    """Returns true if f-DP gives as many right guesses a probability below ``significance``: Algorithm 3.

    Args:
        num_canaries: m, number of canaries, each included by a fair coin.
        num_guesses: c', number of guesses, fixed without the coins.
        num_correct: c, number of right guesses.
        curve: curve of the tested f-DP.
        significance: tau, strictly between 0 and 1.
    """
    check_guesses(num_canaries, num_guesses, num_correct)
    if num_guesses == 0:
        return False
    whole = num_guesses / num_canaries
    right = significance * num_correct / num_canaries  # sum over i >= j of (i / m) p_i
    wrong = significance * (num_guesses - num_correct) / num_canaries  # sum over i >= j of ((c' - i) / m) p_i
    for count in range(num_correct - 1, -1, -1):
        if right + wrong > whole:
            return True
        forced = curve(right)
        if forced <= wrong:
            break  # nothing forces any further probability below this number of right guesses
        right, wrong = right + (forced - wrong) * count / (num_guesses - count), forced
    return right + wrong > whole


def f_dp_bound(
    num_canaries: int, num_guesses: int, num_correct: int, *, delta: float, significance: float, family: Family
) -> float:
    """Returns the lower bound on epsilon at ``delta``: the largest refuted member of the family, or 0.

    Counts as in `is_refuted`. See the module for the assumption of ``gaussian``.
    """

    def refutes(parameter: float) -> bool:
        curve = gaussian_curve(parameter) if family == "gaussian" else approximate_curve(parameter, delta)
        return is_refuted(num_canaries, num_guesses, num_correct, curve=curve, significance=significance)

    low, high = 0.0, _LARGEST[family]
    if not refutes(low):
        return 0.0
    while high - low > _TOLERANCE:
        middle = (low + high) / 2
        low, high = (middle, high) if refutes(middle) else (low, middle)
    return gdp_epsilon(low, delta) if family == "gaussian" else low


def f_dp_p_value(num_canaries: int, num_guesses: int, num_correct: int, *, curve: Curve) -> float:
    """Returns the least significance that refutes the curve: at least the probability of as many right guesses."""
    low, high = math.log(_SMALLEST_SIGNIFICANCE), 0.0

    def refutes(log_significance: float) -> bool:
        return is_refuted(num_canaries, num_guesses, num_correct, curve=curve, significance=math.exp(log_significance))

    if not refutes(-1e-12):
        return 1.0
    while high - low > _TOLERANCE:
        middle = (low + high) / 2
        low, high = (low, middle) if refutes(middle) else (middle, high)
    return math.exp(high)
