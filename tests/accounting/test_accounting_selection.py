"""Choosing the best of several trainings: the theorem against exact laws, and what claims say of a choice."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace

import dp_accounting
import pytest
from dp_accounting.rdp import RdpAccountant
from test_accounting_releases import build, release, training
from typer.testing import CliRunner

from flows.arguments import app
from pipelines.accounting.claims import Review, build_claims
from pipelines.accounting.facts import CorpusFacts
from pipelines.accounting.selection import (
    dp_sgd_rdp,
    epsilon_of_rdp,
    gamma_of,
    mean_number,
    selected_epsilon,
    selected_rdp,
)
from pipelines.errors import ConfigError

LAWS = [(0.5, 0.3, 0.2), (0.3, 0.4, 0.3)], [(0.9, 0.09, 0.01), (0.8, 0.1, 0.1)], [(0.73, 0.27), (0.27, 0.73)]
"""Two worlds each: how likely a run is to give out the worst, …, the best result."""


def divergence(one: tuple[float, ...], two: tuple[float, ...], order: float) -> float:
    return math.log(math.fsum(p**order * q ** (1 - order) for p, q in zip(one, two, strict=True))) / (order - 1)


def number_law(eta: float, gamma: float) -> list[float]:
    """P(K = k), k = 1, 2, …: Papernot and Steinke 2022, Definition 1, by its ratio of one to the next."""
    law = [(1 - gamma) / math.log(1 / gamma) if eta == 0 else eta * (1 - gamma) / (gamma**-eta - 1)]
    for k in range(1, 4000):
        law.append(law[-1] * (1 - gamma) * (k + eta) / (k + 1))
    return law


def best_of(law: tuple[float, ...], numbers: list[float]) -> tuple[float, ...]:
    """The law of the best of K draws, exactly: P(best <= y) = E[F(y)^K]."""
    at_most = [math.fsum(law[: n + 1]) for n in range(len(law))]
    reached = [math.fsum(p * f**k for k, p in enumerate(numbers, 1)) for f in at_most]
    return tuple(b - a for a, b in itertools.pairwise([0.0, *reached]))


@pytest.mark.parametrize("worlds", LAWS)
@pytest.mark.parametrize(("eta", "gamma"), [(0.0, 0.05), (1.0, 0.1), (-0.5, 0.01), (2.0, 0.2)])
def test_the_theorem_bounds_the_exact_divergence_of_the_best(
    worlds: list[tuple[float, ...]], eta: float, gamma: float
) -> None:
    numbers = number_law(eta, gamma)
    assert math.fsum(numbers) == pytest.approx(1)
    assert math.fsum(k * p for k, p in enumerate(numbers, 1)) == pytest.approx(mean_number(eta, gamma))
    for (one, two), order, other in itertools.product((worlds, worlds[::-1]), (1.5, 2.0, 8.0, 50.0), (1.0, 2.0, 16.0)):
        exact = divergence(best_of(one, numbers), best_of(two, numbers), order)
        alone = max(divergence(one, two, order), divergence(two, one, order))
        second = 0.0 if other == 1 else max(divergence(one, two, other), divergence(two, one, other))
        bound = selected_rdp(order, alone, other_order=other, other_rdp=second, eta=eta, gamma=gamma)
        assert exact <= bound


def test_a_bound_without_a_price_for_the_choice_would_be_wrong() -> None:
    """The test above can fail: what one run costs does not bound the best of many."""
    one, two = (0.73, 0.27), (0.27, 0.73)
    numbers = number_law(1.0, 0.1)
    exact = divergence(best_of(one, numbers), best_of(two, numbers), 50.0)
    assert exact > divergence(one, two, 50.0) + math.log(10) / 49 + 0.5
    assert exact <= selected_rdp(50.0, 1.0, other_order=50.0, other_rdp=1.0, eta=1.0, gamma=0.1)


@pytest.mark.parametrize(("noise", "rate", "steps"), [(1.0, 0.01, 1000), (0.7, 0.2, 10), (2.0, 1.0, 5)])
def test_the_divergence_of_dp_sgd_is_that_of_dp_accounting(noise: float, rate: float, steps: int) -> None:
    for order in (2, 5, 32):
        accountant = RdpAccountant([order])
        event = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise))
        accountant.compose(dp_accounting.SelfComposedDpEvent(event, steps))
        own = dp_sgd_rdp(order, noise_multiplier=noise, sample_rate=rate, num_steps=steps)
        assert epsilon_of_rdp(order, own, 1e-5) == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-9)
    with pytest.raises(ValueError, match="order"):
        dp_sgd_rdp(1, noise_multiplier=noise, sample_rate=rate, num_steps=steps)


def test_the_mean_is_met_and_more_candidates_cost_more() -> None:
    for eta, mean in ((0.0, 10.0), (1.0, 10.0), (-0.5, 3.0)):
        assert mean_number(eta, gamma_of(eta, mean)) == pytest.approx(mean)
    assert gamma_of(1.0, 10.0) == pytest.approx(0.1)  # geometric
    mechanism = {"noise_multiplier": 1.0, "sample_rate": 0.01, "num_steps": 1000, "delta": 1e-5}
    ten, alone = selected_epsilon(**mechanism, mean=10)  # type: ignore[arg-type]
    hundred, same = selected_epsilon(**mechanism, mean=100)  # type: ignore[arg-type]
    assert alone == same
    assert alone < ten < hundred < 3 * alone
    with pytest.raises(ValueError, match="more than one"):
        gamma_of(0.0, 1.0)


def test_a_choice_by_private_scores_makes_no_guarantee_and_every_claim_says_so() -> None:
    chosen = replace(training("crt"), is_chosen_by_private_scores=True)
    found = build_claims(chosen, CorpusFacts(dedup_stability=1, dedup_reason="exact."), Review.withheld(), (2,))
    stated = [claim for claim in found["claims"] if claim["refused"] is None]
    assert stated
    for claim in stated:
        assert not claim["is_guarantee"]
        assert any("chosen among others by scores on private text" in why for why in claim["not_guaranteed_because"])
    assert any(claim["is_guarantee"] for claim in build("crt")["claims"])


@pytest.mark.slow
def test_models_of_a_comparison_are_composed_and_the_claim_says_that_it_was_a_choice() -> None:
    compared = [release("crt", number, purpose="comparison") for number in range(2)]
    found = build("crt", [*compared, release("crt", 2)])
    claim = found["claims"][found["headline"]]
    assert claim["together"]["num_releases"] == 4
    assert claim["together"]["epsilon"] > claim["epsilon"]
    for assumptions in (claim["assumptions"], claim["together"]["assumptions"]):
        (said,) = [text for text in assumptions if text.startswith("models that were compared with this one")]
        assert "chosen in its place: 2." in said
        assert "The figures of this model alone do not" in said
    alone = build("crt", [release("crt", 2)])
    assert not any("models that were compared" in text for c in alone["claims"] for text in c["assumptions"])


def test_the_command_prices_a_choice_and_says_what_it_asks() -> None:
    given = ["--sample-rate", "0.01", "--noise-multiplier", "1", "--steps", "1000", "--delta", "1e-5"]
    done = CliRunner().invoke(app, ["privacy", "selection", *given, "--candidates", "10", "--json"])
    assert done.exit_code == 0
    document = json.loads(done.stdout)
    expected, alone = selected_epsilon(noise_multiplier=1, sample_rate=0.01, num_steps=1000, delta=1e-5, mean=10)
    assert (document["epsilon"], document["epsilon_alone"]) == (pytest.approx(expected), pytest.approx(alone))
    text = CliRunner().invoke(app, ["privacy", "selection", *given, "--candidates", "10"]).stdout
    assert "add_or_remove_one" in text
    assert "drawn" in text
    wrong = CliRunner().invoke(app, ["privacy", "selection", *given, "--candidates", "1"])
    assert isinstance(wrong.exception, ConfigError)
