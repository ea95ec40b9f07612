"""Audits and comparisons beside a finished run: nothing public changes, and the ledger says what they are."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from increment import drive, drive_begun
from looked_at import EVERYTHING
from support.patches import killed_at

from flows.commands.diff import diff_document, diff_text, runs_document, runs_text
from flows.commands.ledger import ledger_document, ledger_text
from flows.running.spec import open_store
from pipelines.artifacts import Source
from pipelines.corpus.tables import SENTENCES
from pipelines.errors import ConfigError, StoreError
from pipelines.files import read_json
from pipelines.settings.loading import load_settings
from pipelines.store.objects import runs
from pipelines.store.objects.overlays import make_overlay
from pipelines.store.objects.session import RunSpec, child_of, make_session, save_spec
from pipelines.store.place.roots import Roots
from pipelines.store.upkeep.maintenance import gc
from pipelines.training.data.overlay import AddedRow


@pytest.fixture
def config(project: Path) -> Path:
    """A copy of the finished run, to go on with."""
    drive(project, EVERYTHING)  # the copy is a store of its own: what names its folders is made again
    return project


def roots_of(config: Path) -> Roots:
    return open_store(load_settings(config, {}))


def parent_of(config: Path) -> RunSpec:
    """The latest run."""
    roots = roots_of(config)
    newest = runs.latest(roots)
    assert newest is not None
    return RunSpec.from_json(read_json(roots.runs / newest["run_id"] / "spec.json"))


def child(config: Path, purpose: Any, overlay: str | None = None, **train: Any) -> tuple[str, set[str]]:
    """Runs a child of the latest run with other settings of training; its id, and the stages that it built."""
    spec = child_of(parent_of(config), runs.new_run_id(), purpose=purpose, changes={"train": train}, overlay=overlay)
    outcomes = drive_begun(str(save_spec(make_session(spec))))
    return spec.run_id, {o.stage for o in outcomes if o.state == "completed"}


def figures(config: Path, run_id: str) -> dict[str, Any]:
    """Of the run's training."""
    roots = roots_of(config)
    key = next(key for stage, _, key in runs.resolve(roots, run_id)["artifacts"] if stage == "train")
    found: dict[str, Any] = json.loads((roots.object_dir("private", "train", key) / "figures.json").read_text())
    return found


def snapshot(folder: Path) -> Mapping[str, Any]:
    return {
        str(path.relative_to(folder)): os.readlink(path) if path.is_symlink() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() or path.is_symlink()
    }


def claims(config: Path) -> dict[str, Any]:
    """Of the latest run."""
    roots = roots_of(config)
    newest = runs.latest(roots) or {}
    key = next(key for stage, _, key in newest["artifacts"] if stage == "guarantee")
    found: dict[str, Any] = json.loads((roots.object_dir("private", "guarantee", key) / "claims.json").read_text())
    return found


@pytest.mark.slow
def test_an_audit_changes_nothing_that_is_public_and_no_claim(config: Path) -> None:
    roots = roots_of(config)
    public, objects = snapshot(roots.public), snapshot(roots.private / "objects")
    latest, told = snapshot(roots.private / "latest"), claims(config)
    before = ledger_document(config, {})

    run_id, built = child(config, "audit", repetition=1)
    assert built == {"train", "evaluate", "train_utility", "guarantee", "report"}  # what prepares is shared

    assert snapshot(roots.public) == public
    assert snapshot(roots.private / "latest") == latest
    now = snapshot(roots.private / "objects")
    assert {path: now[path] for path in objects} == objects
    (model,) = [path for path in now if path.endswith("unpublished/model/model.safetensors")]
    assert model.startswith("train/")
    assert len([path for path in now if "/unpublished/" in path and path.startswith("report/")]) > 0

    after = ledger_document(config, {})
    assert [(g["epsilon"], g["num_releases"]) for g in after["groups"]] == [
        (g["epsilon"], g["num_releases"]) for g in before["groups"]
    ]
    assert after["groups"][0]["credit"] == before["groups"][0]["credit"]
    (audit,) = [r for r in after["releases"] if r["purpose"] == "audit"]
    assert (audit["is_public"], audit["state"], audit["run_id"]) == (False, "published", run_id)
    assert "1 model kept on the trusted side (1 of audits): no cost while it stays there" in ledger_text(after)

    # The next night finds everything, and says the same of what is published.
    assert {o.state for o in drive(config, EVERYTHING)} == {"cached"}
    assert claims(config) == told
    listed = runs_document(config, {})
    assert [(r["purpose"], r["parent"] is None) for r in listed["runs"][:2]] == [("release", True), ("audit", False)]
    assert "(audit)" in runs_text(listed).splitlines()[1]
    assert f"{run_id} (audit)" in diff_text(diff_document(config, {}, "latest", run_id))
    assert diff_document(config, {}, "previous", "latest")["runs"][0]["purpose"] == "release"


@pytest.mark.slow
def test_a_comparison_is_kept_back_and_charged_for_and_a_run_with_its_settings_publishes_it(config: Path) -> None:
    roots = roots_of(config)
    public = snapshot(roots.public)
    _, built = child(config, "comparison")
    assert built == set()  # the run's own model is one of the comparison
    run_id, built = child(config, "comparison", repetition=1)
    assert "train" in built
    assert snapshot(roots.public) == public
    document = ledger_document(config, {})
    assert [(r["purpose"], r["is_public"]) for r in document["releases"]] == [("release", True), ("comparison", True)]
    assert document["groups"][0]["num_releases"] == 2
    assert "  comparison" in ledger_text(document)
    (key,) = {key for stage, _, key in runs.resolve(roots, run_id)["artifacts"] if stage == "train"}

    states = {o.stage: (o.state, o.key) for o in drive(config, EVERYTHING, RETICENT__TRAIN__REPETITION="1")}
    assert states["train"] == ("cached", key)
    kept = roots.object_dir("private", "train", key) / "unpublished"
    assert snapshot(roots.object_dir("public", "train", key) / "model") == snapshot(kept / "model")
    assert len(ledger_document(config, {})["releases"]) == 2  # nothing was trained anew
    assert (roots.public / "latest/model/model.safetensors").is_file()


@pytest.mark.slow
def test_canaries_and_held_out_records_are_an_audits_own(config: Path) -> None:
    roots = roots_of(config)
    session = make_session(parent_of(config))
    sentences = [key for stage, _, key in (runs.latest(roots) or {})["artifacts"] if stage == "split"]
    tables = (Source(folder=roots.object_dir("private", "split", key)).table(SENTENCES) for key in sentences)
    rows = [row for table in tables for batch in table.batches() for row in batch.to_pylist()]
    held_out = [(row["doc_id"], row["sentence_index"]) for row in rows if row["fold"] == "train"][:3]
    canaries = [AddedRow(document=f"canary {n}", text="My ID is 341752.") for n in range(5)]
    canaries.append(AddedRow(document="missed", text="My ID is 341752.", masked=()))
    overlay, held = make_overlay(session, canaries), make_overlay(session, (), held_out)
    assert make_overlay(session, canaries[::-1]) == overlay
    assert overlay is not None
    assert held not in (None, overlay)
    assert make_overlay(session, (), ()) is None
    public = snapshot(roots.public)

    plain, _ = child(config, "audit")
    with_canaries, built = child(config, "audit", overlay)
    without_records, also_built = child(config, "audit", held)
    assert built == also_built == {"train", "evaluate", "train_utility", "guarantee", "report"}
    one, more, fewer = (figures(config, run_id) for run_id in (plain, with_canaries, without_records))
    assert (more["num_private_records"], more["num_public_records"]) == (
        one["num_private_records"] + 5,
        one["num_public_records"] + 1,
    )
    assert fewer["num_private_records"] + fewer["num_public_records"] == (
        one["num_private_records"] + one["num_public_records"] - 3
    )
    assert child(config, "audit", overlay)[1] == set()
    assert snapshot(roots.public) == public
    assert [r["purpose"] for r in ledger_document(config, {})["releases"]] == ["release", "audit", "audit", "audit"]
    assert (
        len({r["data"] for r in ledger_document(config, {})["releases"]}) == 3
    )  # the plain one reads what the run did
    with pytest.raises(ConfigError, match="as it is"):
        replace(parent_of(config), overlay=overlay)

    kept = roots.private / "overlays" / overlay
    gc(roots, keep_runs=1, dry_run=False, work_days=-1)
    assert kept.is_dir()
    (kept / "sentences.parquet").write_bytes(b"")
    with pytest.raises(StoreError, match="damaged"):
        child(config, "audit", overlay, repetition=1)
    drive(config, EVERYTHING, RETICENT__TRAIN__EPOCHS="2")
    gc(roots, keep_runs=1, dry_run=False, work_days=-1)
    assert not kept.exists()


@pytest.mark.slow
def test_a_child_that_was_killed_goes_on_under_its_entry(config: Path) -> None:
    roots = roots_of(config)
    public = snapshot(roots.public)
    with killed_at("pipelines.training.outputs", "write_outputs"):
        child(config, "audit", repetition=1)
    assert [r["state"] for r in ledger_document(config, {})["releases"]] == ["published", "abandoned"]
    _, built = child(config, "audit", repetition=1)
    assert "train" in built
    assert [r["state"] for r in ledger_document(config, {})["releases"]] == ["published", "published"]
    assert snapshot(roots.public) == public
