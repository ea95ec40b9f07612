"""The white-box game on the real engine: a correct one stays below its claim, broken ones are caught."""

import dataclasses
import math

import numpy as np
import pytest
from audit_faults import LOOP, of_engine
from scipy import stats

from pipelines.accounting.events import NeighboringRelation
from pipelines.attacks import white_box
from pipelines.attacks.epsilon_comparison import ClaimedProfile, Power, claim_p_value
from pipelines.attacks.epsilon_estimates import epsilon_estimates
from pipelines.attacks.sequential_test import SequentialTest
from pipelines.attacks.white_box import Game, log_likelihood_ratios, play
from pipelines.errors import ConfigError, PrivacyGateError

NOISE_AT_4 = 1.0811661740192284
"""Of epsilon 4 at delta 1e-5 for one step of all records (add or remove)."""
SMALL = Game(num_canaries=1000, expected_batch_size=1000, noise_multiplier=NOISE_AT_4)
# Eight steps in two epochs, a quarter of the records in each; epsilon 4 at delta 1e-5.
LARGE = Game(
    num_canaries=5000, expected_batch_size=1250, epochs=2, noise_multiplier=1.2041074494768849,
    max_physical_batch_size=330,
)  # fmt: skip
DELTA = 1e-5


def bounds(played, seed, *estimators):
    found = epsilon_estimates(
        played.trials, delta=DELTA, confidence=0.95, rng=np.random.default_rng(seed), estimators=estimators
    )
    return {name: estimate.value for name, estimate in found.items()}


@pytest.fixture(scope="module")
def claimed():
    return SMALL.claimed(DELTA)


def test_the_claim_is_the_accountants_for_exactly_this_game(claimed):
    assert claimed.epsilon == pytest.approx(4, abs=1e-3)
    assert claimed.relation is NeighboringRelation.ADD_OR_REMOVE_ONE
    assert LARGE.plan.num_steps == 8
    assert LARGE.plan.sample_rate == 0.25


def test_a_correct_engine_gives_scores_of_exactly_its_noise(claimed):
    played = play(SMALL, np.random.default_rng(0), test_seed=0)
    assert played.noise == pytest.approx([NOISE_AT_4], rel=0.15)
    # The ratio is (2 x - 1) / (2 s^2) of x ~ N(coin, noise^2): x comes back, and its law is tested.
    x = played.trials.scores * played.noise[0] ** 2 + 0.5
    errors = x - played.trials.included
    assert stats.kstest(errors, stats.norm(scale=NOISE_AT_4).cdf).pvalue > 1e-3
    assert stats.kstest(errors, stats.norm(scale=1.15 * NOISE_AT_4).cdf).pvalue < 0.05
    found = epsilon_estimates(played.trials, delta=DELTA, confidence=0.95, rng=np.random.default_rng(0))
    for name, estimate in found.items():
        assert estimate.value <= claimed.epsilon, name
    assert found["gaussian_order_statistics"].value > 1.5
    again = play(SMALL, np.random.default_rng(0), test_seed=0)
    assert np.array_equal(again.trials.scores, played.trials.scores)


@pytest.mark.parametrize("fault", of_engine(1)[:2], ids=lambda fault: fault.name)
def test_a_broken_engine_is_caught_in_one_step(claimed, fault):
    with fault.put_into(LOOP):
        played = play(SMALL, np.random.default_rng(0), test_seed=0)
    found = bounds(played, 0, "clopper_pearson", "one_run", "f_dp", "gaussian_order_statistics")
    assert all(value > claimed.epsilon for value in found.values()), found


def test_an_engine_without_noise_in_some_steps_gives_all_away():
    game = Game(num_canaries=400, expected_batch_size=200, noise_multiplier=5.0)
    with of_engine(game.plan.steps_per_epoch)[2].put_into(LOOP):
        played = play(game, np.random.default_rng(1), test_seed=1)
    assert played.noise[0] == 0
    assert played.noise[1] == pytest.approx(5, rel=0.15)
    missed = (played.trials.included & (played.trials.scores < 1e4)).mean()
    assert missed < 0.35  # those that entered none of the steps without noise
    assert not (~played.trials.included & (played.trials.scores > 1e4)).any()


def test_an_engine_that_counts_other_steps_is_no_subject_of_a_claim(patch):
    game = Game(num_canaries=20, expected_batch_size=20, epochs=2, noise_multiplier=1.0)
    patch(white_box.PrivacyEngine, "_count", lambda *_: None)
    with pytest.raises(PrivacyGateError):
        play(game, np.random.default_rng(0), test_seed=0)


def test_log_likelihood_ratios_are_those_of_the_densities():
    rng = np.random.default_rng(0)
    x, noise, rate = rng.normal(size=(3, 5)), np.array([0.5, 1.0, 2.0]), 0.2
    plain = stats.norm.pdf(x, 0, noise[:, None])
    moved = stats.norm.pdf(x, 1, noise[:, None])
    expected = np.log(((1 - rate) * plain + rate * moved) / plain).sum(axis=0)
    assert log_likelihood_ratios(x, noise, rate) == pytest.approx(expected)
    assert log_likelihood_ratios(x, noise, 1.0) == pytest.approx(np.log(moved / plain).sum(axis=0))


def test_impossible_games_are_refused():
    for wrong in ({"num_canaries": 0}, {"canary_norm": 1.0}, {"num_others": -1}):
        with pytest.raises(ConfigError):
            dataclasses.replace(SMALL, **wrong)


# Power: what an estimator that supposes nothing but fair coins catches. Many minutes of trials in one.


@pytest.mark.slow
@pytest.mark.parametrize("fault", of_engine(LARGE.plan.steps_per_epoch), ids=lambda fault: fault.name)
def test_broken_engines_are_caught(fault):
    claimed = LARGE.claimed(DELTA)
    flags = []
    for seed in range(20):
        with fault.put_into(LOOP):
            played = play(LARGE, np.random.default_rng(seed))
        flags.append(bounds(played, seed, "f_dp")["f_dp"] > claimed.epsilon)
    assert sum(flags) >= 19, Power.of(flags)


@pytest.mark.slow
def test_a_correct_engine_is_flagged_in_at_most_five_of_a_hundred():
    claimed = SMALL.claimed(DELTA)
    flags = {"f_dp": [], "clopper_pearson": [], "gaussian_order_statistics": [], "gaussian_scores": []}
    for seed in range(150):
        for name, value in bounds(play(SMALL, np.random.default_rng(seed)), seed, *flags).items():
            flags[name].append(value > claimed.epsilon)
    for name, found in flags.items():  # three standard deviations: the engine's noise differs from run to run
        assert sum(found) <= 0.05 * 150 + 3 * math.sqrt(0.05 * 0.95 * 150), name


@pytest.mark.slow
def test_five_seeds_of_a_thousand_trials_show_half_of_epsilon_four():
    for seed in range(5):
        found = bounds(play(SMALL, np.random.default_rng(seed), test_seed=seed), seed, "gaussian_order_statistics")
        assert 2 <= found["gaussian_order_statistics"] <= 4


@pytest.mark.slow
def test_the_alarm_comes_in_the_first_nights_of_a_fault_and_not_before():
    profile = ClaimedProfile.of(LARGE.event, white_box.RELATION)
    state = SequentialTest()
    for night in range(3):
        played = play(LARGE, np.random.default_rng(night))
        state = state.after(f"good {night}", claim_p_value(played.trials, profile, rng=np.random.default_rng(night)))
    assert not state.is_alarm
    for night in range(4):
        with of_engine(LARGE.plan.steps_per_epoch)[1].put_into(LOOP):
            played = play(LARGE, np.random.default_rng(night))
        state = state.after(f"bad {night}", claim_p_value(played.trials, profile, rng=np.random.default_rng(night)))
    assert state.is_alarm
    assert state.alarmed_by in ("bad 0", "bad 1", "bad 2")
