"""A lower bound on epsilon, which shows how tight the claimed upper bound is. It is never claimed.

Privacy losses are rounded *down* to a grid and convolved, as in the optimistic estimate of Meiser and Mohammadi (2018).
Rounding alone would lose half a grid step for every step of training. The mean of the rounded-off parts is known, so it
is added again, less a term by which their sum may fall short of its mean (Hoeffding), as in Gopi, Lee and Wutschitz
(2021, Theorem 5).

Derivation. Let L = sum of L_i be the privacy loss under P, and R_i = L_i - floor(L_i / h) h, in [0, h) and
independent. With probability at least 1 - eta, sum R_i >= M - w, where M = sum E[R_i], w = h sqrt(k ln(1/eta) / 2).
Hence delta_L(eps) = E[(1 - e^(eps - L))+] >= delta_rounded(eps - M + w) - eta, and so
epsilon(delta) >= epsilon_rounded(delta + eta) + M - w.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from dp_accounting.pld import pld_pmf
from scipy.special import ndtr

from pipelines.accounting.events import Event, NeighboringRelation, as_sampled, leaves

_FloatArray = npt.NDArray[np.float64]

_FAILURE_SHARE = 1e-4
"""Eta, the probability that the correction overshoots, as a share of delta."""

_WIDTH_SHARE = 2e-3
"""Share of epsilon that w is at most, if the table's size allows so fine a grid."""

_LARGEST_TABLE = 1 << 21
_SMALLEST_DELTA = 1e-11
"""Delta below which the rounding errors of a Fourier transform are no longer negligible."""

_TAIL_DEVIATIONS = 10.0
_NUM_NODES = 200_001


def lower_epsilon(event: Event, delta: float, relation: NeighboringRelation, upper: float) -> float | None:
    """Returns an epsilon that the event provably costs at least, for its worst pair of neighbours.

    Args:
        event: privacy event, every leaf with noise and a rate above 0.
        delta: delta, strictly between 0 and 1.
        relation: neighbouring relation.
        upper: upper bound, which decides how fine the grid is.

    Returns:
        A number between 0 and ``upper``; None if delta is too small for the arithmetic, or the losses are too large
        for a table.
    """
    found = [as_sampled(count, leaf) for count, leaf in leaves(event)]
    mechanisms = [(count, rate, noise) for count, rate, noise in found if rate > 0]
    if delta < _SMALLEST_DELTA or not math.isfinite(upper):
        return None
    if upper == 0 or not mechanisms:
        return 0.0
    directions = ("remove", "add") if relation is NeighboringRelation.ADD_OR_REMOVE_ONE else ("replace",)
    try:
        bounds = [_lower(mechanisms, delta, direction, upper) for direction in directions]
    except OverflowError:  # hardly any noise
        return None
    known = [bound for bound in bounds if bound is not None]
    return min(max(known), upper) if known else None


def _lower(mechanisms: list[tuple[int, float, float]], delta: float, direction: str, upper: float) -> float | None:
    failure = _FAILURE_SHARE * delta
    num_steps = sum(count for count, _, _ in mechanisms)
    unit_width = math.sqrt(num_steps * math.log(1 / failure) / 2)
    span = max(_loss_span(rate, noise, direction) for _, rate, noise in mechanisms)
    interval = max(_WIDTH_SHARE * upper / unit_width, span / _LARGEST_TABLE, 4 * upper / _LARGEST_TABLE)
    total: Any = None
    given_back = 0.0
    for count, rate, noise in mechanisms:
        first, masses, rounded_off = _rounded_down(rate, noise, direction, interval)
        pmf = pld_pmf.DensePLDPmf(interval, first, masses, 0.0, pessimistic_estimate=False)
        part = pmf if count == 1 else pmf.self_compose(count)
        given_back += count * rounded_off
        total = part if total is None else total.compose(part)
    if total is None:
        return None
    rounded = float(total.get_epsilon_for_delta(delta + failure))
    return max(0.0, rounded + given_back - interval * unit_width) if math.isfinite(rounded) else None


def _rounded_down(rate: float, noise: float, direction: str, interval: float) -> tuple[int, _FloatArray, float]:
    """Returns the loss of one step on a grid.

    Returns:
        The first grid point's number, (n,) probabilities under P of the losses from each grid point up to the next,
        and the mean of the rounded-off parts.
    """

    low, high = _reach(noise, direction)
    first, last = (math.floor(_loss(np.array([end]), rate, noise, direction)[0] / interval) for end in (low, high))
    first, last = min(first, last), max(first, last)
    losses = np.arange(first, last + 2) * interval  # (n + 1,) edges
    places = _place(losses, rate, noise, direction)  # (n + 1,) monotone in the losses
    shift = 0.0 if direction == "add" else 1.0

    def cumulated(x: _FloatArray) -> _FloatArray:
        plain, moved = ndtr(x / noise), ndtr((x - shift) / noise)
        share = 0.0 if direction == "add" else rate
        return np.asarray((1 - share) * plain + share * moved, dtype=np.float64)

    masses = np.abs(np.diff(cumulated(places)))  # (n,)
    # The mean loss by the trapezoid rule, which converges geometrically for smooth, decaying integrands.
    x = np.linspace(low, high, _NUM_NODES)
    step = x[1] - x[0]
    density = _density(x, noise, 0.0)
    if direction != "add":
        density = (1 - rate) * density + rate * _density(x, noise, 1.0)
    mean = float((density * _loss(x, rate, noise, direction)).sum() * step)
    return first, masses, mean - float((masses * losses[:-1]).sum())


def _density(x: _FloatArray, noise: float, centre: float) -> _FloatArray:
    return np.asarray(np.exp(-(((x - centre) / noise) ** 2) / 2) / (noise * math.sqrt(2 * math.pi)))


def _reach(noise: float, direction: str) -> tuple[float, float]:
    margin = _TAIL_DEVIATIONS * noise
    return -margin, margin + (0.0 if direction == "add" else 1.0)


def _loss_span(rate: float, noise: float, direction: str) -> float:
    low, high = _loss(np.array(_reach(noise, direction)), rate, noise, direction)
    return float(abs(high - low))


def _loss(x: _FloatArray, rate: float, noise: float, direction: str) -> _FloatArray:
    """Returns log p(x)/q(x). P and Q are N(0, noise^2), mixed at the rate with N(1, .) or, if replaced, N(-1, .)."""
    stay = math.log1p(-rate) if rate < 1 else -math.inf
    up = np.logaddexp(stay, math.log(rate) + (x - 0.5) / noise**2)
    if direction == "remove":
        return np.asarray(up)
    if direction == "add":
        return np.asarray(-up)
    down = np.logaddexp(stay, math.log(rate) + (-x - 0.5) / noise**2)
    return np.asarray(up - down)


def _place(losses: _FloatArray, rate: float, noise: float, direction: str) -> _FloatArray:
    """Returns the x with this loss, the inverse of `_loss`: -inf below every loss and +inf above."""
    with np.errstate(divide="ignore", over="ignore"):
        if direction == "replace":
            # With u = exp(x / noise^2), a = rate exp(-1 / (2 noise^2)): a u^2 + (1-rate)(1-e^L) u - a e^L = 0, so for
            # L >= 0 u e^(-L/2) = (half + sqrt(half^2 + a^2)) / a with half = (1-rate) sinh(L/2); symmetric for L < 0.
            size = np.abs(losses)
            log_a = math.log(rate) - 0.5 / noise**2
            log_half = np.log1p(-rate) + size / 2 + np.log(-np.expm1(-size)) - math.log(2) if rate < 1 else -np.inf
            grown = np.logaddexp(log_half, 0.5 * np.logaddexp(2 * log_half, 2 * log_a)) - log_a
            return np.asarray(noise**2 * (losses / 2 + np.sign(losses) * grown))
        level = losses if direction == "remove" else -losses
        above = np.maximum(1 - (1 - rate) * np.exp(-level), 0.0)  # 0 where no x has a loss as low
        return np.asarray(noise**2 * (level + np.log(above) - math.log(rate)) + 0.5)
