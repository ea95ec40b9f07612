"""Rates and plans from plain counts, and accounting, by their public names: the figures of the command line."""

from __future__ import annotations

import pytest

from flows.commands.privacy import confidentiality_document, epsilon_document
from flows.commands.sample import plan_document
from pipelines.miss_rate.counts import ReplicateCounts, estimate_counts
from reticent import accounting, miss_rate
from reticent.errors import ConfigError, InputError


def test_a_rate_is_that_of_the_command() -> None:
    told = estimate_counts(ReplicateCounts((1, 0, 2), (400, 380, 420), (30, 28, 31)), 0.9)
    found = miss_rate.estimate_rate([1, 0, 2], [400, 380, 420], sentences=[30, 28, 31], confidence=0.9)
    assert (found.interval, found.upper_bound, found.method) == (
        told["recommended"],
        told["upper_bound"],
        told["recommended_method"],
    )
    assert found.intervals["student_t"] == told["student_t"]
    assert found.miss_rate().upper == found.interval[1]
    assert found.delta2("mu").mu == "mu"
    assert type(found.false_negative_rate("mu")) is miss_rate.FalseNegativeRate


@pytest.mark.parametrize(
    ("missed", "total", "more"),
    [([], [], {}), ([1], [0], {}), ([2], [1], {}), ([1], [2, 3], {}), ([1], [2], {"sentences": [3]})],
)
def test_impossible_counts_are_refused(missed, total, more) -> None:
    with pytest.raises(InputError):
        miss_rate.estimate_rate(missed, total, **more)


def test_a_confidence_out_of_range_is_refused() -> None:
    with pytest.raises(ConfigError, match="confidence"):
        miss_rate.estimate_rate([1], [2], confidence=1.0)


def test_a_plan_is_that_of_the_command(tmp_path) -> None:
    asked = {"bound": 0.01, "confidence": 0.95, "expected_rate": 0.002, "assurance": 0.8}
    told = plan_document(tmp_path / "none.toml", {}, target="gamma", design_effect=2.0, units_per_sentence=0.1, **asked)
    found = miss_rate.plan_reviews("gamma", design_effect=2.0, units_per_sentence=0.1, **asked)
    assert {name: getattr(found, name) for name in told} == told


def test_an_interval_of_clusters_is_wider_than_that_of_units() -> None:
    hits, units = [5, 0, 0, 0, 0, 0], [10] * 6
    low, high = miss_rate.clustered_interval(hits, units)
    alone = miss_rate.clopper_pearson(5, 60, 0.95)
    assert low < alone[0] < alone[1] < high


@pytest.mark.slow
def test_accounting_is_that_of_the_command() -> None:
    told = epsilon_document(sample_rate=0.01, noise_multiplier=1.1, steps=500, delta=1e-5, relation="add_or_remove_one")
    event = accounting.dp_sgd(noise_multiplier=1.1, sample_rate=0.01, num_steps=500)
    relation = accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    assert accounting.epsilon(event, 1e-5, relation) == told["pld"]
    assert accounting.rdp_epsilon(event, 1e-5, "add_or_remove_one") == told["rdp"]
    assert accounting.gdp_clt_epsilon(event, 1e-5, "add_or_remove_one") == told["gdp_clt"]
    assert accounting.pld_lower_epsilon(event, 1e-5, relation) == told["pld_lower"]
    assert {f.accountant: f.epsilon for f in accounting.all_epsilons(event, 1e-5, relation)} == {
        name: told[name] for name in ("pld", "pld_lower", "rdp", "gdp_clt")
    }


def test_confidentiality_is_that_of_the_command() -> None:
    told = confidentiality_document(epsilon=2.0, delta=1e-6, gamma=0.05, delta2=0.0, group_size=4)
    gamma = miss_rate.FalseNegativeRate(value=0.05, upper=0.05, confidence=1.0, mu="m")
    loss = accounting.PrivacyLoss(2.0, 1e-6)
    bayesian = accounting.bayesian_confidentiality(loss, gamma, miss_rate.Delta2.zero("m"))
    assert (bayesian.epsilon, bayesian.delta) == (told["bayesian"]["epsilon"], told["bayesian"]["delta"])
    group = accounting.group_confidentiality(loss, accounting.num_missed_of_group(4, gamma))
    assert group.epsilon == told["group"]["epsilon"]
    with pytest.raises(TypeError, match="FalseNegativeRate"):
        accounting.bayesian_confidentiality(
            loss,
            miss_rate.MissRate(value=0.05, upper=0.05, confidence=1.0),  # type: ignore[arg-type]
            miss_rate.Delta2.zero("m"),
        )
