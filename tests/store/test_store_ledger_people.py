"""The ledger's file for people: what a line keeps, what links them, and the budget for a person, with real settings."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.patches import killed_at
from support.project import small_project
from test_store_ledger import DELTA, EVENT, split_of, states

from flows.commands.ledger import ledger_document, ledger_text
from flows.commands.ledger_people import people_of
from flows.commands.metrics import metrics_of_people
from flows.commands.plan import open_planning, plan_document, status_text
from pipelines.accounting.ledger import composed_epsilon, overlapping
from pipelines.context import Partition, Piece
from pipelines.errors import PrivacyGateError
from pipelines.settings.guarantee import GuaranteeConfig
from pipelines.settings.loading import load_settings
from pipelines.store.ledger.ledger import StoreLedger, read_ledger
from pipelines.store.ledger.recovery import acknowledge_damage
from pipelines.store.objects.ledger_lines import ledger_dir
from pipelines.store.place.ledger_file import FILE

FACTS: dict[str, Any] = {
    "method": "dpsgd",
    "variant": None,
    "record": "person",
    "num_private_records": 900,
    "phases": [{"name": "dpsgd", "rows": "original", "event": EVENT}],
    "met": [],
    "trains_on_public_rows": False,
    "typed_masks": False,
    "is_noise_from_private_text": False,
}
RECORDS = {**FACTS, "record": "sentence"}
Train = Callable[..., StoreLedger]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Settings, and a store whose ledger is empty."""
    config = small_project(tmp_path_factory.mktemp("people"), dialogues=2)
    open_planning(config, os.environ)
    return config


@pytest.fixture
def config(project: Path, tmp_path: Path) -> Path:
    shutil.copytree(project.parent, tmp_path / "project", ignore=shutil.ignore_patterns("store.json", "location*"))
    return tmp_path / "project" / project.name


@pytest.fixture
def train(config: Path) -> Train:
    """Hands out the ledger of a training on files, name to content, by settings as in the environment."""

    def made(key: str, files: dict[str, str], space: str = "customers", **guarantee: Any) -> StoreLedger:
        people = {"RETICENT__CORPUS__OWNER_FROM": "file", "RETICENT__CORPUS__OWNER_SPACE": space} if space else {}
        people |= {"RETICENT__TRAIN__METHOD": "dpsgd"}
        people |= {f"RETICENT__GUARANTEE__{name.upper()}": str(value) for name, value in guarantee.items()}
        session = open_planning(config, {**os.environ, **people})
        pieces = (
            Piece(path=n, name=n, format="txt", start_byte=0, end_byte=1, first_row=1, digest=d)
            for n, d in files.items()
        )
        partitions = tuple(Partition(f"p-{piece.name}", (piece,)) for piece in pieces)
        session = replace(session, spec=replace(session.spec, partitions=partitions, run_id="20260101T000000Z-abc"))
        folder = session.roots.private / "work" / key
        folder.mkdir(parents=True, exist_ok=True)
        return StoreLedger(session, key, folder, {}, [split_of(session.roots, text) for text in files.values()])

    return made


def release(made: StoreLedger, facts: dict[str, Any] = FACTS) -> StoreLedger:
    made.reserve(EVENT, DELTA, facts=facts)
    made.commit()
    return made


def budget_for_two(unit: str = "owner") -> dict[str, Any]:
    return {"budget_epsilon": 2.4, "budget_delta": DELTA, "budget_unit": unit}  # one costs 1.99, two cost 2.96


def test_the_budget_of_a_person_counts_files_that_share_nothing(train: Train) -> None:
    roots = release(train("k1", {"a": "1"})).session.roots
    refused = train("k2", {"b": "2"}, **budget_for_two())
    with pytest.raises(PrivacyGateError, match=r"on these people .*guarantee\.budget_unit = 'owner'") as stopped:
        refused.reserve(EVENT, DELTA, facts=FACTS)
    assert stopped.value.exit_code == 4
    assert states(roots) == ["published"]
    assert not list(refused.scratch_dir.iterdir())
    release(train("k3", {"b": "2"}, **budget_for_two("record")))  # no record is in both
    release(train("k4", {"c": "3"}, space="staff", **budget_for_two()))
    assert len(overlapping(read_ledger(roots), "overlap", "owner")) == 2
    assert len(overlapping(read_ledger(roots))) == 3


def test_a_renamed_file_is_no_way_round(train: Train) -> None:
    release(train("k1", {"a": "1"}))
    with pytest.raises(PrivacyGateError, match="1 earlier release on these people"):
        train("k2", {"renamed": "1 and a word"}, **budget_for_two()).reserve(EVENT, DELTA, facts=FACTS)


@pytest.mark.parametrize(("space", "facts"), [("", RECORDS), ("customers", RECORDS), ("", None)])
def test_a_release_without_a_bound_ends_every_budget_of_a_person(
    train: Train, space: str, facts: dict[str, Any] | None
) -> None:
    made = release(train("k1", {"a": "1"}, space=space), facts)
    with pytest.raises(PrivacyGateError, match=rf"Nothing bounds .* release {made.release_id}"):
        train("k2", {"b": "2"}, **{**budget_for_two(), "budget_epsilon": 1e6}).reserve(EVENT, DELTA, facts=FACTS)
    release(train("k3", {"b": "2"}, **budget_for_two("record")))


def test_a_training_without_a_bound_of_its_own_is_refused_before_it_starts(train: Train) -> None:
    made = train("k1", {"a": "1"}, **budget_for_two())
    with pytest.raises(PrivacyGateError, match=r"train\.unit = 'owner' or guarantee\.owner_bound"):
        made.reserve(EVENT, DELTA, facts=RECORDS)
    release(train("k1", {"a": "1"}, **{**budget_for_two(), "budget_epsilon": 11}), {**RECORDS, "owner_bound": 4})


def test_the_line_says_whose_records_they_are_and_how_many_at_most(train: Train) -> None:
    roots = release(train("k1", {"a": "1"}), {**RECORDS, "owner_bound": 3}).session.roots
    release(train("k2", {"b": "2"}, space=""), RECORDS)
    first, second = (r.facts for r in read_ledger(roots))
    assert first is not None
    assert second is not None
    assert (first.people, first.owner_bound, second.people, second.owner_bound) == ("customers", 3, None, None)
    lines = [json.loads(line) for line in (ledger_dir(roots) / FILE).read_text().splitlines()]
    of_release = [line["facts"] for line in lines if line["type"] == "release"]
    assert ["owner_space" in facts for facts in of_release] == [
        True,
        False,
    ]  # the second is as versions before wrote it
    assert ["owner_bound" in facts for facts in of_release] == [True, False]


def test_a_kill_between_training_and_publishing_keeps_the_cost_for_a_person(train: Train) -> None:
    """The entry is there before the first step; the model of the killed run may not be published for nothing."""
    made = train("k1", {"a": "1"}, **budget_for_two())
    made.reserve(EVENT, DELTA, facts=FACTS)
    with killed_at("pipelines.store.ledger.ledger", "append"):
        made.commit()
    assert states(made.session.roots) == ["abandoned"]  # nothing was published
    release(train("k1", {"a": "1"}, **budget_for_two()))  # goes on under the entry, and is charged once
    assert states(made.session.roots) == ["published"]
    with pytest.raises(PrivacyGateError):
        train("k2", {"b": "2"}, **budget_for_two()).reserve(EVENT, DELTA, facts=FACTS)


def test_a_damaged_line_costs_a_person_everything_and_a_record_no_less(train: Train) -> None:
    made = release(train("k1", {"a": "1"}))
    roots, path = made.session.roots, ledger_dir(made.session.roots) / FILE
    path.write_bytes(path.read_bytes().replace(b"customers/file/", b"strangers/file/"))
    acknowledge_damage(roots, "a test")
    listed = read_ledger(roots)
    assert {r.people for r in listed} == {None}
    assert composed_epsilon(listed, DELTA) >= 1.99
    with pytest.raises(PrivacyGateError, match="infinity"):
        train("k2", {"b": "2"}, **{**budget_for_two(), "budget_epsilon": 1e6}).reserve(EVENT, DELTA, facts=FACTS)


def test_a_gauge_has_the_total_of_a_person(train: Train, config: Path) -> None:
    def value() -> float:
        (metric,) = metrics_of_people(load_settings(config, {}), roots)
        assert metric.name == "person_epsilon"
        ((_, found),) = metric.values
        return found

    roots = release(train("k1", {"a": "1"})).session.roots
    release(train("k2", {"b": "2"}))
    assert value() == pytest.approx(composed_epsilon(read_ledger(roots), DELTA))
    release(train("k3", {"c": "3"}, space=""), RECORDS)
    assert value() == math.inf  # nothing bounds what a person brought


@pytest.mark.slow
def test_the_ledger_shows_the_total_of_a_person_beside_that_of_a_record(train: Train, config: Path) -> None:
    roots = release(train("k1", {"a": "1"})).session.roots
    release(train("k2", {"b": "2"}))
    environ = {**os.environ, "RETICENT__GUARANTEE__BUDGET_EPSILON": "8", "RETICENT__GUARANTEE__BUDGET_UNIT": "owner"}
    document = ledger_document(config, environ)
    (person,) = document["people"]
    both = composed_epsilon(read_ledger(roots), DELTA)
    assert (person["num_releases"], person["epsilon"]) == (2, pytest.approx(both))
    assert person["left"] == pytest.approx(8 - both)
    assert person["num_more"] >= 1
    assert [group["left"] for group in document["groups"]] == [None, None]  # the budget is not one of records
    text = ledger_text(document)
    assert "a person of the space customers (file), 2 releases together, whatever their files: epsilon 2.9" in text
    assert text.count("budget 8:") == 1
    planned = plan_document(config, environ, read=True)
    assert "a person of the space customers (file), 2 releases together" in status_text(planned)
    release(train("k3", {"c": "3"}, space=""), RECORDS)
    text = ledger_text(ledger_document(config, environ))
    assert f": no bound; nothing bounds what a person brought to {read_ledger(roots)[-1].release_id}" in text
    assert people_of(GuaranteeConfig(), []) == []
