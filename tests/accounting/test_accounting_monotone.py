"""What more noise, more steps, a larger rate, composition and redaction must do to an epsilon, whatever the numbers."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pipelines.accounting.accountants import (
    gdp_clt_epsilon,
    pld_epsilon,
    pld_lower_epsilon,
    rdp_epsilon,
)
from pipelines.accounting.confidentiality import (
    PrivacyLoss,
    amplify_epsilon,
    bayesian_confidentiality,
    compose,
    group_confidentiality,
)
from pipelines.accounting.events import (
    Composed,
    Gaussian,
    NeighboringRelation,
    NoEvent,
    NonPrivate,
    SelfComposed,
    dp_sgd,
)
from pipelines.miss_rate.rates import Delta2, FalseNegativeRate

ADD, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
GRID = 5e-3
MU = "uniform over the secrets of a test"
noises = st.floats(0.9, 5.0)
rates = st.floats(0.001, 1.0)
counts = st.integers(1, 30)
relations = st.sampled_from([ADD, REPLACE])
few = settings(deadline=None, max_examples=8)


def pld(noise, rate, steps, relation, delta=1e-5):
    return pld_epsilon(dp_sgd(noise_multiplier=noise, sample_rate=rate, num_steps=steps), delta, relation, GRID)


@few
@given(noises, rates, counts, relations, st.floats(1.05, 2.0))
def test_epsilon_falls_with_noise(noise, rate, steps, relation, factor):
    assert pld(noise * factor, rate, steps, relation) <= pld(noise, rate, steps, relation) + 1e-9


@few
@given(noises, rates, counts, relations, st.integers(1, 30))
def test_epsilon_rises_with_steps(noise, rate, steps, relation, more):
    assert pld(noise, rate, steps + more, relation) >= pld(noise, rate, steps, relation) - 1e-9


@few
@given(noises, rates, counts, relations, st.floats(0.05, 0.95))
def test_epsilon_rises_with_the_rate(noise, rate, steps, relation, share):
    assert pld(noise, rate, steps, relation) >= pld(noise, rate * share, steps, relation) - 1e-9


@few
@given(noises, rates, counts, st.floats(1e-8, 1e-3), st.floats(1.5, 100.0))
def test_epsilon_falls_with_delta_and_replacement_costs_more(noise, rate, steps, delta, factor):
    assert pld(noise, rate, steps, ADD, delta * factor) <= pld(noise, rate, steps, ADD, delta) + 1e-9
    assert pld(noise, rate, steps, REPLACE, delta) >= pld(noise, rate, steps, ADD, delta) - 1e-9


@few
@given(noises, rates, counts, counts)
def test_composing_events_beats_adding_epsilons_up(noise, rate, first, second):
    parts = [dp_sgd(noise_multiplier=noise, sample_rate=rate, num_steps=n) for n in (first, second)]
    together = pld_epsilon(Composed(events=tuple(parts)), 2e-5, ADD, GRID)
    alone = [pld_epsilon(part, 1e-5, ADD, GRID) for part in parts]
    assert max(pld_epsilon(part, 2e-5, ADD, GRID) for part in parts) <= together + 1e-9
    assert together <= compose([PrivacyLoss(eps, 1e-5) for eps in alone]).epsilon + 1e-9


@few
@given(noises, st.floats(0.01, 0.3), counts)
def test_rdp_lies_above_pld_and_the_gaussian_limit_rises_with_steps(noise, rate, steps):
    event = dp_sgd(noise_multiplier=noise, sample_rate=rate, num_steps=steps)
    found = rdp_epsilon(event, 1e-5, ADD)
    assert found is not None
    assert found >= pld_lower_epsilon(event, 1e-5, ADD, pld_epsilon(event, 1e-5, ADD, GRID)) - 1e-9
    more = dp_sgd(noise_multiplier=noise, sample_rate=rate, num_steps=steps + 10)
    assert gdp_clt_epsilon(more, 1e-5, ADD) >= gdp_clt_epsilon(event, 1e-5, ADD)


@few
@given(noises, rates, counts, relations, st.sampled_from([1e-3, 1e-5, 1e-8]))
def test_lower_and_upper_bound_close_in_on_the_truth(noise, rate, steps, relation, delta):
    event = dp_sgd(noise_multiplier=noise, sample_rate=rate, num_steps=steps)
    upper = pld_epsilon(event, delta, relation, GRID)
    lower = pld_lower_epsilon(event, delta, relation, upper)
    assert lower <= upper
    assume(upper > 0.1)
    assert lower > 0.95 * upper


@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize("noise", [2.0, 30.0])
def test_the_lower_bound_of_a_gaussian_is_below_its_closed_form(noise, relation):
    from pipelines.accounting.accountants import gdp_epsilon

    event = SelfComposed(count=4, event=Gaussian(noise_multiplier=noise))
    exact = gdp_epsilon((2 if relation is REPLACE else 1) * 2 / noise, 1e-5)
    lower = pld_lower_epsilon(event, 1e-5, relation)
    assert lower <= exact  # a bound that rounded up would exceed it
    assert lower == pytest.approx(exact, rel=4e-3)


def test_the_lower_bound_says_nothing_where_it_cannot():
    event = dp_sgd(noise_multiplier=1.0, sample_rate=0.1, num_steps=10)
    assert pld_lower_epsilon(event, 1e-13, ADD) is None
    hardly_any = dp_sgd(noise_multiplier=0.01, sample_rate=0.1, num_steps=100_000)
    assert pld_lower_epsilon(hardly_any, 1e-5, ADD) is None
    assert pld_lower_epsilon(NoEvent(), 1e-5, ADD) == 0
    assert pld_lower_epsilon(NonPrivate(), 1e-5, ADD) == math.inf


@settings(deadline=None, max_examples=100)
@given(st.floats(0, 30), st.floats(0, 1e-3), st.floats(0, 1), st.floats(0, 1))
def test_redaction_never_costs_and_a_worse_policy_never_helps(eps, delta, one, other):
    total, (better, worse) = PrivacyLoss(eps, delta), sorted((one, other))
    found = [
        bayesian_confidentiality(total, FalseNegativeRate(value=g, upper=g, confidence=1.0, mu=MU), Delta2.zero(MU))
        for g in (better, worse)
    ]
    assert found[0].epsilon <= found[1].epsilon <= eps * (1 + 1e-12)
    assert found[0].delta <= found[1].delta <= delta


@settings(deadline=None, max_examples=100)
@given(st.floats(0.01, 5), st.floats(0.01, 0.99), st.integers(2, 20))
def test_amplifying_every_night_promises_more_than_amplifying_once(eps, gamma, nights):
    """Why the total is amplified once: the other order is below it, for every rate."""
    assert nights * amplify_epsilon(eps, gamma) < amplify_epsilon(nights * eps, gamma)


@settings(deadline=None, max_examples=50)
@given(st.floats(0, 2), st.floats(0, 1e-6), st.integers(0, 8))
def test_a_larger_group_costs_more(eps, delta, size):
    total = PrivacyLoss(eps, delta)
    small, large = group_confidentiality(total, size), group_confidentiality(total, size + 1)
    assert small.epsilon <= large.epsilon
    assert small.delta <= large.delta


def test_queries_of_one_sampled_step_are_counted_together():
    """Design, "Training methods": noise 1, rate 0.01, 1,000 steps, delta 1e-5, one record replaced."""
    for num_queries, expected in ((1, 2.84), (2, 5.62), (4, 15.2), (8, 45.3)):
        event = dp_sgd(noise_multiplier=1 / math.sqrt(num_queries), sample_rate=0.01, num_steps=1000)
        assert pld_epsilon(event, 1e-5, REPLACE, 2e-3) == pytest.approx(expected, rel=1e-2)


def test_separately_sampled_queries_would_promise_too_much():
    """Taking the K queries of one sample for K samples of their own is what the paper's repository does."""
    honest = dp_sgd(noise_multiplier=1 / math.sqrt(8), sample_rate=0.01, num_steps=1000)
    naive = dp_sgd(noise_multiplier=1.0, sample_rate=0.01, num_steps=8000)
    assert pld_epsilon(naive, 1e-5, REPLACE, 2e-3) < 0.5 * 45.3 < pld_epsilon(honest, 1e-5, REPLACE, 2e-3)
