"""A run that finds everything in the store: it takes no orchestrator, whose start takes longer than all of its work."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flows.environment import on_server
from flows.running.auditing import require_no_alarm
from flows.running.lifecycle import fail, finish, require_usable_input
from flows.running.temporary import temporary_files
from pipelines.errors import ConfigError
from pipelines.stage import Stage
from pipelines.store.building.execute import probe
from pipelines.store.building.lookup import key_of
from pipelines.store.objects.session import Session, open_session
from pipelines.store.place.locks import store_lock
from pipelines.store.place.outcome import Outcome, PartitionKeys
from pipelines.store.place.roots import private_umask
from pipelines.walks import walk


def finish_unchanged(run: str) -> dict[str, Any] | None:
    """Ends a run of which no stage has to be built.

    Args:
        run: path of the run's specification.

    Returns:
        The run's record; None if a stage has to be built, or if a server of its own is to show the run.

    Raises:
        InputError: the input was largely unusable.
        PrivacyGateError: audits refute what is claimed.
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
            require_no_alarm(run)
        except BaseException:
            fail(run)
            raise
        return finish(run)


def _find_all(session: Session) -> dict[str, list[Outcome]] | None:
    """What becomes of every stage, in the graph's order; None as soon as one has to be built."""
    found: dict[str, list[Outcome]] = {}

    def visit(stage: Stage, partition: str | None, inputs: Mapping[str, PartitionKeys] | None) -> str | None:
        outcome = (  # what reads a stage that was skipped is skipped
            Outcome(stage=stage.name, partition=partition, state="skipped", key=None)
            if inputs is None
            else _probe(session, stage.name, partition, inputs)
        )
        if outcome is None:
            return None
        if not (stage.optional and outcome.key is None):
            found.setdefault(stage.name, []).append(outcome)
        return outcome.key or ""

    return None if walk(session.partition_names, visit) is None else found


def _probe(session: Session, stage: str, partition: str | None, inputs: Mapping[str, PartitionKeys]) -> Outcome | None:
    key, _ = key_of(session, stage, partition, inputs)
    try:
        return probe(session, stage, partition, key)
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
