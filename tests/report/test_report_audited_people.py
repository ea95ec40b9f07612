"""What an audit shows of people, by name, in each report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from public_reports import published, said

from pipelines.attacks.engine_power import FEWER_RUNS, NUM_RUNS, NUM_TRIALS, measured_power
from pipelines.report.cards import model_card_sections
from pipelines.report.people import audited_sentences
from pipelines.report.render import render_html
from pipelines.report.sentences import found_by_attacks

LOWER = {"value": 4.0271, "confidence": 0.95, "delta": 1e-5, "ceiling": 5.4278, "relation": "replace_one"}


def audit(unit: str = "record", lower: float = 4.0271, person: float | None = 18.5717) -> dict[str, Any]:
    """An audit with one game on people, and nothing else."""
    whose = "a person" if unit == "person" else "a person with 16 records"
    claims = [
        {"whose": whose, "epsilon": person, "is_exceeded": person is not None and lower > person, "is_of_person": True}
    ]
    if unit == "record":
        claims.insert(0, {"whose": "a record", "epsilon": 0.77992, "is_exceeded": lower > 0.78, "is_of_person": False})
    game = {
        "game": "the steps of dpsgd, each of them seen, on people with 16 records each", "unit": unit,
        "num_people": 1_250, "num_records": 16, "lower": {**LOWER, "value": lower}, "claims": claims,
    }  # fmt: skip
    nothing = dict.fromkeys(("epsilon_lower", "epsilon_claimed", "membership", "exposure", "extraction", "domains"))
    estimate = {
        **LOWER,
        "game": "g",
        "estimator": "f_dp",
        "epsilon_claimed": 1.0,
        "num_trials": 1_000,
        "assumptions": [],
    }
    return {**nothing, "person": [game], "estimates": [estimate], "alarm": False, "p_value": 0.5, "attacked": [],
            "power": None, "not_attacked": {}, "left_open": [], "evidence": []}  # fmt: skip


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (audit(), "So the ε of a record does not cover a person."),
        (audit(lower=0.5), "None of them is exceeded."),
        (audit(person=None), "So the ε of a record does not cover a person."),
        (audit("person", person=0.78), "show this in each game, so only the alarm decides."),
        (audit("person"), "None of them is exceeded."),
    ],
)
def test_a_sentence_names_each_epsilon_and_says_which_is_exceeded(found: dict[str, Any], verdict: str) -> None:
    (sentence,) = audited_sentences(found)
    assert sentence.endswith(verdict)
    for claim in found["person"][0]["claims"]:
        assert f"for {claim['whose']}, {'no useful limit' if claim['epsilon'] is None else 'at most'}" in sentence
    assert sentence in found_by_attacks(found)


def test_a_bound_above_the_epsilon_of_a_person_is_no_alarm() -> None:
    (sentence,) = audited_sentences(audit("person", person=0.78))
    assert (
        "The attacks exceed the ε of a person. Of correct trainings, up to 5\u00a0% show this in each game" in sentence
    )


def test_reports_show_both_figures_by_name(raw: dict[str, Any], make_report: Callable[..., dict[str, Any]]) -> None:
    full = make_report(raw, audit=audit())
    page = render_html(full)
    text = said(page)
    for words in ("a record", "a person with 16 records", "stated for a person with 16 records, at most"):
        assert words in text
    assert "yes: it does not cover a person" in text
    assert "up to 5 % of correct trainings show it in each game. Only the alarm decides." in text
    card = model_card_sections(published(full))
    assert "ε of a made-up person with 16 records that attacks showed, at least | 4.02" in card
    assert "a record, 0.78; a person with 16 records, 18.6" in card
    assert "made-up person" not in model_card_sections(published(full, publishes_counts=False))


def test_an_audit_without_people_looks_as_before(
    raw: dict[str, Any], make_report: Callable[..., dict[str, Any]]
) -> None:
    before = {name: value for name, value in audit().items() if name != "person"}
    assert "person" not in published(make_report(raw, audit=before))["audit"]
    assert "Made-up people" not in render_html(make_report(raw, audit=before))
    told = {**before, "not_attacked": {"person": "its samples are public"}}
    assert "No person was attacked: its samples are public" in said(render_html(make_report(raw, audit=told)))


def test_faults_show_their_number_of_runs(raw: dict[str, Any], make_report: Callable[..., dict[str, Any]]) -> None:
    power = measured_power(NUM_TRIALS, takes_spans=False)
    assert power is not None
    page = render_html(make_report(raw, audit={**audit(), "power": power}))
    alarms = {(row["num_flagged"], row.get("num_runs", NUM_RUNS)) for row in power["rows"]}
    assert {num_runs for _, num_runs in alarms} == {NUM_RUNS, *FEWER_RUNS.values()}
    for num_flagged, num_runs in alarms:
        assert f">{num_flagged} of {num_runs}<" in page
