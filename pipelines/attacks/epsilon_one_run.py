"""A lower bound on epsilon from one training (Steinke, Nasr and Jagielski 2023, arXiv 2305.08846v1).

Each of m canaries is included by its own fair coin. The attacker sees the releases of the training, guesses the coins
of r canaries, and abstains on the others. Under (epsilon, delta)-DP with respect to adding or removing a record, the
number of right guesses is hardly larger than that of r coins of bias e^epsilon / (1 + e^epsilon). The bound assumes
nothing about the influence of canaries on each other.
"""

from __future__ import annotations

import numpy as np
from scipy import special, stats

HIGHEST_EPSILON = 100.0
TOLERANCE = 1e-9


def one_run_p_value(num_canaries: int, num_guesses: int, num_correct: int, *, epsilon: float, delta: float) -> float:
    """Returns the largest probability of as many right guesses under (epsilon, delta)-DP: Corollary 5.4, appendix D.

    p = beta + 2 m delta alpha, where W is binomial (r, e^epsilon / (1 + e^epsilon)), beta = P[W >= v] and
    alpha = max over i >= 1 of P[v > W >= v - i] / i.

    Args:
        num_canaries: m, number of canaries, each included by a fair coin.
        num_guesses: r, number of guesses, fixed without the coins; the attacker abstains on the others.
        num_correct: v, number of right guesses.
        epsilon: epsilon, at least 0.
        delta: delta, 0 to 1.
    """
    check_guesses(num_canaries, num_guesses, num_correct)
    bias = special.expit(epsilon)
    beta = float(stats.binom.sf(num_correct - 1, num_guesses, bias))
    if delta == 0 or num_correct == 0:
        return beta
    below = stats.binom.pmf(np.arange(num_correct - 1, -1, -1), num_guesses, bias)  # (v,) of v - 1, v - 2, ... 0
    alpha = float((np.cumsum(below) / np.arange(1, num_correct + 1)).max())
    return min(1.0, beta + 2 * num_canaries * delta * alpha)


def one_run_bound(num_canaries: int, num_guesses: int, num_correct: int, *, delta: float, significance: float) -> float:
    """Returns the lower bound on epsilon: every smaller one has a p-value below ``significance`` (Lemma 4.7).

    Arguments as in `one_run_p_value`. The bound is 0 if not even epsilon 0 is refuted.
    """
    low, high = 0.0, HIGHEST_EPSILON

    def is_refuted(epsilon: float) -> bool:
        return one_run_p_value(num_canaries, num_guesses, num_correct, epsilon=epsilon, delta=delta) <= significance

    if not is_refuted(low):
        return 0.0
    if is_refuted(high):
        return high
    while high - low > TOLERANCE:
        middle = (low + high) / 2
        low, high = (middle, high) if is_refuted(middle) else (low, middle)
    return low


def check_guesses(num_canaries: int, num_guesses: int, num_correct: int) -> None:
    """Raises ValueError for impossible counts."""
    if not 0 <= num_correct <= num_guesses <= num_canaries or num_canaries < 1:
        raise ValueError(f"{num_correct} right guesses of {num_guesses} over {num_canaries} canaries cannot be")
