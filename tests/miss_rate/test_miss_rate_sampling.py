"""Replicates: sizes, independence, and uniformity with power."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pipelines.miss_rate.sampling import draw_replicate, replicate_size


@pytest.mark.parametrize(
    ("population", "fraction", "least", "expected"),
    [
        (30_000, 0.0001, 1, 3),
        (30_001, 0.0001, 1, 4),
        (10, 0.0001, 1, 1),
        (10, 0.0001, 5, 5),
        (10, 0.5, 20, 10),
        (10, 1.0, 1, 10),
        (10, 0.0, 1, 1),
        (0, 0.5, 1, 0),
    ],
)
def test_replicate_sizes(population, fraction, least, expected):
    assert replicate_size(population, fraction, least) == expected


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 20_000), st.floats(0, 1), st.integers(0, 2**64), st.integers(0, 5))
def test_a_replicate_is_distinct_sorted_and_repeatable(population, share, seed, replicate):
    size = int(share * population)
    rows = draw_replicate(population, size, seed, replicate)
    assert len(rows) == size == len(np.unique(rows))
    assert np.all(np.diff(rows) > 0)
    assert size == 0 or (rows[0] >= 0 and rows[-1] < population)
    np.testing.assert_array_equal(rows, draw_replicate(population, size, seed, replicate))


def test_replicates_and_seeds_differ():
    first = draw_replicate(10_000, 100, 1, 0)
    for other in (draw_replicate(10_000, 100, 1, 1), draw_replicate(10_000, 100, 2, 0)):
        # About one row in a hundred is shared by chance.
        assert len(np.intersect1d(first, other)) < 10


def chi_square_p(counts):
    return stats.chisquare(counts).pvalue


def test_every_row_is_as_likely_as_any_other():
    counts = np.zeros(50)
    for replicate in range(4_000):
        counts[draw_replicate(50, 5, 7, replicate)] += 1
    assert chi_square_p(counts) > 1e-4
    biased = counts.copy()
    biased[:25] *= 0.9  # a sampler that prefers the later half by a tenth is told apart
    assert chi_square_p(biased) < 1e-4
