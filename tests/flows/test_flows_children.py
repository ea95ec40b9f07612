"""Audits and comparisons beside a finished run: nothing public changes, and the ledger says what they are."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from increment import drive, drive_begun
from looked_at import EVERYTHING, finished_run

from flows.commands.diff import diff_document, diff_text, runs_document, runs_text
from flows.commands.ledger import ledger_document, ledger_text
from flows.running.spec import open_store
from flows.settings import load_settings
from pipelines.files import read_json
from pipelines.store import runs
from pipelines.store.roots import Roots
from pipelines.store.session import RunSpec, child_of, make_session, save_spec


@pytest.fixture
def config(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the finished run, to go on with."""
    shutil.copytree(finished_run(tmp_path_factory).parent, tmp_path / "project", symlinks=True)
    config = tmp_path / "project" / "reticent.toml"
    drive(config, EVERYTHING)  # the copy is a store of its own: what names its folders is made again
    return config


def roots_of(config: Path) -> Roots:
    return open_store(load_settings(config, {}))


def child(config: Path, purpose: Any, **train: Any) -> tuple[str, set[str]]:
    """Runs a child of the latest run with other settings of training; its id, and the stages that it built."""
    roots = roots_of(config)
    newest = runs.latest(roots)
    assert newest is not None
    document = read_json(roots.runs / newest["run_id"] / "spec.json")
    spec = child_of(RunSpec.from_json(document), runs.new_run_id(), purpose=purpose, changes={"train": train})
    outcomes = drive_begun(str(save_spec(make_session(spec))))
    return spec.run_id, {o.stage for o in outcomes if o.state == "completed"}


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


def test_an_audit_changes_nothing_that_is_public_and_no_claim(config: Path) -> None:
    roots = roots_of(config)
    public, objects = snapshot(roots.public), snapshot(roots.private / "objects")
    latest, told = snapshot(roots.private / "latest"), claims(config)
    before = ledger_document(config, {})

    run_id, built = child(config, "audit", repetition=1)
    assert built == {"train", "train_utility", "guarantee", "report"}  # what prepares is shared

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
