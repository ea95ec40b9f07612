"""Calibration: the search for the least noise that meets a target epsilon."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Literal

from pipelines.accounting.accountants import epsilon, pld_epsilon, rdp_epsilon
from pipelines.accounting.events import NeighboringRelation, dp_sgd
from pipelines.errors import ConfigError

RELATIVE_TOLERANCE = 1e-5
"""Share by which the returned noise multiplier exceeds the least sufficient one at most."""

SMALLEST_NOISE_MULTIPLIER = 0.05
"""Smallest noise multiplier of the search: with less noise epsilon is in the thousands, which protects nothing."""

_LARGEST_NOISE_MULTIPLIER = 1e7
_COARSE_INTERVAL = 1e-3
_QUICK_TOLERANCE = 5e-3
_MOST_SECANTS = 6
_SHORT_STEP = 1e-3


_Excess = Callable[[float], float]
"""Epsilon at a noise multiplier, less the target."""


def calibrate_noise_multiplier(
    *,
    target_epsilon: float,
    target_delta: float,
    sample_rate: float,
    num_steps: int,
    relation: NeighboringRelation | str = NeighboringRelation.REPLACE_ONE,
    accountant: Literal["pld", "rdp"] = "pld",
) -> float:
    """Returns the least noise multiplier whose epsilon does not exceed the target.

    Args:
        target_epsilon: epsilon to meet, > 0.
        target_delta: delta of that epsilon, strictly between 0 and 1.
        sample_rate: probability with which each record enters a step, in (0, 1].
        num_steps: number of noisy steps, >= 1.
        relation: neighbouring relation of the claimed notion; confidentiality needs ``replace_one``.
        accountant: ``pld``, which claims use, or ``rdp``, for comparison with papers that calibrate by it.

    Returns:
        A value that meets the target by the accountant (`pipelines.accounting.accountants.epsilon`, or `rdp_epsilon`).
        It exceeds the least such value by at most `RELATIVE_TOLERANCE` of it, and is never below
        `SMALLEST_NOISE_MULTIPLIER`.

    Raises:
        ConfigError: an argument out of range, or a target that no finite noise reaches.
    """
    relation = _checked(target_epsilon, target_delta, sample_rate, num_steps, relation)
    if accountant == "rdp":
        return _by_rdp(target_epsilon, target_delta, sample_rate, num_steps, relation)
    if accountant != "pld":
        raise ConfigError(f"noise is calibrated by the accountants pld and rdp, not by {accountant!r}")

    # A coarse grid is ten times faster. Its epsilon is an upper bound too, so it finds the neighbourhood.
    interval = max(min(_COARSE_INTERVAL, target_epsilon / 100), min(target_epsilon / 1e5, 1.0))
    coarse = _excess_on(interval, target_epsilon, target_delta, sample_rate, num_steps, relation)

    @functools.cache
    def fine(noise_multiplier: float) -> float:
        event = dp_sgd(noise_multiplier=noise_multiplier, sample_rate=sample_rate, num_steps=num_steps)
        return epsilon(event, target_delta, relation) - target_epsilon

    low, high = _bracket(coarse)
    if low is None:
        return high
    near = _close_in(coarse, low, high, RELATIVE_TOLERANCE / 10)
    near = _approach(fine, near, slope=(coarse(near * 1.001) - coarse(near)) / math.log(1.001))
    return _close_in(fine, *_around(fine, near), RELATIVE_TOLERANCE)


def sufficient_noise_multiplier(
    *, target_epsilon: float, target_delta: float, sample_rate: float, num_steps: int
) -> float:
    """Returns a noise multiplier that meets the target under replace_one, for plans that try many trainings.

    It takes a tenth of the time of `calibrate_noise_multiplier`, and exceeds the least sufficient noise by about one
    per cent (two, if epsilon is below 0.1). Arguments and errors are those of that function.
    """
    relation = _checked(target_epsilon, target_delta, sample_rate, num_steps, NeighboringRelation.REPLACE_ONE)
    interval = min(max(target_epsilon / 300, _COARSE_INTERVAL / 10), 10 * _COARSE_INTERVAL)
    excess = _excess_on(interval, target_epsilon, target_delta, sample_rate, num_steps, relation)
    low, high = _bracket(excess)
    return high if low is None else _close_in(excess, low, high, _QUICK_TOLERANCE)


def _excess_on(
    interval: float,
    target_epsilon: float,
    target_delta: float,
    sample_rate: float,
    num_steps: int,
    relation: NeighboringRelation,
) -> _Excess:
    """Returns the excess by PLD on a grid of this interval, which remembers its values."""

    @functools.cache
    def excess(noise_multiplier: float) -> float:
        event = dp_sgd(noise_multiplier=noise_multiplier, sample_rate=sample_rate, num_steps=num_steps)
        return pld_epsilon(event, target_delta, relation, interval) - target_epsilon

    return excess


def _by_rdp(
    target_epsilon: float, target_delta: float, sample_rate: float, num_steps: int, relation: NeighboringRelation
) -> float:
    @functools.cache
    def excess(noise_multiplier: float) -> float:
        event = dp_sgd(noise_multiplier=noise_multiplier, sample_rate=sample_rate, num_steps=num_steps)
        found = rdp_epsilon(event, target_delta, relation)
        if found is None:
            raise ConfigError(f"rdp does not cover Poisson sampling under {relation.value}; take the accountant pld")
        return found - target_epsilon

    low, high = _bracket(excess)
    return high if low is None else _close_in(excess, low, high, RELATIVE_TOLERANCE)


def _checked(
    target_epsilon: float, target_delta: float, sample_rate: float, num_steps: int, relation: NeighboringRelation | str
) -> NeighboringRelation:
    if not (math.isfinite(target_epsilon) and target_epsilon > 0):
        raise ConfigError(f"target_epsilon must be a finite number above 0, not {target_epsilon}")
    if not 0 < target_delta < 1:
        raise ConfigError(f"target_delta must be strictly between 0 and 1, not {target_delta}")
    if not 0 < sample_rate <= 1:
        raise ConfigError(f"sample_rate must be above 0 and at most 1, not {sample_rate}")
    if num_steps < 1:
        raise ConfigError(f"num_steps must be at least 1, not {num_steps}")
    return NeighboringRelation(relation)


def _bracket(excess: _Excess) -> tuple[float | None, float]:
    """Returns a noise multiplier that is too small (None if the smallest is enough), and one that is enough."""
    high = 1.0
    if excess(high) <= 0:
        while high > SMALLEST_NOISE_MULTIPLIER:
            low = max(high / 2, SMALLEST_NOISE_MULTIPLIER)
            if excess(low) > 0:
                return low, high
            high = low
        return None, high
    while high < _LARGEST_NOISE_MULTIPLIER:
        low, high = high, high * 2
        if excess(high) <= 0:
            return low, high
    raise ConfigError(
        "no noise multiplier reaches the target epsilon at this delta and number of steps; "
        "raise target_epsilon or take fewer steps"
    )


def _approach(excess: _Excess, near: float, slope: float) -> float:
    """Returns a guess improved by a Newton step, and by secants if that was long (the coarse grid was too coarse)."""
    for _ in range(_MOST_SECANTS):
        if slope >= 0:  # more noise, more epsilon: rounding of the grid, no slope
            break
        step = max(-1.0, min(1.0, -excess(near) / slope))
        last, near = near, near * math.exp(step)
        if abs(step) < _SHORT_STEP:
            break
        slope = (excess(near) - excess(last)) / step
    return near


def _around(excess: _Excess, near: float) -> tuple[float, float]:
    """Returns a narrow bracket around a good guess, widened until it holds."""
    width = 0.4 * RELATIVE_TOLERANCE
    low, high = near * math.exp(-width), near * math.exp(width)
    while excess(high) > 0:
        width *= 4
        low, high = high, high * math.exp(width)
    while excess(low) <= 0:
        width *= 4
        low, high = low * math.exp(-width), low
    return low, high


def _close_in(excess: _Excess, low: float, high: float, tolerance: float) -> float:
    """Returns the upper end of the narrowed bracket, by the Illinois rule in the logarithm of the noise."""
    low_excess, high_excess = excess(low), excess(high)
    last = 0
    while high / low > 1 + tolerance:
        width = math.log(high / low)
        share = low_excess / (low_excess - high_excess)
        # Aim a little to the side of enough noise, so that the upper end closes in as well as the lower one.
        step = min(max(share * width + 0.3 * tolerance, 0.3 * tolerance), width - 0.3 * tolerance)
        middle = low * math.exp(step)
        found = excess(middle)
        side = 1 if found <= 0 else -1
        if side > 0:
            high, high_excess = middle, found
            low_excess /= 2 if last == side else 1
        else:
            low, low_excess = middle, found
            high_excess /= 2 if last == side else 1
        last = side
    return high
