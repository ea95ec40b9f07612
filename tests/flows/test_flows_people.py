"""A training that samples people, from rows with ids to the claim, and what refuses it."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.project import small_project

from flows.commands.plan import open_planning, plan_document
from flows.running.fetching import fetch
from pipelines.errors import ConfigError
from pipelines.settings.loading import load_settings
from pipelines.store.objects.keys import own_ingredients

OF_PEOPLE = {
    "RETICENT__TRAIN__UNIT": "owner",
    "RETICENT__CORPUS__OWNER_FROM": "field",
    "RETICENT__CORPUS__OWNER_FIELD": "customer",
    "RETICENT__CORPUS__OWNER_SPACE": "customers",
    "RETICENT__CORPUS__FORMAT": "jsonl",
    "RETICENT__SPLIT__TEST_FRACTION": "0.2",
    "RETICENT__GATE__ON_HIT": "stop",
}
BY_PERSON = {"RETICENT__DEDUP__SCOPE": "owner"}
WORDS = ["please", "check", "my", "order", "the", "parcel", "is", "late", "and", "i", "want", "it", "back", "today"]
NUM_PEOPLE = 60


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("people"))


def made(folder: Path) -> Path:
    found = small_project(folder, dialogues=2)
    for path in (found.parent / "corpus").iterdir():
        path.unlink()
    rng = random.Random(1)
    rows = [
        {"text": " ".join(rng.sample(WORDS, 8)) + f" says Mary Jones {who}.", "customer": f"planted-{who}"}
        for who in range(NUM_PEOPLE)
        for _ in range(1 + who % 5)
    ]
    (found.parent / "corpus" / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return found


def run(
    config: Path, of: dict[str, str] = OF_PEOPLE, *, last: str = "guarantee", **changes: str
) -> tuple[dict[str, Any], Path]:
    """Keys of every stage, by name, and the private root."""
    settings = load_settings(config, {**os.environ, **of, **changes})
    session, keys = fetch(settings, last)
    return keys, session.roots.private


def document(private: Path, stage: str, keys: dict[str, Any], name: str) -> dict[str, Any]:
    ((_, key),) = keys[stage]
    (path,) = (path for path in private.rglob(name) if key in str(path))
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.mark.slow
def test_a_training_on_people_claims_the_epsilon_of_a_person(config: Path) -> None:
    keys, private = run(config)
    claims = document(private, "guarantee", keys, "claims.json")
    headline = claims["claims"][claims["headline"]]
    assert (headline["notion"], headline["unit"], headline["is_guarantee"]) == ("owner_dp", "person", True)
    events = document(private, "train", keys, "events.json")
    assert events["record"] == "person"
    assert 30 < events["num_private_records"] < NUM_PEOPLE  # people of the training fold, not rows
    again, _ = run(config)
    assert again == keys
    more, _ = run(config, RETICENT__TRAIN__OWNER_RECORDS="3")
    assert {name for name in keys if more[name] != keys[name]} == {
        "train",
        "evaluate",
        "train_utility",
        "guarantee",
    } & keys.keys()
    public = (path for path in (private.parent / "public").rglob("*") if path.is_file())
    assert not [path for path in public if b"planted-" in path.read_bytes()]


@pytest.mark.slow
def test_text_that_is_deduplicated_by_person_is_covered_before_that_and_no_number_of_records_is_public(
    tmp_path: Path,
) -> None:
    keys, private = run(made(tmp_path), **BY_PERSON, last="report")
    claims = document(private, "guarantee", keys, "claims.json")
    headline = claims["claims"][claims["headline"]]
    assert headline["corpus"] == "raw"
    assert "about whether everything that one person wrote in private rows was replaced" in headline["statement"]
    shards = [json.loads(path.read_text()) for path in (private / "objects/shard").rglob("figures.json")]
    counts = {sum(figures[name] for figures in shards) for name in ("num_private", "num_private_tokens")}
    public = [path for name in ("report.json", "reticent.json") for path in (private.parent / "public").rglob(name)]
    assert {path.name for path in public} == {"report.json", "reticent.json"}
    for path in public:
        assert not counts & set(numbers_in(json.loads(path.read_text()))), path
    stats = json.loads(next((private / "objects/train").rglob("manifest.json")).read_text())["stats"]
    assert "num_people" in stats
    assert "num_private_records" not in stats


def numbers_in(value: Any) -> Iterator[Any]:
    """All numbers in a JSON document."""
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from numbers_in(part)
    elif isinstance(value, int | float):
        yield value


@pytest.mark.parametrize("method", ["jft", "redaction_schedule", "sdpsgd_lstm", "redacted", "anonymized", "no_dp"])
def test_a_method_that_cannot_sample_people_says_why(config: Path, method: str) -> None:
    with pytest.raises(ConfigError, match=f"method '{method}' cannot sample people: "):
        load_settings(config, {**os.environ, **OF_PEOPLE, "RETICENT__TRAIN__METHOD": method})


def test_people_that_nobody_names_cannot_be_sampled(config: Path) -> None:
    environ = {**os.environ, "RETICENT__TRAIN__UNIT": "owner"}
    with pytest.raises(ConfigError, match=r"corpus\.owner_from = 'none'"):
        plan_document(config, environ, read=True)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (BY_PERSON, r"dedup\.scope = 'owner' .* corpus\.owner_from = 'none'"),
        ({**OF_PEOPLE, "RETICENT__GATE__ON_HIT": "hold"}, r"Set gate\.on_hit = .stop., or leave"),
    ],
)
def test_settings_that_couple_people_are_refused_before_anything_runs(
    config: Path, changes: dict[str, str], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        plan_document(config, {**os.environ, **changes}, read=True)


def test_people_who_train_on_no_public_rows_may_have_a_gate_that_holds(config: Path) -> None:
    changes = {"RETICENT__GATE__ON_HIT": "hold", "RETICENT__TRAIN__METHOD": "dpsgd"}
    assert plan_document(config, {**os.environ, **OF_PEOPLE, **changes}, read=True)


BOUND = {
    **{name: value for name, value in OF_PEOPLE.items() if name != "RETICENT__TRAIN__UNIT"},
    "RETICENT__GUARANTEE__OWNER_BOUND": "2",
    "RETICENT__GUARANTEE__OWNER_BOUND_BASIS": "fixed_beforehand",
}


@pytest.mark.slow
def test_a_training_on_two_records_of_a_person_states_the_epsilon_of_a_person_with_two(config: Path) -> None:
    keys, private = run(config, BOUND)
    events = document(private, "train", keys, "events.json")
    claims = document(private, "guarantee", keys, "claims.json")
    person = claims["person"]
    assert events["owner_bound"] == 2
    assert NUM_PEOPLE / 2 < events["num_private_records"] <= 2 * NUM_PEOPLE
    assert {whose: f["num_records"] for f in person["figures"] for whose in f["whose"]}["most"] == 2
    assert person["is_guarantee"]
    assert [f["num_records"] for f in claims["public"]["person"]["figures"]] == [1, 2]
    lines = (private / "ledger" / "releases.jsonl").read_text().splitlines()
    facts = [line["facts"] for line in map(json.loads, lines) if line["type"] == "release"][-1]
    assert (facts["owner_space"], facts["owner_bound"]) == ("customers", 2)
    measured, _ = run(config, BOUND, RETICENT__GUARANTEE__OWNER_BOUND_BASIS="measured")
    assert {name for name in keys if measured[name] != keys[name]} == {"guarantee"}  # no model is trained anew
    estimate = document(private, "guarantee", measured, "claims.json")
    assert not estimate["person"]["is_guarantee"]
    assert "are estimates" in estimate["person"]["not_guaranteed_because"][-1]
    assert [f["num_records"] for f in estimate["public"]["person"]["figures"]] == [1, 4]  # the bound came from counts


def test_a_bound_enters_the_key_of_the_training_only_where_it_is_set(config: Path) -> None:
    plain, bound = (open_planning(config, {**os.environ, **changes}) for changes in ({}, BOUND))
    for stage in ("train", "audit_model", "audit_domain_models"):
        assert "guarantee" not in own_ingredients(plain, stage)["config"]  # as in versions before
        assert own_ingredients(bound, stage)["config"]["guarantee"] == {"owner_bound": 2}


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"RETICENT__TRAIN__METHOD": "jft"}, "owner_bound: method 'jft' cannot bound what a person brings"),
        ({"RETICENT__TRAIN__UNIT": "owner"}, "owner_bound has no effect with train.unit = 'owner'"),
        (dict.fromkeys(("RETICENT__CORPUS__OWNER_FROM", "RETICENT__CORPUS__OWNER_FIELD")), "owner_from = 'none'"),
        ({"RETICENT__GUARANTEE__OWNER_BOUND_BASIS": None}, "owner_bound needs owner_bound_basis"),
        ({"RETICENT__GUARANTEE__OWNER_BOUND": None}, "owner_bound_basis needs owner_bound"),
        (
            {
                "RETICENT__GUARANTEE__OWNER_BOUND_BASIS": "measured",
                "RETICENT__GUARANTEE__BUDGET_EPSILON": "3",
                "RETICENT__GUARANTEE__BUDGET_UNIT": "owner",
            },
            "bounds nobody",
        ),
        ({"RETICENT__GUARANTEE__BUDGET_UNIT": "owner"}, "needs budget_epsilon"),
    ],
)
def test_a_bound_that_nothing_keeps_is_refused(config: Path, changes: dict[str, str | None], match: str) -> None:
    environ = {name: value for name, value in {**os.environ, **BOUND, **changes}.items() if value is not None}
    with pytest.raises(ConfigError, match=match):
        plan_document(config, environ, read=True)


AUDIT = {
    "RETICENT__AUDIT__ENABLED": "true",
    "RETICENT__AUDIT__NUM_TRIALS": "3000",
    "RETICENT__AUDIT__NUM_CANARIES": "20",
    "RETICENT__AUDIT__NUM_DETECTED_CANARIES": "2",
    "RETICENT__AUDIT__COPIES": "10",
    "RETICENT__AUDIT__CANDIDATES": "100",
    "RETICENT__AUDIT__NUM_PROMPTS": "1",
    "RETICENT__AUDIT__NUM_GENERATIONS": "1",
    "RETICENT__AUDIT__NUM_MEMBERS": "40",
}


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["owner", "record", "record with a bound"])
def test_an_audit_judges_people(config: Path, unit: str) -> None:
    by_record = {"RETICENT__TRAIN__UNIT": "record", "RETICENT__AUDIT__OWNER_RECORDS": "16"}
    by_record["RETICENT__TRAIN__NOISE_MULTIPLIER"] = "4.0"  # below the most that a game of so few people can prove
    if unit == "record with a bound":
        by_record |= {"RETICENT__GUARANTEE__OWNER_BOUND": "4", "RETICENT__GUARANTEE__OWNER_BOUND_BASIS": "public_text"}
    environ = {**os.environ, **OF_PEOPLE, **AUDIT, **({} if unit == "owner" else by_record)}
    session, keys = fetch(load_settings(config, environ), "audit")
    found = document(session.roots.private, "audit", keys, "audit.json")
    (person,) = found["person"]
    whose = {claim["whose"]: claim["is_exceeded"] for claim in person["claims"]}
    if unit == "owner":
        assert whose == {"a person": False}
        assert found["epsilon_claimed"] is not None  # ten copies of a canary are one person
    else:
        assert whose == {"a record": True, "a person with 16 records": False}
        assert found["epsilon_claimed"] is None  # ten copies are ten records
    assert not found["alarm"]
    assert "person" not in found["not_attacked"]
    membership = found["membership"]
    assert min(membership["num_people"]) >= 8
    assert {attack["kind"] for attack in membership["attacks"]} == {"individual", "person"}
    record = document(session.roots.private, "audit_model", keys, "events.json")["record"]
    assert record == ("person" if unit == "owner" else "sentence")
    public = (path for path in (session.roots.private.parent / "public").rglob("*") if path.is_file())
    assert not [path for path in public if b"planted-" in path.read_bytes()]
