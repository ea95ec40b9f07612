"""Epsilons, noise multipliers and closed forms against figures from independent libraries and published code.

The whole table lies beside this file, so every row is tested everywhere, those that take longest as slow tests; its
`provenance` fields say where it is from.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.accounting.accountants import all_epsilons, epsilon, pld_epsilon
from pipelines.accounting.calibration import calibrate_noise_multiplier
from pipelines.accounting.confidentiality import PrivacyLoss, amplify_epsilon, jft_amplified
from pipelines.accounting.events import NeighboringRelation, dp_sgd
from pipelines.miss_rate.rates import MissRate

ORACLES = json.loads((Path(__file__).parent / "privacy_oracles.json").read_text())
ADD = NeighboringRelation.ADD_OR_REMOVE_ONE
EPSILONS = ORACLES["eps_table"]["rows"]
TARGETS = ORACLES["sigma_for_target"]["rows"]


QUICK = {
    "q0.02-sigma2-T2000", "q0.1-sigma3-T300", "jft_seed_wikitext2_phase2", "jft_seed_wikitext2_light_noise",
}  # fmt: skip

_COARSE_GRID_ROW = "jft_seed_wikitext2_light_noise"
"""The one row where our noise is lower by more than 1e-3: see `test_a_coarse_grid_explains_the_small_target`."""


def by_pld(rows):
    """Every row, with its name; those that take long to convolve are slow."""
    for row in rows:
        name = row.get("name") or f"q{row['q']:.3g}-sigma{row['sigma']:g}-T{row['steps']}"
        yield pytest.param(row, id=name, marks=() if name in QUICK else pytest.mark.slow)


def event_of(row, noise=None):
    return dp_sgd(noise_multiplier=noise or row["sigma"], sample_rate=row["q"], num_steps=row["steps"])


def noise_of(row, accountant):
    return calibrate_noise_multiplier(
        target_epsilon=row["target_eps"],
        target_delta=row["delta"],
        sample_rate=row["q"],
        num_steps=row["steps"],
        relation="add_or_remove_one",
        accountant=accountant,
    )


@pytest.mark.parametrize("row", by_pld(EPSILONS))
def test_epsilons(row):
    found = {f.accountant: f.epsilon for f in all_epsilons(event_of(row), row["delta"], ADD)}
    assert found["pld"] == pytest.approx(row["pld_dpacc_add_or_remove"], rel=1e-3)
    assert found["rdp"] == pytest.approx(row["rdp_dpacc"], rel=1e-3)
    assert found["gdp_clt"] == pytest.approx(row["gdp_clt"], rel=1e-6)
    assert found["gdp_clt"] == pytest.approx(row["opacus_gdp"], rel=1e-3)
    low, estimate, high = row["prv_lo_est_up"]  # another accountant's certified bracket
    assert low < found["pld"] < high
    assert found["pld"] == pytest.approx(estimate, rel=1e-3)
    assert found["pld"] < row["opacus_prv"] * (1 + 1e-3)
    # The lower bound lies below the other accountant's upper one, and close to ours.
    assert 0.995 * found["pld"] < found["pld_lower"] <= found["pld"]
    assert found["pld_lower"] < high


@pytest.mark.parametrize("row", by_pld(TARGETS))
def test_noise_for_a_target_by_pld(row):
    found = noise_of(row, "pld")
    assert epsilon(event_of(row, found), row["delta"], ADD) <= row["target_eps"]
    tolerance = 6e-3 if row["name"] == _COARSE_GRID_ROW else 1e-3
    assert found == pytest.approx(row["sigma_pld"], rel=tolerance)
    assert found <= row["sigma_pld"] * (1 + 1e-3)
    assert found < row["sigma_opacus_prv"]


@pytest.mark.parametrize("row", TARGETS, ids=lambda row: row["name"])
def test_noise_for_a_target_by_rdp(row):
    found = noise_of(row, "rdp")
    assert found == pytest.approx(row["sigma_rdp"], rel=1e-3)
    assert found == pytest.approx(row["sigma_opacus_rdp"], rel=1e-2)  # its tolerance is 0.01 in epsilon


def test_a_coarse_grid_explains_the_small_target():
    """That table's noise is exact on a grid of 1e-3; a finer one shows a lower epsilon at it, so less noise will do."""
    (row,) = [row for row in TARGETS if row["name"] == _COARSE_GRID_ROW]
    theirs = event_of(row, row["sigma_pld"])
    assert pld_epsilon(theirs, row["delta"], ADD, 1e-3) == pytest.approx(row["target_eps"], rel=2e-4)
    assert epsilon(theirs, row["delta"], ADD) == pytest.approx(0.4974, abs=5e-4)


def test_amplification_of_the_whole_tables():
    for row in ORACLES["crt_theorem8"]["closed_form"]:
        assert amplify_epsilon(row["eps_prime"], row["gamma"]) == pytest.approx(row["eps_conf"], rel=1e-9)
    table = ORACLES["amplification_jft_missing_rate"]
    for row in table["forward"]:
        assert amplify_epsilon(row["eps0"], row["m"]) == pytest.approx(row["eps_amplified"], rel=1e-9)
        m = MissRate(value=row["m"], upper=row["m"], confidence=1.0)
        found = jft_amplified(PrivacyLoss(row["eps0"], row["delta0"]), m)
        assert found.delta == pytest.approx(row["delta_amplified"], rel=1e-9)
        assert not found.is_guarantee
    for row in table["inverse_base_eps"]:
        assert amplify_epsilon(row["eps0"], row["m"]) == pytest.approx(row["target"], rel=1e-9)


@pytest.mark.parametrize("accountant", [pytest.param("pld", marks=pytest.mark.slow), "rdp"])
def test_the_worked_case_of_the_crt_notebook(accountant):
    """Epsilon is taken at delta / gamma, so that the amplified statement has the delta asked for."""
    case = ORACLES["crt_theorem8"]["notebook_case"]
    row = {"q": case["batch"] / case["n"], "delta": case["dpsgd_delta"], "target_eps": case["dpsgd_eps"]}
    row["steps"] = round(case["epochs"] / row["q"])
    noise = noise_of(row, accountant)
    assert noise == pytest.approx(case[f"dpacc_{accountant}_sigma"], rel=1e-3)
    figures = all_epsilons(event_of(row, noise), row["delta"] / case["gamma"], ADD)
    (found,) = [f.epsilon for f in figures if f.accountant == accountant]
    assert found == pytest.approx(case[f"dpacc_{accountant}_eps_at_delta_over_gamma"], rel=1e-3)
    assert amplify_epsilon(found, case["gamma"]) == pytest.approx(case[f"dpacc_{accountant}_conf_eps"], rel=1e-3)
    if accountant == "rdp":
        assert amplify_epsilon(found, case["gamma"]) == pytest.approx(case["notebook_output_eps"], rel=1e-3)
        assert found == pytest.approx(case["autodp_eps_1e-4"], rel=3e-3)
