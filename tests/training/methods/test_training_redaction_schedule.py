"""Redaction schedules: the paper's formulas, a draw that is fixed beforehand, and the epsilon of what was drawn."""

import itertools
import math
from types import SimpleNamespace

import dp_accounting
import numpy as np
import pytest
from dp_accounting import rdp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pipelines.accounting.accountants import epsilon
from pipelines.accounting.calibration import calibrate_noise_multiplier
from pipelines.accounting.events import Composed, NonPrivate, dp_sgd
from pipelines.errors import ConfigError
from pipelines.methods.redaction_schedule import ScheduleSettings
from pipelines.training.methods.base import TrainingSettings
from pipelines.training.methods.redaction_schedule import (
    KINDS,
    draw_schedule,
    prepare,
    programme,
    redaction_probability,
)

# The formulas of the paper's code (domain_private_transformers, lm/trainer.py) evaluated apart, M = 100, s = 1. The
# last is the step schedule of the paper's text.
ORACLE = {
    0: (1.0, 1.0, 0.6284233089779543, 1.0, 1.0),
    1: (0.9, 0.99, 0.6246889011486004, 0.36787944117144233, 1.0),
    5: (0.9, 0.95, 0.6093721646414789, 0.006737946999085467, 1.0),
    25: (0.7, 0.75, 0.5228860844789656, 1.3887943864964021e-11, 1.0),
    50: (0.5, 0.5, 0.3873736058155839, 1.9287498479639178e-22, 0.0),
    75: (0.2, 0.25, 0.21337213893344653, 2.6786369618080778e-33, 0.0),
    95: (0.0, 0.05, 0.03921056084767682, 5.5210822770285325e-42, 0.0),
    99: (0.0, 0.01, 0.0, 1.0112214926104486e-43, 0.0),
}


@pytest.mark.parametrize("step", ORACLE)
@pytest.mark.parametrize("at", range(5))
def test_probabilities_equal_the_oracles(step, at):
    assert len(KINDS) == 5
    assert redaction_probability(KINDS[at], step, 100, 1.0) == pytest.approx(ORACLE[step][at], rel=1e-12, abs=1e-300)


def test_tenths_are_exact_where_floating_point_would_fall_below():
    # 10 * (1 - 8 / 10) is 1.9999999999999996, which would be floored to 0.1.
    assert [redaction_probability("step", t, 10) for t in range(10)] == [x / 10 for x in range(10, 0, -1)]


@settings(max_examples=100, deadline=None)
@given(kind=st.sampled_from(KINDS), num_steps=st.integers(1, 300), scale=st.floats(0.01, 20))
def test_probabilities_fall_and_stay_between_0_and_1(kind, num_steps, scale):
    chances = [redaction_probability(kind, t, num_steps, scale) for t in range(num_steps)]
    assert all(0 <= p <= 1 for p in chances)
    assert all(a >= b for a, b in itertools.pairwise(chances))


@pytest.mark.parametrize(
    "arguments", [("cosine", 0, 10, 1.0), ("linear", 10, 10, 1.0), ("linear", -1, 10, 1.0), ("linear", 0, 0, 1.0),
                  ("expconcave", 0, 10, 0.0), ("expconcave", 0, 10, math.inf)]
)  # fmt: skip
def test_what_makes_no_schedule_is_refused(arguments):
    with pytest.raises(ConfigError, match="redaction schedule"):
        redaction_probability(*arguments)
    if arguments[1] == 0:
        with pytest.raises(ConfigError):
            draw_schedule(arguments[0], arguments[2], arguments[3], seed=1)


@pytest.mark.parametrize(("num_steps", "private"), [(1, 1), (2, 1), (7, 4), (100, 50)])
def test_half_is_first_redacted_and_then_private_whatever_the_seed(num_steps, private):
    drawn = [draw_schedule("half", num_steps, 1.0, seed) for seed in range(5)]
    wanted = [step < num_steps - private for step in range(num_steps)]
    assert [schedule.is_redacted.tolist() for schedule in drawn] == [wanted] * 5
    assert drawn[0].num_private_steps == private


def _p_value(kind, drawn, num_steps):
    """Of the counts of redacted steps in ten stretches, over independent draws, against p(t)."""
    chances = np.asarray([redaction_probability(kind, t, num_steps, 1.0) for t in range(num_steps)])
    edges = np.linspace(0, num_steps, 11).astype(int)[:-1]
    found = np.add.reduceat(np.sum(drawn, axis=0), edges)
    mean = len(drawn) * np.add.reduceat(chances, edges)
    variance = len(drawn) * np.add.reduceat(chances * (1 - chances), edges)
    usable = variance > 5
    return stats.chi2(usable.sum()).sf((((found - mean) ** 2)[usable] / variance[usable]).sum())


@pytest.mark.parametrize("kind", ["step", "linear", "expconcave"])
def test_the_draw_follows_the_probabilities(kind):
    drawn = [draw_schedule(kind, 200, 1.0, seed).is_redacted for seed in range(200)]
    assert _p_value(kind, drawn, 200) > 1e-3
    for other in {"step", "linear", "expconcave"} - {kind}:  # a wrong kind is told from the right one
        assert _p_value(other, drawn, 200) < 1e-9


def test_the_draw_depends_on_public_settings_only_and_is_never_redrawn():
    first, again = (draw_schedule("expconcave", 500, 1.0, seed=7).is_redacted for _ in range(2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, draw_schedule("expconcave", 500, 1.0, seed=8).is_redacted)
    # Other uses of the same seed draw other numbers.
    chances = [redaction_probability("expconcave", t, 500) for t in range(500)]
    assert not np.array_equal(first, np.random.default_rng(7).random(500) < chances)


def test_the_expected_number_of_private_steps():
    drawn = [draw_schedule("linear", 100, 1.0, seed).num_private_steps for seed in range(300)]
    expected = 100 - math.fsum(redaction_probability("linear", t, 100) for t in range(100))
    assert expected == pytest.approx(49.5)
    assert abs(np.mean(drawn) - expected) < 4 * np.std(drawn) / math.sqrt(len(drawn))


def test_noise_is_calibrated_for_the_steps_that_were_drawn():
    schedule = draw_schedule("linear", 400, 1.0, seed=3)
    steps = schedule.num_private_steps
    assert steps != 200  # neither the expected number nor all of them
    noise = calibrate_noise_multiplier(target_epsilon=2.0, target_delta=1e-5, sample_rate=0.05, num_steps=steps)
    found = dp_sgd(noise_multiplier=noise, sample_rate=0.05, num_steps=steps)
    assert epsilon(found, 1e-5) == pytest.approx(2.0, rel=1e-3)
    assert epsilon(found, 1e-5) <= 2.0


def test_what_is_accounted_for_is_what_was_drawn():
    corpus = SimpleNamespace(nonprivate_examples=["r"] * 20, private_examples=["o"] * 20, num_private_without_noise=20)
    training = prepare(
        corpus,
        TrainingSettings(
            epochs=10,
            public_batch_size=5,
            expected_batch_size=5,
            max_grad_norm=1.0,
            public_learning_rate=1.0,
            private_learning_rate=1.0,
            seed=4,
            own=ScheduleSettings(schedule="linear"),
        ),
    )
    drawn = draw_schedule("linear", 40, 1.0, 4).num_private_steps
    assert training.num_steps == drawn == sum(s.num_steps for s in training.programme if s.kind == "private")
    account = training.account(1.5)
    assert account.event == Composed(
        events=(NonPrivate(), dp_sgd(noise_multiplier=1.5, sample_rate=0.25, num_steps=drawn))
    )
    assert [rows for _, rows, _ in account.phases] == ["redacted", "original"]
    with pytest.raises(ConfigError, match="original rows"):
        prepare(
            SimpleNamespace(nonprivate_examples=[], private_examples=[], num_private_without_noise=0), training.settings
        )


def _renyi(num_steps):
    accountant = rdp.RdpAccountant(orders=[8.0])
    step = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(0.6))
    accountant.compose(dp_accounting.SelfComposedDpEvent(step, num_steps))
    return float(accountant.rdp[0])


@pytest.mark.slow
def test_at_fixed_noise_expconcave_costs_about_35_percent_less_renyi_privacy_than_jft():
    # Section 6.4: "privacy guarantees ~ 35% better than JFT" at equal noise and steps, JFT's second stage being as
    # long as the schedule. In the limit of many steps the saving is exp(-1) = 36.8 % at s = 1.
    num_steps = 5_000
    schedule = draw_schedule("expconcave", num_steps, 1.0, seed=1)
    saving = 1 - _renyi(schedule.num_private_steps) / _renyi(num_steps)
    assert 0.33 < saving < 0.40
    assert saving == pytest.approx(math.exp(-1), abs=0.02)
    # The (epsilon, delta) figure for the relation that S-DP needs gains less.
    costs = [epsilon(dp_sgd(noise_multiplier=1.0, sample_rate=0.01, num_steps=n), 1e-5) for n in
             (schedule.num_private_steps, num_steps)]  # fmt: skip
    assert 0.15 < 1 - costs[0] / costs[1] < 0.30


@settings(max_examples=40, deadline=None)
@given(kind=st.sampled_from(KINDS), num_steps=st.integers(1, 40), per_epoch=st.integers(1, 9), seed=st.integers(0, 99))
def test_the_programme_is_the_schedule(kind, num_steps, per_epoch, seed):
    schedule = draw_schedule(kind, num_steps, 1.0, seed)
    segments = programme(schedule, per_epoch)
    walked = [segment.kind == "nonprivate" for segment in segments for _ in range(segment.num_steps)]
    assert walked == schedule.is_redacted.tolist()
    ends = np.cumsum([segment.num_steps for segment in segments])
    assert [int(end) for end, s in zip(ends, segments, strict=True) if s.ends_epoch] == [
        *range(per_epoch, num_steps, per_epoch),
        num_steps,
    ]
