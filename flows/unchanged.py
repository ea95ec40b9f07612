"""A run that finds everything in the store: it takes no orchestrator, whose start takes longer than all of its work."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from flows.artifacts import on_server
from flows.lifecycle import fail, finish, require_usable_input
from flows.temporary import temporary_files
from pipelines.errors import ConfigError
from pipelines.graph import GRAPH, OUTSIDE
from pipelines.store.execute import Outcome, PartitionKeys, key_of, probe
from pipelines.store.locks import store_lock
from pipelines.store.roots import private_umask
from pipelines.store.session import Session, open_session

_Found = dict[str, tuple[Outcome, ...]]


def finish_unchanged(run: str, *, make_latest: bool = True) -> dict[str, Any] | None:
    """Ends a run of which no stage has to be built.

    Args:
        run: path of the run's specification.
        make_latest: as for `flows.lifecycle.finish`.

    Returns:
        The run's record; None if a stage has to be built, or if a server of its own is to show the run.

    Raises:
        InputError: the input was largely unusable.
        StoreError: the store cannot be written.
    """
    if on_server() or _profile_names_server():
        return None
    session = open_session(run)
    with temporary_files(), private_umask(), store_lock(session.roots.private):
        found = _find_all(session)
        if found is None:
            return None
        try:
            for name, outcomes in found.items():
                session.outcomes.extend(outcomes)
                if name == "split":
                    require_usable_input(run)
        except BaseException:
            fail(run)
            raise
        return finish(run, make_latest=make_latest)


def _find_all(session: Session) -> _Found | None:
    """What becomes of every stage, in the graph's order; None as soon as one has to be built."""
    found: _Found = {}
    for stage in GRAPH.values():
        outcomes = []
        for partition in session.partition_names(stage.name):
            inputs = _inputs(found, stage.name, partition)
            try:
                outcome = None if inputs is None else _probe(session, stage.name, partition, inputs)
            except ConfigError:
                return None  # the flow says so, too
            if inputs is None:
                outcome = Outcome(stage=stage.name, partition=partition, state="skipped", key=None)
            if outcome is None:
                return None
            outcomes.append(outcome)
        found[stage.name] = tuple(outcomes)
    return found


def _probe(session: Session, stage: str, partition: str | None, inputs: dict[str, PartitionKeys]) -> Outcome | None:
    key, _ = key_of(session, stage, partition, inputs)
    return probe(session, stage, partition, key)


def _inputs(found: _Found, stage: str, partition: str | None) -> dict[str, PartitionKeys] | None:
    """The keys of a stage's inputs; None where one was skipped, so that the stage is."""
    inputs: dict[str, PartitionKeys] = {}
    for edge in GRAPH[stage].inputs:
        if edge.stage in OUTSIDE:
            continue
        keys = [(o.partition, o.key) for o in found[edge.stage]]
        if any(key is None for _, key in keys):
            return None
        inputs[edge.stage] = tuple((p, k) for p, k in keys if k and (edge.partitions != "same" or p == partition))
    return inputs


def _profile_names_server() -> bool:
    """Whether Prefect's active profile names a server. Read by hand: to import Prefect takes a second."""
    home = Path(os.environ.get("PREFECT_HOME") or Path.home() / ".prefect")
    path = Path(os.environ.get("PREFECT_PROFILES_PATH") or home / "profiles.toml")
    try:
        document = tomllib.loads(path.read_text("utf-8"))
        active = os.environ.get("PREFECT_PROFILE") or document.get("active")
        return "PREFECT_API_URL" in document["profiles"][active]
    except (OSError, ValueError, KeyError, TypeError):
        return False
