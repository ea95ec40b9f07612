"""Run records: what a run did, kept for ``status``, ``plan`` and comparison; and ``latest``."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from pipelines.errors import ConfigError
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


def resolve(roots: Roots, name: str) -> dict[str, Any]:
    """The record of the run that a user's word stands for.

    Args:
        name: a run's id, the beginning of one, ``latest``, or ``previous`` (the completed run before the latest).

    Raises:
        ConfigError: no recorded run is called that, or several are.
    """
    records = all_records(roots)
    if name in ("latest", "previous"):
        newest = latest(roots)
        completed = [r for r in records if r.get("state") == "completed"]
        if newest is not None and name == "previous":
            newest = next((r for r in completed if str(r["run_id"]) < str(newest["run_id"])), None)
        if newest is None:
            raise ConfigError(f"there is no {name} run; `reticent runs` lists what there is")
        return newest
    found = [r for r in records if str(r["run_id"]) == name]
    found = found or [r for r in records if name and str(r["run_id"]).startswith(name)]
    if len(found) == 1:
        return found[0]
    problem = "several runs have an id that begins with" if found else "no recorded run has an id that begins with"
    raise ConfigError(f"{problem} {name!r}; `reticent runs` lists them")


def started_at(run_id: str) -> str | None:
    """When a run started, from its id, as ISO 8601 in UTC; None for an id of another form."""
    try:
        parsed = time.strptime(run_id.partition("-")[0], "%Y%m%dT%H%M%SZ")
    except ValueError:
        return None
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", parsed)


def list_runs(roots: Roots) -> list[dict[str, Any]]:
    """Every run, newest first.

    Returns:
        Per run ``run_id``, ``started``, ``state`` (``unfinished`` where there is no record: it is under way, or was
        killed), and ``built``: shown stage names with the number of artifacts that it built.
    """
    listed = []
    for folder in sorted((p for p in roots.runs.iterdir() if p.is_dir()), reverse=True):
        found = read_json(folder / "record.json")
        stages = found.get("stages", []) if isinstance(found, dict) else []
        built = Counter(
            f"{row['stage']}.{row['step']}" if row["step"] else str(row["stage"])
            for row in stages
            if row["state"] == "completed"
        )
        state = str(found.get("state")) if isinstance(found, dict) else "unfinished"
        listed.append({"run_id": folder.name, "started": started_at(folder.name), "state": state, "built": dict(built)})
    return listed
