"""The papers' protocols on scores whose AUC is known; and that overlapping groups bear no interval."""

import json
import math
from dataclasses import asdict

import numpy as np
import pytest
from scipy import stats

from pipelines.attacks.membership_evaluation import auc_interval
from pipelines.attacks.membership_protocols import OVERLAP, PROTOCOLS, Protocol, measure, overlapping_groups

SELECTIVE_DP, CRT = PROTOCOLS
RNG = np.random.default_rng


def drawn(shift, num, seed):
    """Gaussian scores by identifier: members are higher by ``shift``."""
    rng = RNG(seed)
    names = [[f"{kind}{i}" for i in range(num)] for kind in "mn"]
    values = rng.normal(shift, 1, num), rng.normal(0, 1, num)
    scores = {n: float(v) for part, row in zip(names, values, strict=True) for n, v in zip(part, row, strict=True)}
    return scores, *names


def test_the_numbers_are_the_papers():
    assert (SELECTIVE_DP.num_records, SELECTIVE_DP.group_size) == (500, None)
    assert (CRT.num_records, CRT.group_size, CRT.num_groups) == (1_000, 20, 1_000)


@pytest.mark.parametrize("shift", [0.2, 1.0])
def test_gaussian_scores_have_the_auc_and_accuracy_that_theory_says(shift):
    scores, members, others = drawn(shift, 1_000, 0)
    found = measure(CRT, scores, {}, members, others, generator=RNG(1))
    single, groups = found.individual, found.overlapping_groups
    assert single.auc == pytest.approx(stats.norm.cdf(shift / math.sqrt(2)), abs=0.04)
    assert single.accuracy == pytest.approx(stats.norm.cdf(shift / 2), abs=0.05)
    low, high = single.accuracy_interval
    assert low < single.accuracy < high
    # The difference of two means of 20 has a standard deviation of √(2/20).
    assert groups.auc == pytest.approx(stats.norm.cdf(shift * math.sqrt(20 / 2)), abs=0.1)
    assert groups.accuracy >= single.accuracy


def test_overlapping_groups_bear_no_interval():
    """Of scores without a leak: an interval that took such groups for independent would miss one half far too often."""
    misses, of_records, trials = 0, 0, 60
    for seed in range(trials):
        rng = RNG(seed)
        pair = rng.normal(size=(2, 200))
        low, high = auc_interval(*(part[overlapping_groups(200, 20, 200, rng)].mean(axis=1) for part in pair), 0.95)
        misses += not low <= 0.5 <= high
        low, high = auc_interval(*pair, 0.95)
        of_records += not low <= 0.5 <= high
    assert of_records <= stats.binom.ppf(0.9995, trials, 0.05) < misses
    scores, members, others = drawn(0, 1_000, 3)
    groups = measure(CRT, scores, {}, members, others, generator=RNG(0)).overlapping_groups
    assert (groups.accuracy_interval, groups.auc_interval) == (None, None)
    assert groups.warning == OVERLAP
    assert measure(CRT, scores, {}, members, others, generator=RNG(0)).individual.warning is None


def test_groups_are_of_distinct_records_and_overlap():
    chosen = overlapping_groups(100, 20, 50, RNG(0))
    assert chosen.shape == (50, 20)
    assert all(len(set(group)) == 20 for group in chosen.tolist())
    assert set(chosen.ravel().tolist()) <= set(range(100))
    assert len(set(chosen.ravel().tolist())) < chosen.size
    with pytest.raises(ValueError, match="19 records"):
        overlapping_groups(19, 20, 1, RNG(0))


def test_what_a_baseline_finds_is_subtracted():
    """Non-members of another source: a model that never saw the records tells them apart as well."""
    scores, members, others = drawn(2, 500, 0)
    rng = RNG(9)
    unseen = {name: value + float(rng.normal(0, 0.1)) for name, value in scores.items()}
    idle = {name: float(rng.normal()) for name in scores}
    found = measure(SELECTIVE_DP, scores, {"blind": idle, "never saw": unseen}, members, others, generator=RNG(1))
    assert found.individual.accuracy > 0.8
    assert abs(found.individual.accuracy_over) < 0.1
    assert found.individual.baselines["never saw"] > 0.8 > 0.6 > found.individual.baselines["blind"]
    alone = measure(SELECTIVE_DP, scores, {"blind": idle}, members, others, generator=RNG(1))
    assert alone.individual.accuracy_over > 0.3
    assert alone.overlapping_groups is None
    json.dumps(asdict(found), allow_nan=False)


def test_fewer_records_than_the_paper_took_are_another_protocol():
    scores, members, others = drawn(1, 499, 0)
    assert measure(SELECTIVE_DP, scores, {}, members, others, generator=RNG(0)) is None
    small = Protocol(name="ours", source="", num_records=100)
    assert measure(small, scores, {}, members, others, generator=RNG(0)).individual.auc > 0.5
