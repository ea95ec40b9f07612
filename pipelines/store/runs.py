"""Run records: what a run did, kept for ``status``, ``plan`` and comparison; and ``latest``."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping
from typing import Any

from pipelines.graph import GRAPH
from pipelines.store.execute import Outcome
from pipelines.store.files import read_json, write_json
from pipelines.store.roots import SCHEMA_VERSION, Roots
from pipelines.store.session import Session


def new_run_id() -> str:
    """A name that sorts by start time and does not repeat."""
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(3)}"


def outcome_document(outcome: Outcome) -> dict[str, Any]:
    """One row of ``stages`` in the command line's JSON."""
    stage = GRAPH[outcome.stage]
    return {
        "stage": stage.table,
        "step": stage.step,
        "partition": outcome.partition,
        "state": outcome.state,
        "seconds": round(outcome.seconds, 3),
        "key": outcome.key,
    }


def record(
    session: Session, outcomes: Iterable[Outcome], extra: Mapping[str, Any], *, make_latest: bool = True
) -> dict[str, Any]:
    """Writes the record of a finished or failed run.

    Args:
        extra: ``outputs``, ``metrics`` and ``state`` of the run.
        make_latest: a failed run does not become the latest one, but what it finished is kept by ``gc``.
    """
    listed = list(outcomes)
    document = {
        "schema_version": SCHEMA_VERSION,
        "run_id": session.spec.run_id,
        "stages": [outcome_document(o) for o in listed],
        "artifacts": [[o.stage, o.partition, o.key] for o in listed if o.key],
        **extra,
    }
    folder = session.roots.runs / session.spec.run_id
    folder.mkdir(mode=0o700, exist_ok=True)
    write_json(folder / "record.json", document)
    if make_latest:
        write_json(session.roots.private / "latest.json", {"run_id": session.spec.run_id})
    return document


def latest(roots: Roots) -> dict[str, Any] | None:
    """The record of the last finished run, or None."""
    pointer = read_json(roots.private / "latest.json")
    if not isinstance(pointer, dict):
        return None
    found = read_json(roots.runs / str(pointer.get("run_id")) / "record.json")
    return found if isinstance(found, dict) else None


def all_records(roots: Roots) -> list[dict[str, Any]]:
    """Every run record, newest first."""
    documents = (read_json(p / "record.json") for p in sorted(roots.runs.iterdir(), reverse=True) if p.is_dir())
    return [d for d in documents if isinstance(d, dict)]
