"""`reticent privacy`: the documents, their texts, and errors that name the option."""

from __future__ import annotations

import json
import math
import sys

import pytest
from support import run_command
from support.imports import loaded_after

from flows.commands.privacy import (
    amplify_document,
    amplify_text,
    calibrate_document,
    confidentiality_document,
    confidentiality_text,
    epsilon_document,
    epsilon_text,
)

STEPS = {"sample_rate": 0.01, "noise_multiplier": 1.0, "steps": 1000, "delta": 1e-5, "relation": "add_or_remove_one"}
TARGET = {"target_epsilon": 3.0, "target_delta": 1e-5, "sample_rate": 0.5, "steps": 20}
ADD = {"relation": "add_or_remove_one", "accountant": "pld"}


def reticent(*arguments):
    return run_command([sys.executable, "-m", "flows.cli", "privacy", *arguments])


@pytest.mark.slow
def test_epsilon_by_every_accountant_on_the_command_line():
    ran = reticent(
        *("epsilon", "--sample-rate", "0.01", "--noise-multiplier", "1", "--steps", "1000", "--delta", "1e-5", "--json")
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout.splitlines()[-1])
    assert found["schema_version"] == 1
    assert found["pld"] == pytest.approx(1.8282436, rel=1e-3)
    assert found["rdp"] == pytest.approx(2.1013665, rel=1e-3)
    assert found["gdp_clt"] == pytest.approx(1.6177118, rel=1e-6)
    assert 0.99 * found["pld"] < found["pld_lower"] < found["pld"]
    assert found["relation"] == "add_or_remove_one"


@pytest.mark.slow
def test_replacement_leaves_null_where_an_accountant_cannot():
    found = epsilon_document(**{**STEPS, "relation": "replace_one"})
    assert found["pld"] == pytest.approx(2.843, abs=1e-3)
    assert found["rdp"] is None
    assert found["gdp_clt"] is None
    assert "does not cover" in found["notes"]["rdp"]


def test_the_text_states_relation_assumptions_and_what_is_no_bound():
    text = epsilon_text(epsilon_document(**STEPS))
    for needed in ("add_or_remove_one", "--relation replace_one", "Poisson sampling", "asymptotic", "lower bound"):
        assert needed in text, needed


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"delta": 1.0}, "--delta"),
        ({"delta": 0.0}, "--delta"),
        ({"delta": math.nan}, "--delta"),
        ({"noise_multiplier": -1.0}, "--noise-multiplier"),
        ({"noise_multiplier": 0.0}, "infinite"),
        ({"sample_rate": 0.0}, "--sample-rate"),
        ({"sample_rate": 1.01}, "--sample-rate"),
        ({"steps": 0}, "--steps"),
        ({"relation": "next_door"}, "replace_one"),
    ],
)
def test_numbers_out_of_range_are_named(changed, named):
    from pipelines.errors import ConfigError

    with pytest.raises(ConfigError, match=named):
        epsilon_document(**{**STEPS, **changed})


@pytest.mark.parametrize(
    "arguments",
    [
        ("epsilon", "--sample-rate", "2", "--noise-multiplier", "1", "--steps", "9", "--delta", "1e-5"),
        ("epsilon", "--sample-rate", "0.1", "--noise-multiplier", "-1", "--steps", "9", "--delta", "1e-5"),
        ("confidentiality", "--epsilon", "1", "--delta", "1", "--gamma", "0.1"),
        ("amplify", "--epsilon", "1", "--delta", "1e-5"),
    ],
)
def test_usage_errors_exit_2_with_the_option(arguments):
    ran = reticent(*arguments)
    assert ran.returncode == 2
    assert "--" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.slow
def test_calibration_by_pld_and_by_rdp():
    found = calibrate_document(**TARGET, relation="add_or_remove_one", accountant="pld")
    by_rdp = calibrate_document(**TARGET, relation="add_or_remove_one", accountant="rdp")
    assert (found["accountant"], by_rdp["accountant"]) == ("pld", "rdp")
    assert by_rdp["noise_multiplier"] > found["noise_multiplier"]
    again = epsilon_document(
        sample_rate=0.5, noise_multiplier=found["noise_multiplier"], steps=20, delta=1e-5, relation="add_or_remove_one"
    )
    assert 0.999 * 3 < again["pld"] <= 3


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"accountant": "gdp_clt"}, "no bound"),
        ({"accountant": "rdp", "relation": "replace_one"}, "rdp does not cover"),
        ({"target_epsilon": 0.0}, "--target-epsilon"),
        ({"target_delta": 1.0}, "--target-delta"),
    ],
)
def test_what_cannot_be_calibrated_is_refused(changed, named):
    from pipelines.errors import ConfigError

    with pytest.raises(ConfigError, match=named):
        calibrate_document(**{**TARGET, **ADD, **changed})


def test_confidentiality_is_theorem_8():
    found = confidentiality_document(epsilon=1.0, delta=1e-5, gamma=0.1, delta2=0.0, group_size=20)
    assert found["bayesian"]["epsilon"] == pytest.approx(0.1585650787404291, rel=1e-9)
    assert found["bayesian"]["delta"] == pytest.approx(1e-6)
    assert found["bayesian"]["is_guarantee"]
    assert found["missed_secret"]["epsilon"] == 1.0
    assert found["masked_secret"]["epsilon"] == 0.0
    assert found["group"]["num_missed"] == 2
    assert found["group"]["delta"] == pytest.approx(2 * math.exp(2) * 1e-5)
    assert not found["group"]["is_guarantee"]  # the average share is not the group's own
    assert "compose first" in confidentiality_text(found)


def test_confidentiality_with_escapes_promises_no_single_secret_anything():
    found = confidentiality_document(epsilon=1.0, delta=1e-5, gamma=0.1, delta2=1e-6, group_size=None)
    assert found["bayesian"]["delta"] == pytest.approx(2e-6)
    assert found["bayesian"]["is_guarantee"]
    assert not found["missed_secret"]["is_guarantee"]
    refused = confidentiality_document(epsilon=1.0, delta=1e-5, gamma=0.1, delta2=1e-3, group_size=None)
    assert not refused["bayesian"]["is_guarantee"]
    assert "Theorem 8 is refused" in refused["bayesian"]["not_guaranteed_because"][0]
    assert "no guarantee" in confidentiality_text(refused)


def test_amplify_is_an_estimate_with_the_sound_form_beside_it():
    found = amplify_document(epsilon=3.0, delta=8e-5, miss_rate=0.003, gamma=0.04)
    assert found["epsilon"] == pytest.approx(0.05567745014785054, rel=1e-9)
    assert found["delta"] == pytest.approx(2.4e-7)
    assert found["is_guarantee"] is False
    assert found["bayesian"]["epsilon"] == pytest.approx(math.log(1 + 0.04 * math.expm1(3.0)))
    assert found["bayesian"]["epsilon"] > 10 * found["epsilon"]
    assert amplify_text(found).startswith("ESTIMATE, no guarantee")
    without = amplify_document(epsilon=3.0, delta=8e-5, miss_rate=0.003, gamma=None)
    assert without["bayesian"] is None
    assert "--gamma" in amplify_text(without)


def test_privacy_needs_neither_torch_nor_prefect_and_closed_forms_no_accountant():
    closed_forms = (
        "import flows.cli, flows.commands.privacy as p;"
        "p.confidentiality_document(epsilon=1.0, delta=1e-5, gamma=0.1, delta2=0.0, group_size=2);"
        "p.amplify_document(epsilon=1.0, delta=1e-5, miss_rate=0.1, gamma=0.1)"
    )
    assert not {"torch", "prefect", "spacy", "dp_accounting", "scipy", "numpy"} & loaded_after(closed_forms)
    composed = (
        "import flows.commands.privacy as p;"
        "p.epsilon_document(sample_rate=0.5, noise_multiplier=9.0, steps=2, delta=1e-5, relation='replace_one')"
    )
    assert not {"torch", "prefect", "spacy"} & loaded_after(composed)
