"""The alarm over nights: false at most at the stated rate, however long one looks, and quick where an engine breaks."""

import json
import math

import numpy as np
import pytest
from scipy import integrate

from pipelines.attacks.sequential_test import SequentialTest, log_bet
from pipelines.errors import ConfigError, InputError


def after(p_values, **settings):
    state = SequentialTest(**settings)
    for night, p in enumerate(p_values):
        state = state.after(f"audit {night}", p)
    return state


def test_a_bet_is_fair_and_is_the_mean_of_its_family():
    paid, _ = integrate.quad(lambda log_p: math.exp(log_bet(math.exp(log_p)) + log_p), -700, -1, limit=500)
    rest, _ = integrate.quad(lambda p: math.exp(log_bet(p)), math.exp(-1), 1)
    assert paid + rest + 1 / 700 == pytest.approx(1, abs=1e-4)  # below e^-700 a bet pays 1 / (p (ln p)^2)
    for p in (1e-9, 0.03, 0.5, 0.999):
        mean, _ = integrate.quad(lambda k, p=p: k * p ** (k - 1), 0, 1)
        assert math.exp(log_bet(p)) == pytest.approx(mean, rel=1e-6)
    assert math.exp(log_bet(1 - 1e-7)) == pytest.approx(0.5, abs=1e-5)


def test_the_wealth_is_a_martingale():
    """Two-point bets: the mean over all sequences is 1 whatever the night."""
    pays = [math.exp(log_bet(p)) for p in (0.01, 0.9)]
    rise = (1 - pays[1]) / (pays[0] - pays[1])
    means = [0.0]
    states = [(1.0, SequentialTest())]
    for night in range(6):
        states = [
            (share * chance, state.after(str(night), p))
            for share, state in states
            for p, chance in ((0.01, rise), (0.9, 1 - rise))
        ]
        means.append(sum(share * state.wealth for share, state in states))
    assert means[1:] == pytest.approx([1.0] * 6)


def test_correct_engines_raise_an_alarm_at_most_at_the_stated_rate_over_all_nights():
    rng = np.random.default_rng(0)
    rate, runs = 0.05, 600  # at the real rate nothing would be seen to happen
    alarms = sum(after(rng.random(40), false_alarm_rate=rate).is_alarm for _ in range(runs))
    assert 0 < alarms <= rate * runs + 3 * math.sqrt(rate * runs)
    # The same audits, each tested by itself at 5 %, stop a correct run within weeks.
    assert sum((rng.random(40) <= 0.05).any() for _ in range(runs)) > 0.8 * runs


def test_an_engine_that_breaks_after_a_hundred_good_nights_is_caught_soon():
    good = after(np.random.default_rng(1).random(100))
    assert not good.is_alarm
    assert good.after("broken", 1e-12).is_alarm
    state, nights = good, 0
    while not state.is_alarm:
        state, nights = state.after(f"weak {nights}", 1e-3), nights + 1
    assert nights <= 6


def test_small_excesses_add_up_and_one_bad_night_is_no_alarm():
    assert not after([0.01]).is_alarm
    assert not after([0.001]).is_alarm
    assert after([0.01] * 12).is_alarm


def test_a_cached_audit_counts_once():
    state = after([1e-4])
    assert state.after("audit 0", 1e-4) == state
    assert state.after("audit 1", 1e-4).wealth > 10 * state.wealth


def test_an_alarm_stays_and_survives_its_document():
    state = after([1e-9])
    assert state.alarmed_by == "audit 0"
    for night in range(30):
        state = state.after(f"good {night}", 0.8)
    assert state.is_alarm
    assert state.alarmed_by == "audit 0"
    assert SequentialTest.of(json.loads(json.dumps(state.document()))) == state
    half = after([0.3, 0.01])
    assert SequentialTest.of(json.loads(json.dumps(half.document()))).after("x", 0.01) == half.after("x", 0.01)


@pytest.mark.parametrize("document", [{}, {"schema_version": 9}, {**SequentialTest().document(), "log_staked": "much"}])
def test_a_state_that_cannot_be_read_is_not_taken_for_no_alarm(document):
    with pytest.raises(InputError):
        SequentialTest.of(document)


def test_impossible_numbers_are_refused():
    with pytest.raises(ConfigError):
        SequentialTest(false_alarm_rate=0)
    for p in (0.0, 1.5, math.nan):
        with pytest.raises(ValueError):
            SequentialTest().after("a", p)
