"""Ceilings of the estimators: their bounds for an attack that never errs.

A bound far below a claim shows a loose claim, a weak attack, or too few trials. The ceiling detects too few trials.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipelines.attacks.epsilon_clopper_pearson import clopper_pearson_bound
from pipelines.attacks.epsilon_f_dp import Family, f_dp_bound
from pipelines.attacks.epsilon_gaussian import gaussian_bound, order_statistics_bound
from pipelines.attacks.epsilon_one_run import one_run_bound


def clopper_pearson_ceiling(num_in: int, num_out: int, *, delta: float, significance: float) -> float:
    """Returns the bound without error in ``num_in`` trials with and ``num_out`` without the canary."""
    return clopper_pearson_bound(0, num_out, 0, num_in, delta=delta, significance=significance)


def one_run_ceiling(num_canaries: int, guesses: Sequence[int], *, delta: float, significance: float) -> float:
    """Returns the best bound over the numbers of guesses, if all guesses are right."""
    level = significance / len(guesses)
    return max(one_run_bound(num_canaries, r, r, delta=delta, significance=level) for r in guesses)


def f_dp_ceiling(
    num_canaries: int, guesses: Sequence[int], *, delta: float, significance: float, family: Family
) -> float:
    """Returns the best bound over the numbers of guesses, if all guesses are right."""
    level = significance / len(guesses)
    return max(f_dp_bound(num_canaries, r, r, delta=delta, significance=level, family=family) for r in guesses)


def gaussian_ceiling(num_in: int, num_out: int, *, delta: float, significance: float) -> float:
    """Returns the bound without error in ``num_in`` trials with and ``num_out`` without the canary."""
    return gaussian_bound(0, num_out, 0, num_in, delta=delta, significance=significance)


def order_statistics_ceiling(
    num_in: int, num_out: int, *, shares: Sequence[float], delta: float, significance: float
) -> float:
    """Returns the bound if all scores with the canary are above all scores without it."""
    return order_statistics_bound(
        np.full(num_in, 2.0 * num_out), np.arange(num_out, dtype=np.float64), shares=shares, delta=delta,
        significance=significance,
    )  # fmt: skip
