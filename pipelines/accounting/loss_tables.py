"""Tables of the privacy losses of sampled Gaussian steps: dp-accounting's, computed an array at a time.

dp-accounting calls a Python function for the place of each loss of a table, and a general routine for each moment that
says where a composition may be cut; together that is most of what an epsilon costs. Here both are computed for whole
tables, in the same order of operations, so that no epsilon changes. The rest is dp-accounting's: how far a table
reaches, its masses, and what is done with it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from dp_accounting.pld import pld_pmf, privacy_loss_distribution
from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss
from scipy import fft

from pipelines.accounting.events import NeighboringRelation

_FloatArray = npt.NDArray[np.float64]

_KINDS = {
    NeighboringRelation.REPLACE_ONE: (AdjacencyType.REPLACE,),
    NeighboringRelation.ADD_OR_REMOVE_ONE: (AdjacencyType.REMOVE, AdjacencyType.ADD),
}
_TAIL_MASS = 1e-15
"""What a composition may cut off; it counts as an infinite loss."""


def sampled_steps(count: int, rate: float, noise: float, relation: NeighboringRelation, interval: float) -> Any:
    """The privacy losses of steps that draw every record with the same probability.

    Args:
        count: number of steps, >= 1.
        rate: the probability, above 0 and below 1.
        noise: the noise multiplier, above 0.
        relation: the neighbouring relation.
        interval: the distance of the losses of the table, in nats.

    Returns:
        dp-accounting's ``PrivacyLossDistribution``, rounded up.
    """
    tables = (self_composed(table, count) for table in step_tables(rate, noise, relation, interval))
    return privacy_loss_distribution.PrivacyLossDistribution(*tables)


def step_tables(rate: float, noise: float, relation: NeighboringRelation, interval: float) -> tuple[Any, ...]:
    """The losses of one of `sampled_steps`; where records are added or removed: of removing one, then of adding one."""
    steps = (_SampledStep(noise, sampling_prob=rate, adjacency_type=kind) for kind in _KINDS[relation])
    return tuple(step.table(interval) for step in steps)


def self_composed(table: Any, count: int) -> Any:
    """A table composed with itself: ``table.self_compose(count)``, by the same transform and within the same bounds.

    Args:
        table: one of dp-accounting's.
        count: number of times, >= 1.
    """
    if not isinstance(table, pld_pmf.DensePLDPmf):
        return table.self_compose(count)
    masses = table._probs
    first, last = _bounds(masses, count)
    size = last - first + 1
    length = fft.next_fast_len(max(size, len(masses)))
    composed = np.real(fft.ifft(fft.fft(masses, length) ** count))
    lost = _TAIL_MASS - math.expm1(count * math.log1p(-table._infinity_mass))
    lowest = table._lower_loss * count + first
    return pld_pmf.DensePLDPmf(
        table._discretization, lowest, np.roll(composed, -first)[:size], lost, table._pessimistic_estimate
    )


def _bounds(masses: _FloatArray, count: int) -> tuple[int, int]:
    """Between which sums of ``count`` places of the table all but the tail mass lies, by Chernoff's bound.

    Places are numbers of rows: (n,) masses at 0 to n - 1. Supplement of Doroshenko et al. 2022, equation (5), at the
    moments of order 1/n to 20/n: each is one product further than the last.
    """
    last = len(masses) - 1
    step = np.exp(np.arange(len(masses)) / -len(masses))
    powers = np.ones_like(step)
    from_below, from_above = masses, np.ascontiguousarray(masses[::-1])
    low, high = 0, last * count
    for order in np.arange(1, 21) / len(masses):
        powers *= step
        short = math.log(2 / _TAIL_MASS)
        low = max(low, math.floor((count * math.log(powers @ from_below) + short) / -order))
        high = min(high, math.ceil((count * (order * last + math.log(powers @ from_above)) + short) / order))
    return low, high


class _SampledStep(GaussianPrivacyLoss):  # type: ignore[misc]
    """One step, whose divergence at many losses takes as few calls as at one."""

    def table(self, interval: float) -> Any:
        """Its privacy losses, rounded up by "connect the dots" (Doroshenko et al. 2022, Algorithm 1)."""
        ends = self.connect_dots_bounds()
        low, high = math.floor(ends.epsilon_lower / interval), math.ceil(ends.epsilon_upper / interval)
        deltas = self.get_delta_for_epsilon(np.arange(low, high + 1) * interval)
        return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, low, high, deltas)

    def get_delta_for_epsilon(self, epsilon: _FloatArray) -> _FloatArray:
        """P(loss > epsilon) - exp(epsilon) Q(loss > epsilon) at (n,) epsilons; the losses fall as x grows."""
        epsilon = np.asarray(epsilon)
        deltas = np.zeros_like(epsilon)
        reached = np.full(epsilon.shape, True)
        if self.adjacency_type == AdjacencyType.ADD:  # no loss is larger
            reached = epsilon < -math.log1p(-self.sampling_prob)
        elif self.adjacency_type == AdjacencyType.REMOVE:  # no loss is smaller
            reached = epsilon > math.log1p(-self.sampling_prob)
            deltas[~reached] = -np.expm1(epsilon[~reached])
        x = self._places(epsilon[reached])
        deltas[reached] = self.mu_upper_cdf(x) - np.exp(epsilon[reached] + self.mu_lower_log_cdf(x))
        return np.clip(deltas, 0, 1)

    def _places(self, losses: _FloatArray) -> _FloatArray:
        """The largest x at which the loss is at least that, for (n,) losses; to the bit ``inverse_privacy_loss``."""
        variance = self._standard_deviation**2
        rate = self.sampling_prob
        if self.adjacency_type == AdjacencyType.REPLACE:
            halves = (np.abs(losses) / 2).tolist()  # numpy's own exp and log1p round otherwise
            log_alpha = 0.5 * (1 / self._standard_deviation) ** 2 + math.log1p(-rate) - math.log(rate)
            log_two = math.log(2)
            sinh = np.array([a + math.log1p(-math.exp(-2 * a)) - log_two if a else -math.inf for a in halves])
            size = log_alpha + sinh
            turned = np.logaddexp(0.5 * np.logaddexp(0, 2 * size), size)
            return np.asarray(np.where(losses == 0, 0.0, variance * (-np.sign(losses) * turned - losses / 2)))
        adds = self.adjacency_type == AdjacencyType.ADD
        level = -losses if adds else losses
        with np.errstate(all="ignore"):
            grown = level + np.log(1 / rate)
            unsampled = grown + np.log1p(-np.exp(np.log(1 / rate - 1) - grown))
        unsampled = np.where(level == 0, np.log(1 / rate + (1 - 1 / rate)), unsampled)
        if adds:
            return np.asarray(1 + (-0.5 + unsampled * variance))
        return np.asarray(-0.5 - unsampled * variance)
