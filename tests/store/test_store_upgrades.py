"""What a run of today's code does with a store that an earlier version wrote: what it makes anew, what it spends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support.old_stores import (
    AUDITED,
    BEFORE,
    FIRST,
    artifacts_of,
    document,
    manifest_of,
    reticent,
    run_of,
    run_stages,
    said,
    unpack,
)

from flows.running.spec import begin
from flows.running.unchanged import finish_unchanged
from pipelines.files import read_json
from pipelines.graph import GRAPH
from pipelines.numbers import same_figures
from reticent import open_run

UP_TO_TRAIN = tuple(GRAPH)[: list(GRAPH).index("train") + 1]
RUNS = {"jft": 0, "dpsgd": 1, "crt": 3}
"""The newest run of each settings file."""


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of the last commit before 0.2.0, after a run."""
    project = unpack(BEFORE, tmp_path_factory.mktemp("before"))
    run_stages(project / "crt.toml")
    return project


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of 0.1.0, after a run."""
    project = unpack(FIRST, tmp_path_factory.mktemp("first"))
    run_stages(project / "crt.toml")
    return project


def ledger_of(project: Path) -> list[dict[str, Any]]:
    path = project / "store/private/ledger/releases.jsonl"
    return [json.loads(line) for line in path.read_bytes().splitlines()]


PROSE = ("assumptions", "statement", "theorem")
"""Fields of a claim for readers. Their words may change in an upgrade, so tests of the accounting check them."""


def claims_of(project: Path, run: str) -> list[dict[str, Any]]:
    """Returns the claims of a run without their prose."""
    key = artifacts_of(project, run)["guarantee", None]
    folder = project / "store/private/objects/guarantee" / key
    claims: list[dict[str, Any]] = read_json(folder / "claims.json")["claims"]
    for claim in (*claims, *(claim["together"] for claim in claims if claim.get("together"))):
        for field in PROSE:
            claim.pop(field, None)
    return claims


def actions(config: Path) -> dict[str, tuple[str, list[str]]]:
    """What `reticent plan` says of each stage, by shown name: the action and its reasons."""
    rows = document("plan", config)["stages"]
    return {".".join(filter(None, (row["stage"], row["step"]))): (row["action"], row["reasons"]) for row in rows}


@pytest.mark.slow
def test_preparation_rebuilds_to_equal_bytes(before: Path, tmp_path: Path) -> None:
    """Partitions have the same names, and tables the same digests."""
    untouched = unpack(BEFORE, tmp_path)
    then, now = artifacts_of(untouched), artifacts_of(before)
    later = {("evaluate", None), ("dedup_buckets", "001-of-001")}  # parts of the training, and of dedup.resolve, then
    assert then.keys() == now.keys() - later
    for stage, partition in now.keys() - later:
        if stage == "dedup_keys":
            continue  # in another order now
        if not stage.startswith("train") and stage in UP_TO_TRAIN:
            old = manifest_of(untouched, stage, then[stage, partition]).files
            new = manifest_of(before, stage, now[stage, partition]).files
            tables = {path: entry for path, entry in new.items() if path.endswith(".parquet")}
            assert tables, stage
            if stage in ("split", "gate_strings", "gate"):  # names of speakers, and what is held and why, came later
                tables = {path: entry for path, entry in tables.items() if path in old}
                assert tables, stage
            assert tables.items() <= old.items(), stage


@pytest.mark.parametrize("method", RUNS)
@pytest.mark.parametrize("commit", [FIRST, BEFORE])
def test_no_upgrade_trains_a_model_anew(first: Path, before: Path, commit: str, method: str) -> None:
    """Also of settings that were not those of the last run, as several share a store."""
    project = first if commit == FIRST else before
    old = artifacts_of(project, run_of(project, RUNS[method]))
    then = [line for line in ledger_of(project) if line["type"] == "release"]
    found = run_stages(project / f"{method}.toml", UP_TO_TRAIN)
    for stage in ("train_phase1", "train"):
        (outcome,) = found[stage]
        assert outcome.state == "cached", stage
        assert outcome.key == old[stage, None] or (stage, method) != ("train_phase1", "jft")  # else it is empty
    assert found["train"][0].key == old["train", None]
    assert [line for line in ledger_of(project) if line["type"] == "release"] == then


@pytest.mark.slow
def test_no_upgrade_trains_a_model_of_the_audit_anew(tmp_path: Path) -> None:
    """Its key held code and packages. Other code and packages prepare the text now."""
    project = unpack(AUDITED, tmp_path)
    reticent("ledger", project / "crt.toml", "--acknowledge-copy", "a test's copy")
    old, names = artifacts_of(project), (*UP_TO_TRAIN, "audit_model")
    found = run_stages(project / "crt.toml", names, environ={"RETICENT__AUDIT__ENABLED": "true"})
    assert "completed" in {outcome.state for outcome in found["split"]}
    for stage in ("train", "audit_model"):
        assert [(outcome.state, outcome.key) for outcome in found[stage]] == [("cached", old[stage, None])]
    forced = run_stages(project / "crt.toml", names, environ={"RETICENT__AUDIT__ENABLED": "true"}, forced=("train",))
    assert [forced[stage][0].state for stage in ("train", "audit_model")] == ["completed", "cached"]  # one recipe


@pytest.mark.parametrize("commit", [FIRST, BEFORE])
def test_a_model_that_stays_is_evaluated_anew_to_the_same_figures(first: Path, before: Path, commit: str) -> None:
    project = first if commit == FIRST else before
    then, run = (open_run(project / "store", name) for name in (run_of(project, RUNS["crt"]), "latest"))
    told, found = then.figures("train"), run.figures("train.evaluate")
    assert run.artifact("train").key == then.artifact("train").key
    assert found.keys() <= told.keys()
    for name in found.keys() - {"num_eval_sentences_available", "evaluated_on"}:
        assert found[name] == (pytest.approx(told[name], rel=1e-5) if isinstance(told[name], float) else told[name])
    assert run.report is not None
    (training,) = [json.loads(run.report.with_name("report.json").read_text())["training"]]
    assert training["perplexity"] == run.metrics["perplexity"] == pytest.approx(told["perplexity"], rel=1e-5)
    assert run.figures("train") == {**told, **found}
    assert not {"generated", "token_scores"} - {*run.tables} - {*then.tables}
    losses = [r.table("token_scores").select(pl.col("losses").list.sum()).sum().collect().item() for r in (then, run)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


@pytest.mark.slow
def test_a_run_on_a_store_of_the_last_commit_enters_nothing_into_the_ledger(before: Path) -> None:
    types = [line["type"] for line in ledger_of(before)]
    assert types == ["release", "published"] * 5 + ["documents"] * 5  # four models and a table, and what they read
    assert all(line["documents"] for line in ledger_of(before) if line["type"] == "documents")
    told = said(BEFORE)["ledger"]["releases"]
    rows = document("ledger", before / "crt.toml")["releases"]
    assert same_figures([{name: row[name] for name in old_row} for row, old_row in zip(rows, told, strict=True)], told)
    new, old = claims_of(before, "latest"), claims_of(before, run_of(before, RUNS["crt"]))
    for found, earlier in zip(new, old, strict=True):
        if found["notion"] == "group_confidentiality":  # group accounting promises more of all releases together
            assert found["together"]["is_guarantee"] >= earlier["together"]["is_guarantee"]
            assert found["together"]["delta"] <= 1e-4
            found["together"] = earlier["together"] = None
    assert same_figures(new, old)
    found = {name: action for name, (action, _) in actions(before / "crt.toml").items() if action != "hit"}
    assert found == {"train": "stale"}  # made by other code
    assert finish_unchanged(begin(before / "crt.toml", {})) is not None


def test_a_run_on_a_store_of_the_first_version_enters_the_table_that_it_publishes_and_no_model(first: Path) -> None:
    """0.1.0 published the public rows without an entry."""
    added = ledger_of(first)[8:]
    types = [line["type"] for line in added]
    assert types == ["older_lines", *["documents"] * 4, "release", "published"]
    added = [line for line in added if line["type"] != "documents"]
    assert (added[1]["facts"]["method"], added[1]["facts"]["holds_rows"]) == ("public_rows", True)
    assert added[1]["epsilon"] == 0
    assert not list((first / "store/public/objects/shard").glob("*"))  # where it lay
    now = document("ledger", first / "crt.toml")
    assert [row["release"] for row in now["releases"]] == [row["release"] for row in said(FIRST)["ledger"]["releases"]]
    assert now["groups"][1]["epsilon"] == pytest.approx(said(FIRST)["ledger"]["groups"][1]["epsilon"], rel=1e-3)


def test_claims_on_a_model_of_the_first_version_are_made_anew_and_refused_where_they_were_false(first: Path) -> None:
    """It was trained on text that another redaction masked and took for public, and beside two other releases."""
    old = {claim["notion"]: claim for claim in claims_of(first, run_of(first, RUNS["crt"]))}
    new = {claim["notion"]: claim for claim in claims_of(first, "latest")}
    assert all(claim["is_guarantee"] for claim in old.values())
    assert old["bayesian_confidentiality"]["epsilon"] == old["group_confidentiality"]["epsilon"] == 0
    assert same_figures(new["dp_private_set"]["epsilon"], old["dp_private_set"]["epsilon"])
    assert new["dp_private_set"]["together"]["refused"]  # entries of 0.1.0 do not say what else was read
    for notion in new.keys() - {"dp_private_set"}:
        assert new[notion]["refused"], notion
        assert new[notion]["epsilon"] is None, notion


def test_plan_says_why_a_model_of_the_first_version_is_stale(first: Path) -> None:
    found = actions(first / "crt.toml")
    assert {name for name, (action, _) in found.items() if action == "stale"} == {"train"}
    _, reasons = found["train"]
    assert any(reason.startswith("code: pipelines/") for reason in reasons)
    assert any("shard" in reason for reason in reasons)  # what it read is divided otherwise now
    assert "stale" in reticent("plan", first / "crt.toml")
    assert "run" not in {action for action, _ in found.values()}


@pytest.mark.slow
def test_training_a_stale_model_anew_takes_the_users_word_and_is_a_second_release(first: Path) -> None:
    (outcome,) = run_stages(first / "crt.toml", UP_TO_TRAIN, forced=("train",))["train"]
    assert outcome.state == "completed"
    *_, release, published = ledger_of(first)
    assert (release["key"], release["facts"]["method"]) == (outcome.key, "crt")
    assert release["facts"]["holds_rows"] is True
    assert published == {**published, "type": "published", "release_id": release["release_id"]}
    assert document("ledger", first / "crt.toml")["groups"][1]["num_releases"] == 4
    assert actions(first / "crt.toml")["train"] == ("hit", [])


FILES = {
    "store.json": "private/store.json",
    "latest.json": "private/latest.json",
    "specification": "private/runs/*/spec.json",
    "record": "private/runs/*/record.json",
    "joint manifest": "private/manifests/*/*.json",
    "private manifest": "private/objects/*/*/manifest.json",
    "public manifest": "public/objects/*/*/manifest.json",
    "events": "private/objects/*/*/events.json",
}


def fields(project: Path, since: Path | None = None) -> dict[str, list[set[str]]]:
    """The fields of every document in a store, by kind; since another copy of it, of what was written later."""
    found: dict[str, list[set[str]]] = {}
    for kind, pattern in FILES.items():
        for path in project.joinpath("store").glob(pattern):
            before = since / path.relative_to(project) if since else path
            if since is None or not before.exists() or before.read_bytes() != path.read_bytes():
                content = read_json(path)
                found.setdefault(kind, []).append(set(content))
                found.setdefault("lineage", []).append(set(content.get("lineage", ())))
    for line in ledger_of(project)[len(ledger_of(since)) if since else 0 :]:
        found.setdefault(f"ledger, {line['type']}", []).append(set(line))
        found.setdefault("facts", []).append(set(line.get("facts") or ()))
    return found


ADDED_SINCE = {
    "store.json": {"home"},  # where it runs next
    # A release of the corpus as it is; no witness.
    "specification": {"purpose", "parent", "overlay", "left_out", "trained_by", "state", "recorded"},
    # Not counted; it trained.
    "record": {"purpose", "parent", "overlay", "left_out_files", "warnings", "trained_by", "recorded"},
    "lineage": {"built_with"},  # of stages with a recipe; code and packages were ingredients before
    "ledger, release": {"documents"},  # not known, or told by a later line
    "facts": {"recipe", "holds_rows", "decisions"},  # none: first versions, a gate that held nothing, none is known
    "events": {"num_comparisons"},  # not recorded; trainings stopped where a comparison failed
}
"""Fields that came without another version since the last commit before 0.2.0, with what their absence stands for."""


def test_a_document_loses_no_field_and_gets_none_unseen_without_another_version(
    before: Path, first: Path, tmp_path: Path
) -> None:
    """Raise the version in `store.place.versions` and write a migration, or enter the field in `ADDED_SINCE`."""
    old = fields(unpack(BEFORE, tmp_path / "before"))
    new = fields(before, tmp_path / "before")
    for kind, documents in fields(first, unpack(FIRST, tmp_path / "first")).items():
        new.setdefault(kind, []).extend(documents)
    assert old.keys() - new.keys() <= {"events"}  # where no model was trained
    for kind in old.keys() & new.keys():
        assert set.intersection(*old[kind]) <= set.union(*new[kind]), kind
        assert set.union(*new[kind]) - set.union(*old[kind]) <= ADDED_SINCE.get(kind, set()), kind
