"""A run that finds everything in the store: it takes no orchestrator, whose start takes longer than all of its work."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.environment import on_server
from flows.running.lifecycle import fail, finish, require_usable_input
from flows.running.temporary import temporary_files
from pipelines.errors import ConfigError
from pipelines.graph import GRAPH
from pipelines.stage import OUTSIDE, Keyed, Stage
from pipelines.store.execute import probe
from pipelines.store.locks import store_lock
from pipelines.store.lookup import key_of
from pipelines.store.outcome import Outcome
from pipelines.store.roots import private_umask
from pipelines.store.session import Session, open_session

_Found = dict[str, tuple[Outcome, ...]]


def finish_unchanged(run: str) -> dict[str, Any] | None:
    """Ends a run of which no stage has to be built.

    Args:
        run: path of the run's specification.

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
        return finish(run)


def _find_all(session: Session) -> _Found | None:
    """What becomes of every stage, in the graph's order; None as soon as one has to be built."""
    found: _Found = {}
    keys: dict[str, list[Keyed]] = {}
    for stage in GRAPH.values():
        partitions = session.partition_names(stage.name)
        if all(edge.stage in keys for edge in stage.inputs if edge.stage not in OUTSIDE):
            outcomes = [_probe(session, stage, partition, keys) for partition in partitions]
        else:  # what reads a stage that was skipped is skipped
            outcomes = [Outcome(stage=stage.name, partition=p, state="skipped", key=None) for p in partitions]
        known = [outcome for outcome in outcomes if outcome is not None]
        if len(known) < len(outcomes):
            return None
        found[stage.name] = tuple(known)
        made = [(outcome.partition, outcome.key) for outcome in known if outcome.key is not None]
        if len(made) == len(known):
            keys[stage.name] = made
    return found


def _probe(
    session: Session, stage: Stage, partition: str | None, keys: Mapping[str, Sequence[Keyed]]
) -> Outcome | None:
    key, _ = key_of(session, stage.name, partition, stage.input_keys(partition, keys))
    try:
        return probe(session, stage.name, partition, key)
    except ConfigError:
        return None  # the flow says so, too


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
