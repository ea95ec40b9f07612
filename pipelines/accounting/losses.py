"""Privacy losses of steps under replacement of a record, on a grid, for all levels at once.

Formulas and composition are those of dp-accounting, which goes through the levels one by one: a usual training has a
hundred thousand of them, and its calibration looks at twenty trainings. The sums of the two worlds are those of the
dominating pair of a record that a step takes with probability q: q N(1, sigma^2) + (1 - q) N(0, sigma^2), and the same
with -1 (Zhu, Dong and Wang 2022). `pipelines.accounting.groups.Pair` has the losses of several records, whose places it
interpolates. For one record they have a closed form.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from dp_accounting.pld import pld_pmf
from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss

FloatArray = npt.NDArray[np.float64]


def composed_epsilon(mechanisms: Iterable[tuple[int, float, float]], delta: float, interval: float) -> float:
    """Returns an upper bound on epsilon under replace_one, by losses that are rounded up to a grid.

    Args:
        mechanisms: (number of steps, sample rate in (0, 1], noise multiplier > 0) of each part of a training; at least
            one.
        delta: probability that the bound may fail, strictly between 0 and 1.
        interval: interval of the grid, in nats.
    """
    total: Any = None
    for count, rate, noise in mechanisms:
        losses = _on_grid(rate, noise, interval).self_compose(count)
        total = losses if total is None else pld_pmf.compose_pmfs(total, losses)
    return float(total.get_epsilon_for_delta(delta))


def _on_grid(rate: float, noise: float, interval: float) -> Any:
    """Returns the losses of one step ("connect the dots", Doroshenko et al. 2022, algorithm 1)."""
    loss = GaussianPrivacyLoss(noise, sampling_prob=rate, adjacency_type=AdjacencyType.REPLACE)
    bounds = loss.connect_dots_bounds()
    first, last = math.floor(bounds.epsilon_lower / interval), math.ceil(bounds.epsilon_upper / interval)
    levels = np.arange(first, last + 1) * interval
    places = _places(levels, rate, noise)
    divergences = loss.mu_upper_cdf(places) - np.exp(levels + loss.mu_lower_log_cdf(places))
    return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, first, last, np.clip(divergences, 0, 1))


def _places(levels: FloatArray, rate: float, noise: float) -> FloatArray:
    """Returns (n,) places at which the loss has each of (n,) levels (the library's `_inverse_privacy_loss_replace`)."""
    if rate == 1:
        return np.asarray(-levels * noise**2 / 2)
    half = np.abs(levels) / 2
    with np.errstate(divide="ignore"):  # the level 0, which is at 0
        log_sinh = half + np.log(-np.expm1(-2 * half)) - math.log(2)
    log_share = 0.5 / noise**2 + math.log1p(-rate) - math.log(rate) + log_sinh
    asinh = np.logaddexp(0.5 * np.logaddexp(0, 2 * log_share), log_share)
    return np.asarray(noise**2 * (-np.sign(levels) * asinh - levels / 2))
