"""Records of runs: each is its own run's, sealed where its run wrote seals, and `latest.json` names the newest one."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pipelines.store.objects import runs
from pipelines.store.objects.session import Session
from pipelines.store.place.roots import Roots, open_roots, private_umask
from pipelines.store.place.seals import SEAL, write_sealed

RUNS = ("20260101T000000Z-aaaaaa", "20260102T000000Z-bbbbbb")


@pytest.fixture
def roots(tmp_path: Path) -> Roots:
    """A store with two finished runs, whose figures differ."""
    found = open_roots(tmp_path / "private", tmp_path / "public")
    for run_id, epsilon in zip(RUNS, (3.0, 4.5), strict=True):
        finish(found, run_id, epsilon)
    return found


def finish(roots: Roots, run_id: str, epsilon: float) -> None:
    with private_umask():
        (roots.runs / run_id).mkdir(parents=True)
        write_sealed(roots.runs / run_id / "spec.json", {"schema_version": 2, "run_id": run_id}, "run", roots.secret)
        session = cast(
            "Session",
            SimpleNamespace(
                roots=roots,
                spec=SimpleNamespace(
                    run_id=run_id, purpose="release", parent=None, overlay=None, left_out={}, trained_by=None
                ),
            ),
        )
        runs.record(session, [], {"state": "completed", "metrics": {"epsilon": epsilon}})


def epsilon(roots: Roots) -> float | None:
    found = runs.latest(roots)
    return None if found is None else found["metrics"]["epsilon"]


def test_untouched_records_are_as_they_were_written(roots: Roots) -> None:
    assert epsilon(roots) == 4.5
    assert runs.changed_documents(roots) == []


def without_seal(path: Path, **changes: Any) -> None:
    document = {**json.loads(path.read_text()), "schema_version": 1, **changes}
    del document[SEAL]
    path.write_text(json.dumps(document))


def test_the_record_of_another_run_is_not_believed(roots: Roots) -> None:
    """Guards a seal that fits any folder: an older run's record printed a lower epsilon."""
    older, newer = (roots.runs / run_id / "record.json" for run_id in RUNS)
    newer.write_bytes(older.read_bytes())
    assert epsilon(roots) is None
    assert [path for path, _ in runs.changed_documents(roots)] == [f"runs/{RUNS[1]}/record.json"]


def test_a_record_that_lost_its_seal_is_not_believed(roots: Roots) -> None:
    """Guards records of the first version, which had none: any figure could be written into one."""
    without_seal(roots.runs / RUNS[1] / "record.json", metrics={"epsilon": 0.01})
    assert epsilon(roots) is None
    assert [path for path, _ in runs.changed_documents(roots)] == [f"runs/{RUNS[1]}/record.json"]
    without_seal(roots.runs / RUNS[1] / "spec.json")  # a run of the first version has neither
    assert epsilon(roots) == 0.01


def test_an_older_copy_of_what_names_the_latest_run_changes_nothing(roots: Roots) -> None:
    """Guards the lower epsilon that an older copy printed; a kill between the two files looks the same."""
    latest = roots.private / "latest.json"
    kept = latest.read_bytes()
    finish(roots, "20260103T000000Z-cccccc", 6.0)
    newest = latest.read_bytes()
    latest.write_bytes(kept)
    assert epsilon(roots) == 6.0
    assert runs.changed_documents(roots) == []
    latest.write_bytes(newest)
    assert epsilon(roots) == 6.0
    without_seal(latest, run_id=RUNS[0])
    assert [path for path, _ in runs.changed_documents(roots)] == ["latest.json"]
    assert epsilon(roots) is None


def test_an_id_sorts_by_when_its_run_started_also_within_a_second() -> None:
    """Guards: seconds alone, with which two runs of one second stood in the order of a random word."""
    made = []
    for _ in range(8):
        made.append(runs.new_run_id())
        time.sleep(0.002)
    assert made == sorted(made)
    assert len(set(made)) == len(made)
    before = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M")
    assert before in {(runs.started_at(name) or "")[:16] for name in (made[-1], runs.new_run_id())}


@pytest.mark.parametrize(
    ("run_id", "expected"),
    [
        ("20260101T020304.056Z-aaaaaa", "2026-01-01T02:03:04Z"),
        ("20260101T020304Z-aaaaaa", "2026-01-01T02:03:04Z"),  # of the first version
        ("20261301T020304.056Z-aaaaaa", None),
        ("mine", None),
    ],
)
def test_when_a_run_started_is_read_from_its_id(run_id: str, expected: str | None) -> None:
    assert runs.started_at(run_id) == expected
