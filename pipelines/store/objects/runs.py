"""Records of runs, for ``status``, ``plan`` and comparisons, and the name of the latest run."""

from __future__ import annotations

import re
import secrets
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipelines.errors import ConfigError
from pipelines.graph import GRAPH
from pipelines.store.objects.forgotten import forgotten_path
from pipelines.store.objects.session import Session
from pipelines.store.place import versions
from pipelines.store.place.outcome import Outcome
from pipelines.store.place.roots import Roots
from pipelines.store.place.seals import SEAL, Kind, SealError, read_sealed, write_sealed

_LATEST = "latest.json"
_RECORD = "record.json"
_SPEC = "spec.json"
RECORDED = "recorded"
"""The field of a run's specification and record that says that both files were written."""
FORGOTTEN = "forgotten"
"""The field of a record that says that the run read text that was forgotten since."""


def new_run_id() -> str:
    """Makes a unique name that sorts by start time, to the millisecond."""
    now = datetime.now(UTC)
    return f"{now:%Y%m%dT%H%M%S}.{now.microsecond // 1000:03d}Z-{secrets.token_hex(6)}"


def outcome_document(outcome: Outcome) -> dict[str, Any]:
    """Returns one row of ``stages`` in the command line's JSON."""
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
    session: Session,
    outcomes: Iterable[Outcome],
    extra: Mapping[str, Any],
    *,
    kept: Iterable[list[Any]] = (),
    make_latest: bool = True,
) -> dict[str, Any]:
    """Writes the record of a finished or failed run.

    Args:
        extra: ``outputs``, ``metrics`` and ``state`` of the run.
        kept: artifacts of an earlier run that stay published, as rows of its record. They were not made from this
            run's text.
        make_latest: true if the run becomes the latest one. A failed run does not, but ``gc`` keeps what it finished. A
            child run never does.
    """
    listed = list(outcomes)
    make_latest = make_latest and session.spec.purpose == "release"
    document = {
        "schema_version": versions.RUN,
        "run_id": session.spec.run_id,
        "purpose": session.spec.purpose,
        "parent": session.spec.parent,
        "overlay": session.spec.overlay,
        "left_out_files": dict(session.spec.left_out),
        "stages": [outcome_document(o) for o in listed],
        "artifacts": [*([o.stage, o.partition, o.key] for o in listed if o.key), *kept],
        "trained_by": session.spec.trained_by,
        "finished": time.time(),
        "became_latest": make_latest,
        **extra,
    }
    folder = session.roots.runs / session.spec.run_id
    folder.mkdir(mode=0o700, exist_ok=True)
    secret = session.roots.secret
    spec = spec_document(session.roots, session.spec.run_id)
    if spec is not None:
        document[RECORDED] = True
    write_sealed(folder / _RECORD, document, "run", secret)
    if make_latest:
        latest_run = {"schema_version": versions.RUN, "run_id": session.spec.run_id}
        write_sealed(session.roots.private / _LATEST, latest_run, "latest run", secret)
    if spec is not None:  # from here on, `reticent verify` misses a file of the run that disappears
        write_sealed(folder / _SPEC, {**spec, RECORDED: True}, "run", secret)
    return document


def spec_document(roots: Roots, run_id: str) -> dict[str, Any] | None:
    """Reads a run's specification as JSON; None if it is missing or was changed."""
    return _read(roots, roots.runs / run_id / _SPEC, "run")


def latest(roots: Roots) -> dict[str, Any] | None:
    """Reads the record of the last finished run, or None.

    ``latest.json`` names it. A run that finished later counts instead: a kill came between its record and that file, or
    the file is an older copy.
    """
    pointer = _read(roots, roots.private / _LATEST, "latest run")
    named = None if pointer is None else _record(roots, roots.runs / str(pointer.get("run_id")))
    if named is None or "finished" not in named:  # version 0.1.0 wrote no time
        return named
    later = [_record(roots, folder) for folder in _folders(roots) if _written(folder) > float(named["finished"])]
    known = [r for r in later if r is not None and r.get("became_latest")]
    return max([named, *known], key=lambda r: float(r["finished"]))


def _written(folder: Path) -> float:
    try:
        return (folder / _RECORD).stat().st_mtime
    except OSError:
        return 0.0


def records(roots: Roots) -> Iterator[dict[str, Any]]:
    """Yields every run record, newest first, and reads each only when it is asked for."""
    documents = (_record(roots, p) for p in _folders(roots))
    return (d for d in documents if d is not None)


def _record(roots: Roots, folder: Path) -> dict[str, Any] | None:
    return _read(roots, folder / _RECORD, "run")


def _read(roots: Roots, path: Path, kind: Kind) -> dict[str, Any] | None:
    """Reads a document without its seal; None if it is missing, or was changed, which `reticent verify` reports."""
    try:
        document = _checked(roots, path, kind)
    except SealError:
        return None
    return None if document is None else {name: value for name, value in document.items() if name != SEAL}


def _checked(roots: Roots, path: Path, kind: Kind) -> dict[str, Any] | None:
    """Reads and checks a document of a run; None if it is missing.

    Raises:
        SealError: the document was changed, or belongs to another run.
    """
    document: dict[str, Any] | None = read_sealed(path, kind, roots.secret, unsealed_versions=(None, 1))
    if document is None:
        return None
    if path.name == _RECORD:
        if document.get("run_id") != path.parent.name:
            raise SealError(f"{path} is the record of another run")
        spec = read_sealed(path.parent / _SPEC, kind, roots.secret, unsealed_versions=(None, 1))
        if SEAL not in document and spec is not None and SEAL in spec:
            raise SealError(f"{path} has no seal, and its run wrote seals")
    if path.name == _LATEST and SEAL not in document:
        newest = roots.runs / str(document.get("run_id")) / _RECORD
        if SEAL in (_checked(roots, newest, "run") or {}):
            raise SealError(f"{path} has no seal, and its run wrote seals")
    return document


def changed_documents(roots: Roots) -> list[tuple[str, str]]:
    """Finds specifications and records of runs that were changed: path below the private root, and problem."""
    changed = []
    to_check: list[tuple[Path, Kind]] = [(roots.private / _LATEST, "latest run"), (forgotten_path(roots), "forgotten")]
    to_check += [(path, "run") for name in (_RECORD, _SPEC) for path in sorted(roots.runs.glob(f"*/{name}"))]
    for path, kind in to_check:
        try:
            _checked(roots, path, kind)
        except SealError as error:
            changed.append((path.relative_to(roots.private).as_posix(), str(error)))
    return changed


def missing_documents(roots: Roots) -> list[tuple[str, str]]:
    """Finds files of runs that disappeared: path below the private root, and problem. A whole folder may go."""
    missing = []
    for folder in _folders(roots):
        pair = (folder / _SPEC, folder / _RECORD)
        if any((_read(roots, path, "run") or {}).get(RECORDED) for path in pair):
            missing += [path for path in pair if not path.exists()]
    latest_path = roots.private / _LATEST
    ended = (r for r in records(roots) if r.get("became_latest"))
    if not latest_path.exists() and any((spec_document(roots, str(r["run_id"])) or {}).get(RECORDED) for r in ended):
        missing.append(latest_path)
    remedy = "is missing; restore it from a backup"
    return [(path.relative_to(roots.private).as_posix(), f"{path} {remedy}") for path in missing]


def _folders(roots: Roots) -> list[Path]:
    """Returns the folders of the runs, newest first; none if there is no store."""
    paths = roots.runs.iterdir() if roots.runs.is_dir() else ()
    return sorted((path for path in paths if path.is_dir()), reverse=True)


def is_child(record: Mapping[str, Any]) -> bool:
    """Returns True if the record belongs to a run that publishes nothing. Early versions had no such runs."""
    return str(record.get("purpose", "release")) != "release"


def key_in(record: Mapping[str, Any] | None, stage: str) -> str | None:
    """Returns the key of a whole-corpus stage's artifact in a run's record; None if there is none."""
    return next((key for name, _, key in (record or {}).get("artifacts", ()) if name == stage), None)


def resolve(roots: Roots, name: str) -> dict[str, Any]:
    """Returns the record of the run that a user names.

    Args:
        name: id of a run, beginning of an id, ``latest``, or ``previous`` (the completed run before the latest one,
            child runs left out).

    Raises:
        ConfigError: no recorded run has that name, or several have.
    """
    known = list(records(roots))
    if name in ("latest", "previous"):
        newest = latest(roots)
        completed = [r for r in known if r.get("state") == "completed" and not is_child(r)]
        if newest is not None and name == "previous":
            newest = next((r for r in completed if str(r["run_id"]) < str(newest["run_id"])), None)
        if newest is None:
            raise ConfigError(f"there is no {name} run; `reticent runs` lists what there is")
        return newest
    matches = [r for r in known if str(r["run_id"]) == name]
    matches = matches or [r for r in known if name and str(r["run_id"]).startswith(name)]
    if len(matches) == 1:
        return matches[0]
    problem = "several runs have an id that begins with" if matches else "no recorded run has an id that begins with"
    raise ConfigError(f"{problem} {name!r}; `reticent runs` lists them")


def started_at(run_id: str) -> str | None:
    """Returns the start time in a run's id, as ISO 8601 in UTC; None for an id of another form."""
    start = re.match(r"(\d{8}T\d{6})(?:\.\d{3})?Z-", run_id)  # ids of version 0.1.0 have no milliseconds
    try:
        return f"{datetime.strptime(start[1], '%Y%m%dT%H%M%S'):%Y-%m-%dT%H:%M:%SZ}" if start else None
    except ValueError:
        return None


def each_run(roots: Roots) -> Iterator[dict[str, Any]]:
    """Describes every run, newest first, and reads each only when it is asked for.

    Yields:
        For each run ``run_id``, ``started``, ``purpose``, ``parent``, ``state`` (``unfinished`` without a record: the
        run is under way, or was killed), ``built`` (shown stage names with the number of artifacts that the run built),
        and ``is_forgotten`` (true if it read text that was forgotten since, `pipelines.store.upkeep.forgetting`).
    """
    for folder in _folders(roots):
        found = _record(roots, folder)
        stages = found.get("stages", []) if isinstance(found, dict) else []
        built = Counter(
            f"{row['stage']}.{row['step']}" if row["step"] else str(row["stage"])
            for row in stages
            if row["state"] == "completed"
        )
        state = str(found.get("state")) if isinstance(found, dict) else "unfinished"
        spec = found or _read(roots, folder / _SPEC, "run") or {}
        yield {
            "run_id": folder.name,
            "started": started_at(folder.name),
            "purpose": spec.get("purpose", "release"),
            "parent": spec.get("parent"),
            "state": state,
            "built": dict(built),
            "is_forgotten": bool(spec.get(FORGOTTEN)),
        }
