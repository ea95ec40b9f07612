"""Plans: sufficient noise, figures of an independent implementation, the rule for g, and how the figures move."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.accounting import planning
from pipelines.accounting.accountants import epsilon, gdp_epsilon
from pipelines.accounting.calibration import sufficient_noise_multiplier
from pipelines.accounting.planning import BATCH_LOSS, Goal, batch_sizes, best_batch, options, planned, records_each
from pipelines.errors import ConfigError

BATCH, STEPS = 256, 500
FEW = settings(max_examples=2, deadline=None, derandomize=True)


def goal(epsilon=3.0, delta=1e-5, gradients=8_000.0):
    return Goal(epsilon=epsilon, delta=delta, gradients=gradients)


@pytest.mark.parametrize(
    ("num_people", "target", "delta", "each", "noise"),
    [
        (1_000, 8.0, 1e-5, 1, 6.87),
        (1_000, 3.0, 1e-5, 1, 15.96),
        (10_000, 8.0, 1e-6, 1, 0.87),
        (10_000, 3.0, 1e-6, 1, 1.80),
        (1_000, 8.0, 1e-5, 4, 1.72),
        (1_000, 3.0, 1e-5, 16, 1.06),
        (10_000, 8.0, 1e-6, 16, 0.42),
        (10_000, 3.0, 1e-6, 4, 0.74),
    ],
)
def test_the_noise_is_that_of_an_independent_implementation(num_people, target, delta, each, noise):
    found = sufficient_noise_multiplier(
        target_epsilon=target, target_delta=delta, sample_rate=BATCH / each / num_people, num_steps=STEPS
    )
    assert found == pytest.approx(noise, rel=0.015)  # its figures have three digits, and a coarse grid


def test_the_noise_meets_epsilon_and_two_per_cent_less_would_not():
    found = planned("owner", 1_000, 256, 125, goal())
    assert epsilon(found.event, 1e-5) <= 3.0
    assert epsilon(replace(found, noise_multiplier=0.98 * found.noise_multiplier).event, 1e-5) > 3.0


@pytest.mark.parametrize(("target", "steps"), [(0.1, 4), (8.0, 16)])
def test_without_sampling_the_noise_is_that_of_the_closed_form(target, steps):
    found = sufficient_noise_multiplier(target_epsilon=target, target_delta=1e-5, sample_rate=1.0, num_steps=steps)
    assert target * 0.97 <= gdp_epsilon(2 * math.sqrt(steps) / found, 1e-5) <= target


@pytest.mark.parametrize(
    ("num_people", "target", "delta", "epochs", "least", "most"),
    [(1_000, 8.0, 1e-5, 128, 4, 8), (1_000, 3.0, 1e-5, 128, 16, 16), (10_000, 8.0, 1e-6, 12, 1, 2)],
)
def test_the_rule_for_g_picks_what_the_design_computed_for_1_4_and_16(num_people, target, delta, epochs, least, most):
    own = goal(target, delta)
    found = records_each(planned("owner", num_people, BATCH, epochs, own), own, 16)
    assert least <= found.records_each <= most


@settings(deadline=None, derandomize=True)
@given(st.integers(1, 5_000), st.integers(1, 5_000), st.integers(1, 50))
def test_steps_are_those_of_the_training(count, batch, epochs):
    from pipelines.dp.sampling import plan_private_steps

    plan = plan_private_steps(count, batch, epochs)
    found = planning.PlannedTraining(
        unit="record", records_each=1, count=count, batch=batch, epochs=epochs, noise_multiplier=1.0
    )
    assert (found.steps, found.sample_rate) == (plan.num_steps, plan.sample_rate)
    assert found.noise_batch_ratio == 1.0 / plan.expected_batch_size


@FEW
@given(st.sampled_from([300, 1_000, 5_000]), st.sampled_from([32, 128]), st.sampled_from([1.0, 8.0]), st.integers(1, 8))
@pytest.mark.slow
def test_more_people_and_a_larger_epsilon_lower_the_noise_and_more_epochs_raise_it(count, batch, target, epochs):
    def total(count=count, target=target):
        return planned("owner", count, batch, epochs, goal(target)).total_noise

    assert total(count=2 * count) < total()
    assert total(target=2 * target) < total()
    assert planned("owner", count, batch, epochs + 8, goal(target)).noise_multiplier > (
        planned("owner", count, batch, epochs, goal(target)).noise_multiplier
    )


@pytest.mark.parametrize(("target", "count"), [(3.0, 1_000), pytest.param(1.0, 300, marks=pytest.mark.slow)])
def test_large_batches_approach_the_closed_form(target, count):
    own = goal(target, gradients=8.0 * count)
    found = batch_sizes("owner", count, own)
    totals = [training.total_noise for training in found]
    assert totals[-1] == pytest.approx(own.least_total(count), rel=0.03)
    assert all(later <= 1.01 * former for former, later in pairwise(totals))
    assert {training.epochs for training in found} == {8}


def test_the_epsilon_that_would_help_lowers_the_figure_by_the_factor():
    larger = goal(goal().epsilon_for(2.5))
    assert larger.least_total(1_000) == pytest.approx(goal().least_total(1_000) / 2.5)


def test_the_best_batch_has_the_most_steps_within_the_allowed_noise():
    found = batch_sizes("record", 1_000, goal(8.0, gradients=32_000))
    best = best_batch(found)
    at, least = found.index(best), min(t.total_noise for t in found)
    assert best.total_noise <= BATCH_LOSS * least < found[at - 1].total_noise


@pytest.mark.slow
def test_a_batch_that_leaves_few_steps_is_not_best():
    found = batch_sizes("owner", 1_000, goal(8.0, gradients=2_000))
    assert best_batch(found).steps >= planning.ENOUGH_STEPS
    assert best_batch(found[-2:]) is found[-2]


@pytest.mark.slow
def test_options_are_of_equal_compute_and_the_last_has_several_records():
    found = options(goal(gradients=32_000), num_records=4_000, num_people=1_000, records_of_a_person=4)
    assert [option.name for option in found] == ["record", "owner, g = 1", "owner, g = 4"]
    assert all(0.9 * 32_000 <= option.chosen.gradients <= 1.05 * 32_000 for option in found)
    record, one, several = (option.chosen for option in found)
    assert record.total_noise < one.total_noise
    assert several.total_noise <= BATCH_LOSS * 1.1 * goal().least_total(1_000)
    assert several.steps >= planning.ENOUGH_STEPS


@pytest.mark.slow
def test_nobody_brings_more_records_than_expected():
    found = options(goal(gradients=32_000), num_records=4_000, num_people=1_000, records_of_a_person=1)
    assert [option.name for option in found] == ["record", "owner, g = 1"]


def test_records_alone_have_one_option():
    found = options(goal(), num_records=1_000, num_people=None, records_of_a_person=1)
    assert [option.name for option in found] == ["record"]


def test_less_than_an_epoch_is_refused():
    with pytest.raises(ConfigError, match=r"500 gradients are less than one epoch of 1,000 records"):
        options(goal(gradients=500), num_records=1_000, num_people=None, records_of_a_person=1)


def test_a_single_unit_has_a_plan():
    (only,) = batch_sizes("owner", 1, goal(gradients=8))
    assert (only.batch, only.sample_rate) == (1, 1.0)
    assert math.isfinite(only.total_noise)
