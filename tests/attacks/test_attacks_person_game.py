"""The game on people: a lower bound refutes the epsilon of a record and not that of a person, and faults show."""

import dataclasses
import json

import numpy as np
import pytest
from audit_faults import LOOP, OF_PEOPLE
from audit_power import DELTA, person_audited, person_table
from hypothesis import given
from hypothesis import strategies as st
from support import REPOSITORY

from pipelines.accounting.accountants import epsilon
from pipelines.accounting.events import NeighboringRelation, NonPrivate, dp_sgd
from pipelines.accounting.groups import Pair, group_epsilon, group_epsilons
from pipelines.attacks.attack_training import play_training
from pipelines.attacks.epsilon_comparison import ClaimedProfile
from pipelines.attacks.sequential_test import SequentialTest
from pipelines.attacks.training_game import TrainingGame
from pipelines.errors import ConfigError
from pipelines.methods import registry

RESULTS = json.loads((REPOSITORY / "benchmarks/results/audit_power_person.json").read_text())


def game(unit="record", each=1, **changed):
    own = registry.method("dpsgd").settings(method="dpsgd", unit=unit, owner_records=each)
    given = {"num_canaries": 60, "noise_multiplier": 2.0, "sample_rate": 0.1, "max_grad_norm": 0.5, **changed}
    return TrainingGame(method="dpsgd", own=own, person_records=16, **given)


def bound(played):
    (found,) = (e for e in played.estimates(DELTA, 0.95, np.random.default_rng(0)) if e.estimator == "f_dp")
    return found


def raises_alarm(played):
    return SequentialTest().after("first", played.p_value(np.random.default_rng(0))).is_alarm


@pytest.fixture(scope="module")
def by_record():
    return play_training(game(num_canaries=150, noise_multiplier=5.0), seed=1)


@pytest.mark.slow
def test_people_of_a_training_by_records_refute_the_epsilon_of_a_record_and_not_their_own(by_record):
    played = by_record
    lower = bound(played)
    assert (lower.relation, lower.group_size) == (NeighboringRelation.REPLACE_ONE, 16)
    assert played.claimed_of(1, DELTA) == epsilon(played.event, DELTA) < lower.value < played.claimed(DELTA)
    assert played.claimed(DELTA) == pytest.approx(group_epsilon(played.event, DELTA, 16), rel=1e-3)
    assert not raises_alarm(played)
    assert min(played.conformance.values()) > 1e-6
    assert {"how often each record is sampled", "largest move of a person, head"} <= played.conformance.keys()


@pytest.mark.slow
@pytest.mark.parametrize("each", [1, 4])
def test_a_training_by_people_holds_its_epsilon_however_many_records_they_have(each):
    played = play_training(game("owner", each), seed=2)
    lower = bound(played)
    assert (lower.relation, lower.group_size) == (NeighboringRelation.REPLACE_ONE, 1)
    assert lower.value <= played.claimed(DELTA) == epsilon(played.event, DELTA)
    assert not raises_alarm(played)
    assert {"how often each person is sampled", "people sampled again"} <= played.conformance.keys()


@pytest.mark.parametrize(
    "fault",
    [fault if "clipped" in fault.name else pytest.param(fault, marks=pytest.mark.slow) for fault in OF_PEOPLE],
    ids=lambda fault: fault.name,
)
def test_steps_that_are_not_those_of_people_raise_the_alarm(fault):
    with fault.put_into(LOOP):
        played = play_training(game("owner", 4 if "clipped" in fault.name else 1), seed=3)
    assert raises_alarm(played), played.conformance


@pytest.mark.slow
def test_a_claim_of_fewer_records_than_a_person_has_raises_the_alarm(by_record):
    """What the game would say if the accountant took a person for a record."""
    assert raises_alarm(dataclasses.replace(by_record, person=1))


@given(
    size=st.integers(1, 20),
    rate=st.floats(0.01, 1.0),
    noise=st.floats(0.05, 20),
    x=st.lists(st.floats(-20, 20), max_size=9),
)
def test_the_score_of_a_person_is_odd_and_rises(size, rate, noise, x):
    at = np.sort(np.array(x))
    losses = Pair(size, rate, noise, 1e-12).losses(at)
    assert np.isfinite(losses).all()
    assert (np.diff(losses) >= -1e-9 * (1 + np.abs(losses[1:]))).all()
    assert Pair(size, rate, noise, 1e-12).losses(-at) == pytest.approx(-losses)


@pytest.mark.parametrize("size", [2, pytest.param(16, marks=pytest.mark.slow)])
def test_many_deltas_at_once_are_bounds_near_the_tight_ones(size):
    event, deltas = dp_sgd(noise_multiplier=4.0, sample_rate=0.1, num_steps=10), [0.1, 1e-3, 1e-6]
    found = group_epsilons(event, deltas, size)
    assert found == sorted(found)
    assert found == pytest.approx([group_epsilon(event, delta, size) for delta in deltas], rel=2e-3)


def test_without_noise_there_is_no_claim_about_a_person():
    with pytest.raises(ConfigError, match="no finite epsilon"):
        ClaimedProfile.of_group(NonPrivate(), 16)


def test_the_benchmark_shows_what_the_page_says():
    assert {row["fault"] for row in RESULTS["rows"]} == {"correct", *(fault.name for fault in OF_PEOPLE)}
    for row in RESULTS["rows"]:
        correct = row["fault"] == "correct"
        assert row["num_flagged"] == (0 if correct else row["num_runs"]), row
        assert (row["above_person"] == 0) == correct, row
        assert row["above_record"] == (row["num_runs"] if row["training"] == "by record" else None), row
        lower, least, most = row["lower"]
        assert least <= lower <= most


@pytest.mark.slow
def test_the_table_is_made_from_runs():
    rows, shown = person_table([person_audited(("by record", "correct", 3.0, 0, 60))])
    assert (rows[0]["num_runs"], rows[0]["above_record"], rows[0]["above_person"]) == (1, 1, 0)
    assert shown.splitlines()[-1].endswith("| 1 | 0 | 0 of 1 |")


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["record", "owner"])
def test_correct_trainings_exceed_no_epsilon_of_a_person(unit):
    """The level is 5 % each at most, so more than 2 of 4 would have a probability below 0.1 %."""
    played = [play_training(game(unit), seed) for seed in range(4)]
    assert sum(bound(one).value > one.claimed(DELTA) for one in played) <= 2
    state = SequentialTest()
    for night, one in enumerate(played):
        state = state.after(str(night), one.p_value(np.random.default_rng(night)))
    assert not state.is_alarm
