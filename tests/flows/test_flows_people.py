"""A training that samples people, from rows with ids to the claim, and what refuses it."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
from support.project import small_project

from flows.commands.plan import plan_document
from flows.running.fetching import fetch
from pipelines.errors import ConfigError
from pipelines.settings.loading import load_settings

OF_PEOPLE = {
    "RETICENT__TRAIN__UNIT": "owner",
    "RETICENT__CORPUS__OWNER_FROM": "field",
    "RETICENT__CORPUS__OWNER_FIELD": "customer",
    "RETICENT__CORPUS__OWNER_SPACE": "customers",
    "RETICENT__CORPUS__FORMAT": "jsonl",
    "RETICENT__SPLIT__TEST_FRACTION": "0.2",
}
WORDS = ["please", "check", "my", "order", "the", "parcel", "is", "late", "and", "i", "want", "it", "back", "today"]
NUM_PEOPLE = 60


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = small_project(tmp_path_factory.mktemp("people"), dialogues=2)
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


def run(config: Path, **changes: str) -> tuple[dict[str, Any], Path]:
    """Keys of every stage, by name, and the private root."""
    settings = load_settings(config, {**os.environ, **OF_PEOPLE, **changes})
    session, keys = fetch(settings, "guarantee")
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


@pytest.mark.parametrize("method", ["jft", "redaction_schedule", "sdpsgd_lstm", "redacted", "anonymized", "no_dp"])
def test_a_method_that_cannot_sample_people_says_why(config: Path, method: str) -> None:
    with pytest.raises(ConfigError, match=f"method '{method}' cannot sample people: "):
        load_settings(config, {**os.environ, **OF_PEOPLE, "RETICENT__TRAIN__METHOD": method})


def test_people_that_nobody_names_cannot_be_sampled(config: Path) -> None:
    environ = {**os.environ, "RETICENT__TRAIN__UNIT": "owner"}
    with pytest.raises(ConfigError, match=r"corpus\.owner_from = 'none'"):
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
@pytest.mark.parametrize("unit", ["owner", "record"])
def test_an_audit_judges_people(config: Path, unit: str) -> None:
    by_record = {"RETICENT__TRAIN__UNIT": "record", "RETICENT__AUDIT__OWNER_RECORDS": "16"}
    environ = {**os.environ, **OF_PEOPLE, **AUDIT, **(by_record if unit == "record" else {})}
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
