"""How much to review: the plan keeps its promise."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from support.project import reticent

from pipelines.errors import ConfigError
from pipelines.intervals import clopper_pearson_upper
from pipelines.miss_rate.planning import num_reviews_needed, plan


def test_clean_reviews_for_the_designs_delta2():
    assert num_reviews_needed(1e-5, 0.95, 0.0, 0.8) == (299_572, 0)


@settings(deadline=None, max_examples=40)
@given(st.floats(1e-3, 0.3), st.floats(0, 0.7), st.sampled_from([0.9, 0.95]))
def test_so_many_reviews_reach_the_bound_as_often_as_said(bound, share, confidence):
    rate = bound * share
    units, allowed = num_reviews_needed(bound, confidence, rate, 0.8)
    assert clopper_pearson_upper(allowed, units, confidence) <= bound
    assert clopper_pearson_upper(allowed + 1, units, confidence) > bound
    assert stats.binom.cdf(allowed, units, rate) >= 0.8
    assert clopper_pearson_upper(allowed, units - 1, confidence) > bound


def test_half_as_many_would_not_do():
    units, _ = num_reviews_needed(0.01, 0.95, 0.004, 0.8)
    rng = np.random.default_rng(3)
    reached = {
        n: np.mean([clopper_pearson_upper(int(x), n, 0.95) <= 0.01 for x in rng.binomial(n, 0.004, 2000)])
        for n in (units, units // 2)
    }
    assert reached[units] >= 0.77
    assert reached[units // 2] < 0.7


def test_clusters_and_density_turn_secrets_into_sentences():
    found = plan("gamma", bound=0.01, confidence=0.95, design_effect=1.5, units_per_sentence=0.5)
    assert found["num_units"] == 449  # 299 independent ones
    assert found["num_sentences"] == 898
    assert found["unit"] == "secrets"
    assert plan("miss_rate", bound=0.01, confidence=0.95)["unit"] == "tokens"
    small = plan("gamma", bound=0.01, confidence=0.95, units_per_sentence=0.5, num_population=100)
    assert small["is_census"]
    assert small["num_sentences"] == 100


@pytest.mark.parametrize(
    "values",
    [
        {"bound": 0.0},
        {"bound": 1.0},
        {"confidence": 1.0},
        {"expected_rate": 0.005},
        pytest.param({"expected_rate": 0.00499999}, marks=pytest.mark.slow),
        {"assurance": 0.0},
        {"design_effect": 0.5},
        {"units_per_sentence": 0.0},
    ],
)
def test_impossible_plans_are_refused(values):
    with pytest.raises(ConfigError):
        plan("gamma", **{"bound": 0.005, "confidence": 0.95} | values)


def test_the_planner_needs_no_project(tmp_path):
    arguments = ["sample", "--plan", "--target", "gamma", "--bound", "0.005", "--confidence", "0.95", "--json"]
    done = reticent(*arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["num_units"] == 598
