"""A run that changes nothing: ended without an orchestrator, and recorded like any other."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from support.project import small_project

from flows.running.fetching import fetch
from flows.running.spec import PREPARATION, begin, open_store
from flows.running.unchanged import finish_unchanged
from pipelines.errors import InputError
from pipelines.graph import GRAPH
from pipelines.settings.loading import load_settings
from pipelines.store.objects import runs
from pipelines.store.objects.session import child_of, make_session, open_session, save_spec
from pipelines.store.upkeep.maintenance import verify
from pipelines.walks import default_stages

DIGITS = {"RETICENT__REDACT__POLICIES": '["digits"]', "RETICENT__CORPUS__MAX_REJECTED_FRACTION": "0.5"}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of which every stage is in the store; one row of its input is rejected."""
    found = small_project(tmp_path_factory.mktemp("unchanged"), dialogues=12)
    (found.parent / "corpus" / "zz.jsonl").write_text('{"text": 3}\n' + json.dumps({"text": "Nothing to see."}) + "\n")
    fetch(load_settings(found, {**os.environ, **DIGITS}), *default_stages())
    return found


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Prefect's home, which names no server."""
    for name in [name for name in os.environ if name.startswith("PREFECT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    return tmp_path


def ended(config: Path, changes: dict[str, str] | None = None, **options: Any) -> dict[str, Any] | None:
    return finish_unchanged(begin(config, {**os.environ, **DIGITS, **(changes or {})}, **options))


def test_it_finds_every_stage_and_becomes_the_latest_run(config: Path) -> None:
    record = ended(config)
    assert record is not None
    assert record["state"] == "completed"
    assert {row["state"] for row in record["stages"]} == {"cached"}
    assert {(row["stage"], row["step"]) for row in record["stages"]} == {
        (GRAPH[name].table, GRAPH[name].step) for name in default_stages()
    }
    assert {"public", "report", "model"} <= record["outputs"].keys()
    assert record["metrics"]["epsilon"] > 0
    roots = open_store(load_settings(config, {**os.environ, **DIGITS}))
    newest = runs.latest(roots)
    assert newest is not None
    assert newest["run_id"] == record["run_id"]
    assert not [c for c in verify(roots) if c.problem]


def test_a_run_that_is_not_to_be_the_latest_is_not(config: Path) -> None:
    before = ended(config)
    assert before is not None
    roots = open_store(load_settings(config, {**os.environ, **DIGITS}))
    parent = open_session(str(roots.runs / before["run_id"] / "spec.json")).spec
    child = child_of(parent, runs.new_run_id(), purpose="comparison")
    beside = finish_unchanged(str(save_spec(make_session(child))))
    assert beside is not None
    assert (beside["purpose"], beside["parent"], beside["outputs"]) == ("comparison", before["run_id"], {})
    newest = runs.latest(open_store(load_settings(config, {**os.environ, **DIGITS})))
    assert newest is not None
    assert newest["run_id"] == before["run_id"]


@pytest.mark.parametrize(
    ("changes", "options"),
    [
        ({"RETICENT__TRAIN__EPOCHS": "3"}, {}),
        ({"RETICENT__SPLIT__MODE": '"turns"'}, {"selected": ("report",)}),  # skipped would be what it needs
        ({}, {"forced": ("redact",)}),
        ({"PREFECT_API_URL": "http://127.0.0.1:9/api"}, {}),
    ],
    ids=["a setting", "a stage that is not selected", "a forced stage", "a server shows runs"],
)
def test_what_is_to_be_built_or_shown_is_left_to_the_flow(
    config: Path, changes: dict[str, str], options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in changes.items():
        monkeypatch.setenv(name, value)
    run = begin(config, {**os.environ, **DIGITS}, **options)
    assert finish_unchanged(run) is None
    assert not (Path(run).parent / "record.json").exists()


def test_what_was_not_selected_and_is_not_cached_is_skipped(config: Path) -> None:
    record = ended(config, {"RETICENT__TRAIN__EPOCHS": "3"}, selected=PREPARATION)
    assert record is not None
    states = {(row["stage"], row["step"]): row["state"] for row in record["stages"]}
    assert states["train", None] == states["guarantee", None] == states["report", None] == "skipped"
    assert states["shard", None] == "cached"


def test_unusable_input_stops_it_as_it_stops_the_flow(config: Path) -> None:
    with pytest.raises(InputError, match="max_rejected_fraction"):
        ended(config, {"RETICENT__CORPUS__MAX_REJECTED_FRACTION": "0.01"})
    newest = next(runs.records(open_store(load_settings(config, {**os.environ, **DIGITS}))))
    assert newest["state"] == "failed"
    assert {row["stage"] for row in newest["stages"]} == {"split"}


@pytest.mark.parametrize(
    ("text", "is_shown"),
    [
        ('active = "ours"\n[profiles.ours]\nPREFECT_API_URL = "http://127.0.0.1:9/api"\n', True),
        ('active = "plain"\n[profiles.plain]\n[profiles.ours]\nPREFECT_API_URL = "http://127.0.0.1:9/api"\n', False),
        ('active = "gone"\n[profiles.ours]\nPREFECT_API_URL = "http://127.0.0.1:9/api"\n', False),
        ("active = \n", False),
    ],
)
def test_a_profile_may_name_the_server_that_shows_runs(config: Path, home: Path, text: str, is_shown: bool) -> None:
    (home / "profiles.toml").write_text(text)
    assert (ended(config) is None) == is_shown


def test_the_environment_may_choose_the_profile(config: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "profiles.toml").write_text('active = "a"\n[profiles.a]\n[profiles.b]\nPREFECT_API_URL = "http://h/api"\n')
    monkeypatch.setenv("PREFECT_PROFILE", "b")
    assert ended(config) is None
