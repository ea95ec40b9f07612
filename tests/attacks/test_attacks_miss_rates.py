"""Mixtures of missed and found canaries against what follows from their parts."""

import json
from dataclasses import asdict

import numpy as np
import pytest
from scipy import stats

from pipelines.attacks.exposure_null import NULL_MEAN_BITS
from pipelines.attacks.miss_rates import ScoredCanary, by_miss_rate


def canaries(num, bits, shift, seed):
    """As many members as others; members have so many bits, or those of no memory, and a lower log-perplexity."""
    rng = np.random.default_rng(seed)
    return [
        ScoredCanary(
            is_included=is_in,
            bits=float(rng.exponential(NULL_MEAN_BITS)) if bits is None or not is_in else bits,
            nats=float(rng.normal(-shift if is_in else 0, 1)),
        )
        for is_in in (True, False)
        for _ in range(num)
    ]


def test_the_mean_is_linear_and_the_largest_of_ten_rises_at_once():
    """CRT, Figure 3: one missed canary in ten, and the largest exposure of ten is near the ceiling."""
    points = by_miss_rate(canaries(400, 19.9, 3, 0), canaries(400, None, 0, 1), np.random.default_rng(2))
    assert [point.rate for point in points] == [0, 0.1, 0.3, 0.5]
    for point in points:
        assert point.mean_exposure == pytest.approx(19.9 * point.rate + NULL_MEAN_BITS * (1 - point.rate), abs=0.25)
        # At least one of ten is missed with probability 1 − (1 − γ)¹⁰; else it is the largest of ten without memory.
        of_nothing = NULL_MEAN_BITS * sum(1 / i for i in range(1, 11))
        chance = 1 - (1 - point.rate) ** 10
        assert point.largest_of_ten == pytest.approx(19.9 * chance + of_nothing * (1 - chance), abs=0.6)
        told = stats.norm.cdf(3 / np.sqrt(2))
        assert point.auc == pytest.approx(point.rate * told + (1 - point.rate) * 0.5, abs=0.06)
    aucs = [point.auc_of_groups for point in points]
    assert aucs == sorted(aucs)
    assert aucs[0] < 0.75 < aucs[-1]
    json.dumps([asdict(point) for point in points], allow_nan=False)


def test_a_model_that_knows_nothing_gives_nothing_at_any_rate():
    points = by_miss_rate(canaries(400, None, 0, 0), canaries(400, None, 0, 1), np.random.default_rng(2))
    for point in points:
        assert abs(point.mean_exposure - NULL_MEAN_BITS) < 4 * NULL_MEAN_BITS / np.sqrt(point.num_canaries)
        assert abs(point.auc - 0.5) < 4 / np.sqrt(6 * point.num_canaries)


def test_mixtures_take_what_there_is():
    few, many = canaries(10, 19.9, 3, 0), canaries(100, None, 0, 1)
    assert [point.num_canaries for point in by_miss_rate(few, many, np.random.default_rng(0))] == [100, 100, 33, 20]
    assert by_miss_rate([], many, np.random.default_rng(0), rates=(0.5,)) == []
    alone = by_miss_rate([], many, np.random.default_rng(0), rates=(0.0,))
    assert [point.num_canaries for point in alone] == [100]
    small = by_miss_rate(few, [], np.random.default_rng(0), rates=(1.0,))
    assert small[0].auc_of_groups is None
