"""Privacy losses of the Gaussian mechanism for a whole grid at once, which dp-accounting computes one by one.

A scalar loop over 100,000 losses is most of what a test of a guarantee takes. The results are the same bits, which
`tests/accounting/test_accounting_accountants.py` shows.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from dp_accounting.pld import privacy_loss_distribution, privacy_loss_mechanism
from numpy.typing import NDArray

_REPLACE = privacy_loss_mechanism.AdjacencyType.REPLACE
one_by_one = privacy_loss_mechanism.GaussianPrivacyLoss.get_delta_for_epsilon


def at_once(self: Any, epsilon: Any) -> Any:
    """``GaussianPrivacyLoss.get_delta_for_epsilon``, quick for a grid under replacement with sampling."""
    if self.adjacency_type != _REPLACE or self.sampling_prob == 1.0 or np.ndim(epsilon) == 0:
        return one_by_one(self, epsilon)
    losses: NDArray[np.float64] = np.asarray(epsilon, dtype=float)
    cutoffs = _inverse(self, losses)
    return np.clip(self.mu_upper_cdf(cutoffs) - np.exp(losses + self.mu_lower_log_cdf(cutoffs)), 0, 1)


def _inverse(self: Any, losses: NDArray[np.float64]) -> NDArray[np.float64]:
    """``_inverse_privacy_loss_replace``: exp and log by ``math``, for NumPy's may differ in the last bit on arrays."""
    deviation, rate = self._standard_deviation, self.sampling_prob
    log_alpha = 0.5 * (self.sensitivity / deviation) ** 2 + math.log1p(-rate) - math.log(rate)
    halves = [abs(loss) / 2 for loss in losses.tolist()]
    log_sinh = [a + math.log1p(-math.exp(-2 * a)) - math.log(2) if a else 0.0 for a in halves]
    terms = log_alpha + np.array(log_sinh)
    asinh = -np.sign(losses) * np.logaddexp(0.5 * np.logaddexp(0, 2 * terms), terms)
    return np.where(losses == 0, 0.0, deviation**2 / self.sensitivity * (asinh - losses / 2))


def quicken() -> None:
    """Has this process compute losses at once, and for the same mechanism once."""
    privacy_loss_mechanism.GaussianPrivacyLoss.get_delta_for_epsilon = at_once
    made = functools.lru_cache(32)(privacy_loss_distribution.from_gaussian_mechanism)  # nobody changes what it gives
    privacy_loss_distribution.from_gaussian_mechanism = made
