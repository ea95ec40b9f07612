"""The closed forms of CRT and JFT, and the rules that keep them from being misused."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.accounting.accountants import epsilon
from pipelines.accounting.confidentiality import (
    AmplifiedLoss,
    PrivacyLoss,
    amplify_epsilon,
    bayesian_confidentiality,
    compose,
    group_confidentiality,
    group_loss,
    jft_amplified,
    jft_light_noise,
    num_missed_of_group,
)
from pipelines.accounting.events import Gaussian, NeighboringRelation, UnsupportedEventError, dp_sgd
from pipelines.miss_rate.rates import Delta2, FalseNegativeRate, MissRate

MU = "uniform over the secrets of a test"


def gamma(value, upper=None):
    return FalseNegativeRate(value=value, upper=value if upper is None else upper, confidence=0.95, mu=MU)


def delta2(upper, mu=MU):
    return Delta2(value=0.0, upper=upper, confidence=0.95, mu=mu)


def test_the_upper_bound_of_gamma_is_used_and_delta2_is_added():
    found = bayesian_confidentiality(PrivacyLoss(1.0, 1e-5), gamma(0.02, 0.1), delta2(1e-6))
    assert found.epsilon == pytest.approx(0.158565, abs=1e-6)
    assert found.delta == pytest.approx(0.1 * 1e-5 + 1e-6, rel=1e-12)
    assert found.unamplified == PrivacyLoss(1.0, 1e-5)
    assert found.is_guarantee


def test_the_miss_rate_over_tokens_is_a_type_error_in_confidentiality():
    m = MissRate(value=0.007, upper=0.007, confidence=0.95)
    with pytest.raises(TypeError, match="FalseNegativeRate"):
        bayesian_confidentiality(PrivacyLoss(1.0, 1e-5), m, delta2(0.0))
    with pytest.raises(TypeError, match="FalseNegativeRate"):
        bayesian_confidentiality(PrivacyLoss(1.0, 1e-5), 0.007, delta2(0.0))
    with pytest.raises(TypeError, match="Delta2"):
        bayesian_confidentiality(PrivacyLoss(1.0, 1e-5), gamma(0.1), gamma(0.1))
    with pytest.raises(TypeError, match="FalseNegativeRate"):
        num_missed_of_group(10, m)
    with pytest.raises(TypeError, match="MissRate"):
        jft_amplified(PrivacyLoss(1.0, 1e-5), gamma(0.1))


def test_rates_over_different_secrets_do_not_combine():
    with pytest.raises(ValueError, match="same distribution"):
        bayesian_confidentiality(PrivacyLoss(1.0, 1e-5), gamma(0.1), delta2(0.0, mu="another"))


def test_two_nights_compose_first_and_amplify_once():
    night = PrivacyLoss(1.0, 1e-6)
    total = compose([night, night])
    assert total == PrivacyLoss(2.0, 2e-6)
    right = bayesian_confidentiality(total, gamma(0.1), delta2(0.0))
    assert right.epsilon == pytest.approx(0.494, abs=1e-3)
    wrong = 2 * amplify_epsilon(1.0, 0.1)
    assert wrong == pytest.approx(0.317, abs=1e-3)


def test_an_amplified_loss_cannot_be_composed_or_amplified_again():
    amplified = bayesian_confidentiality(PrivacyLoss(1.0, 1e-6), gamma(0.1), delta2(0.0))
    with pytest.raises(TypeError, match="compose first"):
        compose([amplified, amplified])
    with pytest.raises(TypeError, match="compose first"):
        bayesian_confidentiality(amplified, gamma(0.1), delta2(0.0))
    with pytest.raises(TypeError, match="compose first"):
        group_confidentiality(amplified, 2)


def test_group_confidentiality_counts_the_missed_secrets():
    total = PrivacyLoss(0.5, 1e-6)
    # 20 secrets of which a share of 0.1 is missed: 2, and not the 18 that are detected.
    missed = num_missed_of_group(20, gamma(0.1))
    assert missed == 2
    found = group_confidentiality(total, missed)
    assert found.epsilon == pytest.approx(1.0)
    assert found.delta == pytest.approx(2 * math.exp(1.0) * 1e-6)
    # The sum in the proof of Proposition 5 is below its closed form.
    assert found.delta >= sum(math.exp(0.5 * i) * 1e-6 for i in range(2))


@pytest.mark.parametrize(
    ("size", "share", "expected"),
    [(10, 0.11, 2), (10, 0.1, 1), (30, 0.1, 3), (10, 0.0, 0), (10, 1.0, 10), (1, 1e-6, 1), (10, 1e-12, 1), (0, 0.5, 0)],
)
def test_missed_secrets_of_a_group_are_rounded_up(size, share, expected):
    assert num_missed_of_group(size, gamma(share)) == min(expected, size)


def test_without_a_measured_gamma_every_secret_counts_as_missed():
    assert num_missed_of_group(7, None) == 7


@pytest.mark.parametrize("num_missed", [-1, 0.5, True])
def test_a_missed_count_is_a_whole_number(num_missed):
    with pytest.raises(ValueError, match="whole number"):
        group_confidentiality(PrivacyLoss(1.0, 1e-6), num_missed)


def test_a_group_without_misses_costs_nothing_and_a_large_one_is_vacuous():
    total = PrivacyLoss(3.0, 1e-5)
    assert group_confidentiality(total, 0) == AmplifiedLoss(epsilon=0.0, delta=0.0, unamplified=total)
    assert group_confidentiality(total, 10).is_vacuous
    assert group_confidentiality(total, 10_000).delta == math.inf
    assert not group_confidentiality(total, 2).is_vacuous
    assert group_confidentiality(PrivacyLoss(3.0, 0.0), 10_000).delta == 0.0


def test_group_loss_of_one_record_is_its_own():
    assert group_loss(PrivacyLoss(1.0, 1e-6), 1) == PrivacyLoss(1.0, 1e-6)
    three = group_loss(PrivacyLoss(1.0, 1e-6), 3)
    assert three.epsilon == 3.0
    assert three.delta == pytest.approx(3 * math.exp(3) * 1e-6)
    with pytest.raises(ValueError, match="at least 1"):
        group_loss(PrivacyLoss(1.0, 1e-6), 0)


@settings(deadline=None, max_examples=200)
@given(st.floats(1e-6, 50), st.floats(1e-4, 1))
def test_amplification_helps_and_inverts(total, rate):
    amplified = amplify_epsilon(total, rate)
    assert 0 <= amplified <= total * (1 + 1e-12)
    assert amplified >= math.log1p(rate * total) * (1 - 1e-9)
    assert math.log1p(math.expm1(amplified) / rate) == pytest.approx(total, rel=1e-6)


def test_amplification_at_its_ends():
    assert amplify_epsilon(5.0, 0.0) == 0.0
    assert amplify_epsilon(math.inf, 0.0) == 0.0
    assert amplify_epsilon(5.0, 1.0) == pytest.approx(5.0, rel=1e-15)
    assert amplify_epsilon(1e4, 0.1) == pytest.approx(1e4 + math.log(0.1))
    assert amplify_epsilon(math.inf, 0.1) == math.inf
    for rate in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="rate"):
            amplify_epsilon(1.0, rate)


@pytest.mark.slow
def test_light_noise_is_never_a_guarantee():
    m = MissRate(value=0.005, upper=0.01, confidence=0.95)
    event = dp_sgd(noise_multiplier=0.8, sample_rate=0.1, num_steps=50)
    light = jft_light_noise(event, 1e-5, m, NeighboringRelation.ADD_OR_REMOVE_ONE)
    assert not light.is_guarantee
    assert light.epsilon == epsilon(
        dp_sgd(noise_multiplier=0.8, sample_rate=1e-3, num_steps=50), 1e-5, NeighboringRelation.ADD_OR_REMOVE_ONE
    )
    # The share of missed tokens makes a large epsilon look harmless.
    assert light.unamplified.epsilon > 5
    assert light.epsilon < 1
    assert not jft_amplified(PrivacyLoss(1.0, 1e-5), m).is_guarantee


def test_light_noise_needs_a_rate_to_scale():
    m = MissRate(value=0.005, upper=0.01, confidence=0.95)
    with pytest.raises(UnsupportedEventError):
        jft_light_noise(Gaussian(noise_multiplier=1.0), 1e-5, m, NeighboringRelation.REPLACE_ONE)
