"""The recommended intervals cover the truth as often as they say; a wrong estimator fails the same test.

Misses are simulated in clusters: an odd sentence misses many of its units, the others miss none.
"""

from __future__ import annotations

import numpy as np
import pytest

from pipelines.miss_rate.intervals import (
    ClusteredCounts,
    clopper_pearson,
    clopper_pearson_upper,
    korn_graubard,
    korn_graubard_upper,
)

NUM_TRIALS = 1_000
CONFIDENCE = 0.95
# Three standard errors of a coverage of 95 % in this many trials, on top of the one percent that is allowed.
ALLOWED = CONFIDENCE - 0.01 - 3 * (CONFIDENCE * (1 - CONFIDENCE) / NUM_TRIALS) ** 0.5

# (sentences, share of odd ones, share of units missed in those, mean number of further units in a sentence)
SCENARIOS = [(200, 0.02, 1.0, 1), (400, 0.1, 0.5, 10), (60, 0.3, 1.0, 20), (300, 0.005, 1.0, 3)]


def coverage(two_sided, upper, scenario):
    """Shares of trials in which an interval, and a one-sided bound, hold the true rate."""
    num_sentences, odd_share, missed_share, mean_units = scenario
    rng = np.random.default_rng(20_220)
    truth = odd_share * missed_share
    covered = bounded = 0
    for _ in range(NUM_TRIALS):
        units = 1 + rng.poisson(mean_units, num_sentences)
        hits = np.where(rng.random(num_sentences) < odd_share, rng.binomial(units, missed_share), 0)
        counts = ClusteredCounts.of(hits, units)
        low, high = two_sided(counts)
        covered += low <= truth <= high
        bounded += truth <= upper(counts)
    return covered / NUM_TRIALS, bounded / NUM_TRIALS


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_recommended_intervals_cover(scenario):
    covered, bounded = coverage(
        lambda counts: korn_graubard(counts, CONFIDENCE),
        lambda counts: korn_graubard_upper(counts, CONFIDENCE),
        scenario,
    )
    assert covered >= ALLOWED
    assert bounded >= ALLOWED


def test_an_estimator_that_ignores_clusters_fails_the_same_test():
    covered, bounded = coverage(
        lambda counts: clopper_pearson(counts.num_hits, counts.num_units, CONFIDENCE),
        lambda counts: clopper_pearson_upper(counts.num_hits, counts.num_units, CONFIDENCE),
        SCENARIOS[1],
    )
    assert covered < ALLOWED
    assert bounded < ALLOWED


def test_an_estimator_that_reports_zero_for_zero_misses_fails_the_same_test():
    def naive(counts):
        error = counts.standard_error() or 0.0
        return counts.value - 1.96 * error, counts.value + 1.96 * error

    covered, bounded = coverage(naive, lambda counts: naive(counts)[1], SCENARIOS[3])
    assert covered < ALLOWED
    assert bounded < ALLOWED


def test_intervals_are_not_needlessly_wide():
    # Independent units: the design effect is 1, and the price of measuring it stays small.
    rng = np.random.default_rng(7)
    counts = ClusteredCounts.of(rng.random(2_000) < 0.05, np.ones(2_000))
    assert korn_graubard_upper(counts, CONFIDENCE) == pytest.approx(
        clopper_pearson_upper(counts.num_hits, 2_000, CONFIDENCE), rel=0.01
    )
