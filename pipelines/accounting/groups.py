"""Epsilon of a group: everything that one person, or several secrets together, put into a training.

A group has at most k records, and each enters a step with probability q. So in one step it moves the clipped sum by at
most S clipping norms, S ~ Bin(k, q), in either world. Then the pair

    S + Z against -S + Z,  S ~ Bin(k, q),  Z ~ N(0, sigma^2)

dominates the step: for every alpha the hockey-stick divergence of the two worlds is at most that of this pair. The
proof is on the page ``docs/concepts.md``. The form for adding or removing a group is that of Ganesh (2024, arXiv
2401.10294). Without sampling, S = k and the pair is that of a Gaussian with noise sigma / k. With k = 1 it is the usual
pair of a record. Steps compose adaptively (Zhu, Dong and Wang 2022, Theorem 10).

The usual group bound (k epsilon, k e^(k epsilon) delta) is far from tight: the page has figures.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from dp_accounting.pld import pld_pmf
from scipy.optimize import brentq
from scipy.special import log_ndtr, logsumexp, ndtr
from scipy.stats import binom

from pipelines.accounting.accountants import epsilon, gdp_epsilon, is_within_rounding
from pipelines.accounting.events import (
    Composed,
    Event,
    NeighboringRelation,
    adds_no_noise,
    as_sampled,
    is_silent,
    leaves,
)

FloatArray = npt.NDArray[np.float64]

_INTERVALS: Final = (1e-2, 1e-3, 1e-4)
_ROUGH: Final = 1e-3
_ROUGH_POINTS: Final = 1e5
"""Finest grid for many deltas, and its number of points: a large epsilon has a coarser grid."""
_ENOUGH: Final = 1e-3
"""Change of epsilon, as a share of it, below which a finer grid is not tried."""
_TAIL_SHARE: Final = 1e-4
"""Share of delta that the tails outside the grid may take, over all steps."""
_LARGEST_EXPONENT: Final = 700.0
_NUM_NODES: Final = 100_001
_MOST_POINTS: Final = 1 << 21
_CELLS: Final = 1 << 22
"""Number of pairs of a place and a value of S that are in memory at once."""


def group_epsilon(event: Event, delta: float, size: int) -> float:
    """Returns an upper bound on epsilon for a group of records, if all of them may be replaced by others.

    Args:
        event: privacy event of the training, as for one record.
        delta: probability that the bound may fail, strictly between 0 and 1.
        size: largest number of records in a group, at least 1.

    Returns:
        An epsilon >= 0 under the relation replace_one, with groups of ``size`` in place of records. It is 0 if nothing
        private was touched, and infinity if a mechanism added no noise.

    Raises:
        UnsupportedEventError: an event of no known kind.
        ValueError: delta or the size is out of range.
    """
    return joint_epsilon(((size, event),), delta)


@functools.lru_cache(maxsize=256)
def joint_epsilon(parts: tuple[tuple[int, Event], ...], delta: float) -> float:
    """Returns `group_epsilon` for trainings in which one group has different numbers of records.

    Args:
        parts: largest number of records of the group in a training, and the privacy event of that training.
        delta: probability that the bound may fail, strictly between 0 and 1.
    """
    if wrong := [size for size, _ in parts if isinstance(size, bool) or size < 1]:
        raise ValueError(f"a group has at least one record, not {wrong[0]}")
    whole = parts[0][1] if len(parts) == 1 else Composed(events=tuple(event for _, event in parts))
    if all(size == 1 for size, _ in parts):
        return epsilon(whole, delta, NeighboringRelation.REPLACE_ONE)
    if not 0 < delta < 1:
        raise ValueError(f"delta must be strictly between 0 and 1, not {delta}")
    if is_silent(whole):
        return 0.0
    if adds_no_noise(whole):
        return math.inf
    mechanisms = _mechanisms(parts)
    bound = unsampled = _without_sampling(mechanisms, delta)
    if is_within_rounding(whole, delta):
        return unsampled
    for interval in _INTERVALS:
        finer = _on_grid(mechanisms, delta, interval)
        if finer is None:
            break
        before, bound = bound, min(bound, finer)
        if interval < _INTERVALS[0] and before - bound <= _ENOUGH * bound:
            break
    return min(bound, unsampled)


def group_epsilons(event: Event, deltas: Sequence[float], size: int) -> list[float]:
    """Returns upper bounds as `group_epsilon` does, for many deltas at once: quicker, and rougher.

    Args:
        event, size: arguments as for `group_epsilon`, for an event with noise in each mechanism.
        deltas: probabilities, strictly between 0 and 1.
    """
    mechanisms = _mechanisms(((size, event),))
    found = [_without_sampling(mechanisms, delta) for delta in deltas]
    usual = [delta for delta in deltas if not is_within_rounding(event, delta)]
    losses = _composed(mechanisms, min(usual), max(_ROUGH, max(found) / _ROUGH_POINTS)) if usual else None
    if losses is None:
        return found
    on_grid = (losses.get_epsilon_for_delta(delta) if delta in usual else math.inf for delta in deltas)
    return [min(bound, max(0.0, float(other))) for bound, other in zip(found, on_grid, strict=True)]


def _mechanisms(parts: tuple[tuple[int, Event], ...]) -> list[tuple[int, float, float, int]]:
    """Returns (count, rate, noise, size of the group) of the parts of all events that touch records."""
    found = [(*as_sampled(count, leaf), size) for size, event in parts for count, leaf in leaves(event)]
    return [mechanism for mechanism in found if mechanism[1] > 0]


def _without_sampling(mechanisms: list[tuple[int, float, float, int]], delta: float) -> float:
    """Returns the bound without credit for sampling: Gaussians with the full move (Dong et al. 2022, Cor. 3.3)."""
    mu_squared = sum(count * (2 * size / noise) ** 2 for count, _, noise, size in mechanisms)
    return gdp_epsilon(math.sqrt(mu_squared), delta)


def _on_grid(mechanisms: list[tuple[int, float, float, int]], delta: float, interval: float) -> float | None:
    """Returns epsilon on one grid of losses; None if the grid has too many points."""
    losses = _composed(mechanisms, delta, interval)
    return None if losses is None else max(0.0, float(losses.get_epsilon_for_delta(delta)))


def _composed(mechanisms: list[tuple[int, float, float, int]], delta: float, interval: float) -> Any:
    """Returns the losses of all steps on one grid; None if the grid has too many points."""
    tail = _TAIL_SHARE * delta / sum(count for count, *_ in mechanisms)
    total: Any = None
    for count, rate, noise, size in mechanisms:
        pair = Pair(size, rate, noise, tail) if rate < 1 else Pair(1, 1.0, noise / size, tail)
        losses = pair.discretised(interval)
        if losses is None:
            return None
        composed = losses if count == 1 else losses.self_compose(count)
        total = composed if total is None else pld_pmf.compose_pmfs(total, composed)
    return total


class Pair:
    """The pair S + Z against -S + Z of one step.

    Args:
        size: k, the largest number of records.
        rate: q, the sample rate.
        noise: sigma, over the clipping norm.
        tail: probability that is moved to an infinite loss at the upper end, and to the lowest loss at the lower end.
    """

    def __init__(self, size: int, rate: float, noise: float, tail: float) -> None:
        # Above `top` the probability of S is counted as an infinite loss.
        top = min(size, int(binom.isf(tail / 2, size, rate)) + 1)
        self._moves: FloatArray = np.arange(top + 1.0)
        self._log_weights: FloatArray = binom.logpmf(self._moves, size, rate)
        self._cut = float(binom.sf(top, size, rate))
        self._noise = noise
        self._chunk = max(1, _CELLS // len(self._moves))  # places at once
        self._low = self._quantile(tail / 2, lower=True)
        self._high = max(self._quantile(tail / 2, lower=False), -self._low)

    def _quantile(self, share: float, *, lower: bool) -> float:
        """Returns the place below, or above, which P has that probability."""

        def excess(x: float) -> float:
            standard = (x - self._moves) / self._noise
            beyond = log_ndtr(standard if lower else -standard)
            return float(logsumexp(self._log_weights + beyond)) - math.log(share)

        reach = 45 * self._noise
        return float(brentq(excess, -reach, self._moves[-1] + reach))

    def _log_density(self, x: FloatArray) -> FloatArray:
        """Returns (n,) log densities of S + Z, but for a constant."""
        terms = self._log_weights - ((x[:, None] - self._moves) / self._noise) ** 2 / 2
        return np.asarray(logsumexp(terms, axis=1))

    def losses(self, x: FloatArray) -> FloatArray:
        """Returns (n,) privacy losses of noisy sums over the clipping norm, which rise with x.

        They do because the likelihood ratio is monotone.
        """
        return self._log_density(x) - self._log_density(-x)

    def _divergences(self, levels: FloatArray, places: FloatArray) -> FloatArray:
        """Returns (n,) hockey-stick divergences at e^level, from the places where the loss has that level."""
        weights = np.exp(self._log_weights)
        found = np.empty(len(levels))
        for at in range(0, len(levels), self._chunk):
            part = slice(at, at + self._chunk)
            level, place = levels[part, None], places[part, None]
            above = ndtr((self._moves - place) / self._noise) @ weights
            # In logarithms, because a weight of 0 would meet a factor that is infinite.
            shares = level + log_ndtr(-(self._moves + place) / self._noise) + self._log_weights
            below = np.exp(np.minimum(shares, _LARGEST_EXPONENT)).sum(axis=1)
            found[part] = above - below
        return found

    def discretised(self, interval: float) -> Any:
        """Returns the losses on a grid, rounded up ("connect the dots"); None if there are too many points."""
        nodes = np.linspace(self._low, self._high, _NUM_NODES)
        losses = np.concatenate([self.losses(nodes[at : at + self._chunk]) for at in range(0, len(nodes), self._chunk)])
        first, last = math.floor(losses[0] / interval), math.ceil(losses[-1] / interval)
        if last - first > _MOST_POINTS:
            return None
        numbers = np.arange(first, last + 1)
        levels = numbers * interval
        divergences = self._divergences(levels, np.interp(levels, losses, nodes)) + self._cut
        if not np.isfinite(divergences).all():
            return None
        # Divergences fall with the level. Rounding may break this, and is rounded up.
        falling = np.maximum.accumulate(np.clip(divergences, 0.0, 1.0)[::-1])[::-1]
        return pld_pmf.create_pmf_pessimistic_connect_dots(interval, numbers, falling)
