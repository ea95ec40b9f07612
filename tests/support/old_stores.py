"""Projects that earlier versions left (``tests/store/make_old_stores.py``), unpacked, and run with today's code."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from flows.arguments import app
from flows.running.lifecycle import finish, retire
from flows.running.spec import begin
from pipelines.graph import GRAPH
from pipelines.store.building.execute import Outcome, execute
from pipelines.store.objects import manifest as manifests
from pipelines.store.objects import runs
from pipelines.store.objects.manifest import Manifest
from pipelines.store.objects.session import open_session
from pipelines.store.place.roots import Roots, open_roots
from pipelines.walks import default_stages
from support import TESTS

FOLDER = TESTS / "store" / "old_stores"
FIRST, BEFORE = "8044d3b", "e586264"
"""What 0.1.0 was, and the last commit before 0.2.0 was begun."""
SECOND, LAST = "e6a19b5", "98a9a38"
"""What 0.2.0 was, and the last commit before the settings, the store and the stages moved (0.3.0)."""
COMMITS = (FIRST, BEFORE, SECOND, LAST)
AUDITED = "25421ec"
"""The last commit before models of the audit had recipes. Its last run was audited."""


def unpack(commit: str, folder: Path) -> Path:
    """A copy of an old project, as it was but for its place."""
    with tarfile.open(FOLDER / f"{commit}.tar.xz") as archive:
        archive.extractall(folder, filter="tar")  # keeps modes: a private root that others can read is refused
    return folder


def said(commit: str) -> dict[str, Any]:
    """What the old code printed of its store."""
    found: dict[str, Any] = json.loads((FOLDER / f"{commit}.json").read_text())
    return found


def reticent(*arguments: str | Path) -> str:
    """A command in this process; what it printed."""
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.stdout


def document(*arguments: str | Path) -> dict[str, Any]:
    """What a command prints with ``--json``."""
    found: dict[str, Any] = json.loads(reticent(*arguments, "--json").splitlines()[-1])
    return found


def open_store(project: Path, *, create: bool = False) -> Roots:
    """The store of a project."""
    return open_roots(project / "store/private", project / "store/public", create=create)


def artifacts_of(project: Path, run: str = "latest") -> dict[tuple[str, str | None], str]:
    """The keys of what a run made or found, by stage and partition."""
    return {(stage, partition): key for stage, partition, key in runs.resolve(open_store(project), run)["artifacts"]}


def run_of(project: Path, number: int) -> str:
    """The id of a run, counted from the first."""
    return str(sorted(path.name for path in (project / "store/private/runs").iterdir())[number])


def run_stages(
    config: Path,
    names: Sequence[str] = default_stages(),
    *,
    environ: Mapping[str, str] | None = None,
    forced: Sequence[str] = (),
) -> dict[str, tuple[Outcome, ...]]:
    """Stages as a run has them, without an orchestrator; where all are named the run is ended as runs are."""
    run = begin(config, environ or {}, forced=forced)
    session = open_session(run)
    keys: dict[str, list[tuple[str | None, str]]] = {}
    found: dict[str, tuple[Outcome, ...]] = {}
    for name in names:
        stage = GRAPH[name]
        steps = stage.steps(session.partition_names, keys)
        found[name] = tuple(execute(session, name, step.partition, step.inputs) for step in steps)
        keys[name] = [(outcome.partition, outcome.key or "") for outcome in found[name]]
        session.outcomes.extend(found[name])
    if tuple(names) == default_stages():
        finish(run)
        retire(run)
    return found


def manifest_of(project: Path, stage: str, key: str) -> Manifest:
    """An artifact's manifest, which must be there."""
    found = manifests.load(open_store(project), stage, key)
    assert found is not None, stage
    return found
