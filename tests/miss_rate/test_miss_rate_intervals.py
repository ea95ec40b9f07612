"""Intervals: closed forms, edges, and the order that they must keep."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pipelines.intervals import (
    ClusteredCounts,
    clopper_pearson,
    clopper_pearson_upper,
    cluster_robust,
    effective_sample_size,
    korn_graubard,
    korn_graubard_upper,
    num_clean_reviews_needed,
    student_t,
)


@st.composite
def clusters(draw):
    units = draw(st.lists(st.integers(0, 30), max_size=40))
    hits = [draw(st.integers(0, unit)) for unit in units]
    return ClusteredCounts.of(hits, units)


@settings(deadline=None, max_examples=200)
@given(clusters(), st.sampled_from([0.8, 0.95, 0.99]))
def test_intervals_hold_the_estimate_and_stay_in_range(counts, confidence):
    low, high = korn_graubard(counts, confidence)
    upper = korn_graubard_upper(counts, confidence)
    assert 0 <= low <= high <= 1
    if counts.value is None:
        assert (low, high, upper) == (0, 1, 1)
        return
    assert low <= counts.value <= high
    assert counts.value <= upper <= 1
    if counts.num_hits == 0:
        assert upper > 0
        assert high > 0
    if (robust := cluster_robust(counts, confidence)) is not None:
        assert 0 <= robust[0] <= counts.value <= robust[1] <= 1


@settings(deadline=None, max_examples=100)
@given(clusters())
def test_a_clustered_sample_is_worth_at_most_its_units(counts):
    assert effective_sample_size(counts, 0.05) <= counts.num_units


@pytest.mark.parametrize(("hits", "units", "confidence"), [(3, 100, 0.95), (1, 7, 0.9), (99, 100, 0.99)])
def test_clopper_pearson_inverts_the_binomial_tails(hits, units, confidence):
    low, high = clopper_pearson(hits, units, confidence)
    tail = (1 - confidence) / 2
    assert stats.binom.sf(hits - 1, units, low) == pytest.approx(tail)
    assert stats.binom.cdf(hits, units, high) == pytest.approx(tail)
    upper = clopper_pearson_upper(hits, units, confidence)
    assert stats.binom.cdf(hits, units, upper) == pytest.approx(1 - confidence)


def test_zero_hits_give_a_bound_and_not_zero():
    assert clopper_pearson_upper(0, 100, 0.95) == pytest.approx(1 - 0.05 ** (1 / 100))
    assert clopper_pearson(0, 100, 0.95)[0] == 0
    # Twenty sentences with ten secrets each are twenty clusters, not two hundred independent secrets.
    counts = ClusteredCounts.of([0] * 20, [10] * 20)
    assert korn_graubard_upper(counts, 0.95) == pytest.approx(1 - 0.05 ** (1 / 20))
    assert cluster_robust(counts, 0.95) is None


def test_no_unit_is_no_knowledge():
    assert clopper_pearson(0, 0, 0.95) == (0, 1)
    assert clopper_pearson_upper(0, 0, 0.95) == 1
    empty = ClusteredCounts.of([], [])
    assert empty.value is None
    assert korn_graubard_upper(empty, 0.95) == 1
    assert korn_graubard_upper(ClusteredCounts.of([0, 0], [0, 0]), 0.95) == 1


def test_clustering_widens_the_interval():
    # The same 30 hits in 600 units: spread over 30 sentences, or packed into 3.
    units = np.full(60, 10)
    spread, packed = np.zeros(60), np.zeros(60)
    spread[:30] = 1
    packed[:3] = 10
    loose = korn_graubard_upper(ClusteredCounts.of(packed, units), 0.95)
    tight = korn_graubard_upper(ClusteredCounts.of(spread, units), 0.95)
    independent = clopper_pearson_upper(30, 600, 0.95)
    assert loose > 1.4 * independent
    assert independent <= tight <= 1.08 * independent


def test_the_linearised_error_of_one_unit_a_sentence_is_the_binomial_one():
    counts = ClusteredCounts.of([1] * 10 + [0] * 90, [1] * 100)
    assert counts.standard_error() == pytest.approx(math.sqrt(0.1 * 0.9 / 99))


def test_one_sentence_has_no_spread():
    counts = ClusteredCounts.of([2], [10])
    assert counts.standard_error() is None
    assert cluster_robust(counts, 0.95) is None
    assert effective_sample_size(counts, 0.05) == 1
    assert student_t([0.1], 0.95) is None


@pytest.mark.parametrize(("hits", "units"), [([2], [1]), ([-1], [3]), ([1, 2], [3]), ([[1]], [[1]])])
def test_impossible_counts_are_refused(hits, units):
    with pytest.raises(ValueError):
        ClusteredCounts.of(hits, units)


def test_reviews_that_a_small_bound_needs():
    needed = num_clean_reviews_needed(1e-5, 0.95)
    assert needed == pytest.approx(3e5, rel=0.01)
    assert clopper_pearson_upper(0, needed, 0.95) <= 1e-5
    assert clopper_pearson_upper(0, needed - 1, 0.95) > 1e-5
    with pytest.raises(ValueError, match="upper_bound"):
        num_clean_reviews_needed(0.0, 0.95)
