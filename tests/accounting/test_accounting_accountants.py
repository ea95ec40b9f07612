"""Epsilons against closed forms, published figures and each other."""

from __future__ import annotations

import math

import pytest
from dp_accounting import pld
from scipy.stats import norm
from support.imports import loaded_after

from pipelines.accounting.accountants import (
    all_epsilons,
    epsilon,
    epsilon_at_most,
    gdp_clt_epsilon,
    gdp_epsilon,
    pld_epsilon,
    rdp_epsilon,
    to_dp_event,
    to_dp_relation,
)
from pipelines.accounting.events import (
    Composed,
    Event,
    Gaussian,
    NeighboringRelation,
    NoEvent,
    NonPrivate,
    PoissonSampled,
    SelfComposed,
    UnsupportedEventError,
    dp_sgd,
)

ADD, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
STEPS = dp_sgd(noise_multiplier=1.0, sample_rate=0.01, num_steps=1000)


@pytest.mark.slow
def test_replacement_costs_more_than_addition():
    # The relation of confidentiality is replacement: the clipped sum moves by up to twice the norm.
    assert epsilon(STEPS, 1e-5, REPLACE) == pytest.approx(2.843, abs=1e-3)
    assert epsilon(STEPS, 1e-5, ADD) == pytest.approx(1.828, abs=1e-3)
    assert epsilon(STEPS, 1e-5) == epsilon(STEPS, 1e-5, REPLACE)


@pytest.mark.parametrize(("relation", "reach"), [(ADD, 1), (REPLACE, 2)])
@pytest.mark.parametrize("noise", [2.0, 30.0])
def test_the_gaussian_mechanism_agrees_with_its_closed_form(relation, reach, noise):
    # delta(eps) = Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2), mu = sensitivity / noise (Balle and Wang 2018).
    found, mu = epsilon(Gaussian(noise_multiplier=noise), 1e-5, relation), reach / noise
    delta = norm.cdf(-found / mu + mu / 2) - math.exp(found) * norm.cdf(-found / mu - mu / 2)
    assert delta == pytest.approx(1e-5, rel=5e-3)
    assert delta <= 1e-5 * (1 + 1e-6)


def test_sampling_every_record_is_no_sampling():
    everyone = PoissonSampled(sample_rate=1.0, event=Gaussian(noise_multiplier=3.0))
    assert epsilon(everyone, 1e-5) == epsilon(Gaussian(noise_multiplier=3.0), 1e-5)


def test_composition_counts_every_part():
    night = dp_sgd(noise_multiplier=1.5, sample_rate=0.02, num_steps=200)
    both = Composed(events=(night, night))
    assert epsilon(both, 1e-5) == pytest.approx(epsilon(SelfComposed(count=2, event=night), 1e-5), rel=1e-6)
    assert epsilon(both, 1e-5) > epsilon(night, 1e-5)


def test_nothing_private_costs_nothing_and_no_noise_costs_everything():
    assert epsilon(NoEvent(), 1e-5) == 0
    assert epsilon(NonPrivate(), 1e-5) == math.inf
    assert epsilon(dp_sgd(noise_multiplier=0.0, sample_rate=0.1, num_steps=1), 1e-5) == math.inf
    for figure in all_epsilons(NonPrivate(), 1e-5, ADD):
        assert figure.epsilon == math.inf


@pytest.mark.slow
def test_epsilon_is_an_upper_bound_at_any_grid():
    steps = dp_sgd(noise_multiplier=4.0, sample_rate=0.1, num_steps=100)
    finest = pld_epsilon(steps, 1e-5, REPLACE, 1e-5)
    for interval in (1e-4, 1e-3, 1e-2):
        assert pld_epsilon(steps, 1e-5, REPLACE, interval) >= finest - 1e-6


def test_a_tiny_epsilon_is_not_swamped_by_rounding():
    # 10,000 steps at a rate of 1/2 and noise 45,000 are close to a Gaussian of mu = 2 q sqrt(T) / noise.
    event = dp_sgd(noise_multiplier=45_000, sample_rate=0.5, num_steps=10_000)
    found = epsilon(event, 1e-8, REPLACE)
    assert found == pytest.approx(gdp_epsilon(2 * 0.5 * 100 / 45_000, 1e-8), rel=0.02)


def test_hardly_any_noise_gets_a_bound_instead_of_exhausting_memory():
    event = dp_sgd(noise_multiplier=0.01, sample_rate=0.1, num_steps=100_000)
    assert 1e6 < epsilon(event, 1e-5, REPLACE) < math.inf


@pytest.mark.parametrize(("num_steps", "mu", "delta"), [(1000, 0.3, 1e-12), (10_000, 0.3, 1e-11), (10_000, 0.3, 1e-13)])
def test_a_delta_within_the_rounding_of_the_transform_gets_the_bound_in_closed_form(num_steps, mu, delta):
    """The tables of dp-accounting may give too little there. Steps that sample nearly always are Gaussian ones."""
    noise = 2 * math.sqrt(num_steps) / mu
    event = dp_sgd(noise_multiplier=noise, sample_rate=1 - 1e-10, num_steps=num_steps)
    accountant = pld.PLDAccountant(to_dp_relation(REPLACE), value_discretization_interval=1e-4)
    accountant.compose(to_dp_event(event))
    rounding = accountant.get_epsilon(delta) / gdp_epsilon(mu, delta) - 1  # its sign depends on the processor
    assert abs(rounding) > 1e-6
    assert epsilon(event, delta, REPLACE) >= gdp_epsilon(mu, delta) * (1 - 1e-9)


def test_rdp_gives_no_figure_where_its_theorem_does_not_reach():
    assert rdp_epsilon(STEPS, 1e-5, REPLACE) is None
    assert rdp_epsilon(STEPS, 1e-5, ADD) == pytest.approx(2.10137, abs=1e-4)
    gaussian = Gaussian(noise_multiplier=2.0)
    assert rdp_epsilon(gaussian, 1e-5, REPLACE) >= epsilon(gaussian, 1e-5, REPLACE)


def test_the_gaussian_limit_is_marked_as_no_bound():
    figures = {f.accountant: f for f in all_epsilons(STEPS, 1e-5, ADD)}
    assert figures["pld"].is_bound
    assert figures["rdp"].is_bound
    assert not figures["gdp_clt"].is_bound
    assert "asymptotic" in figures["gdp_clt"].note
    assert figures["gdp_clt"].epsilon < figures["pld"].epsilon  # why it must never be claimed
    assert gdp_clt_epsilon(STEPS, 1e-5, REPLACE) is None


def test_gdp_closed_form():
    assert gdp_epsilon(0.0, 1e-5) == 0
    assert gdp_epsilon(1.0, 1e-5) == pytest.approx(4.377, abs=1e-3)
    assert gdp_epsilon(1.0, 0.9) == 0
    large = gdp_epsilon(1000.0, 1e-5)
    assert large == pytest.approx(500_000 + 1000 * norm.isf(1e-5), rel=1e-3)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, math.nan])
def test_deltas_out_of_range_are_refused(delta):
    with pytest.raises(ValueError, match="delta"):
        epsilon(STEPS, delta)


def test_unknown_events_and_relations_are_refused():
    with pytest.raises(UnsupportedEventError):
        epsilon(object(), 1e-5)
    with pytest.raises(ValueError):
        epsilon(STEPS, 1e-5, "nearby")


@pytest.mark.slow
def test_accounting_imports_no_torch():
    loaded = loaded_after(
        "import pipelines.accounting.claims, pipelines.accounting.calibration, pipelines.settings.guarantee"
    )
    assert not {"torch", "transformers", "prefect"} & loaded


@pytest.mark.parametrize(
    "event",
    [
        NoEvent(),
        NonPrivate(),
        dp_sgd(noise_multiplier=1.0, sample_rate=0.1, num_steps=10),
        pytest.param(dp_sgd(noise_multiplier=0.8, sample_rate=0.03, num_steps=240), marks=pytest.mark.slow),
        dp_sgd(noise_multiplier=0.05, sample_rate=0.5, num_steps=5),
        SelfComposed(count=20, event=Gaussian(noise_multiplier=12.0)),
    ],
)
def test_the_quick_figure_is_a_bound_too(event: Event) -> None:
    exact, quick = epsilon(event, 1e-5), epsilon_at_most(event, 1e-5)
    assert quick >= exact
    if 1 < exact < 100:
        assert quick < 1.01 * exact


@pytest.mark.slow
def test_hardly_any_noise_is_no_crash():
    """Guards the guarantee stage against a math range error in the lower bound."""
    step = PoissonSampled(sample_rate=1.0, event=Gaussian(noise_multiplier=0.01))
    figures = all_epsilons(Composed(events=(step, step)), 1e-6, NeighboringRelation.ADD_OR_REMOVE_ONE)
    assert max(f.epsilon for f in figures if f.epsilon is not None) > 1000
