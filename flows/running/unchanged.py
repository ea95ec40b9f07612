"""Ends a run that finds everything in the store. It needs no orchestrator, whose start takes longer than its work."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flows.environment import on_server
from flows.running.auditing import require_no_alarm
from flows.running.lifecycle import fail, finish, require_usable_input
from flows.running.temporary import temporary_files
from pipelines.errors import ConfigError
from pipelines.stage import Stage, Step
from pipelines.store.building.execute import probe
from pipelines.store.building.lookup import resolve_key
from pipelines.store.objects.session import Session, open_session
from pipelines.store.place.locks import store_lock
from pipelines.store.place.outcome import Outcome, outcomes_to_record, skipped_outcomes
from pipelines.store.place.roots import private_umask
from pipelines.walks import walk


def finish_unchanged(run: str) -> dict[str, Any] | None:
    """Ends a run if no stage has to be built.

    Returns:
        The run's record; None if a stage has to be built, or if a server of its own should show the run.

    Raises:
        InputError: the input was largely unusable.
        PrivacyGateError: audits refute the claims.
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


def _find_all(session: Session) -> dict[str, tuple[Outcome, ...]] | None:
    """Returns the outcomes of every stage, in the graph's order; None as soon as a stage has to be built."""
    found: dict[str, tuple[Outcome, ...]] = {}

    def look_up(stage: Stage, steps: tuple[Step, ...]) -> list[str | None] | None:
        outcomes = skipped_outcomes(stage, steps) or _probe(session, stage.name, steps)
        if outcomes is None:
            return None
        found[stage.name] = outcomes_to_record(stage, outcomes)
        return [outcome.key for outcome in outcomes]

    return None if walk(session.partition_names, look_up) is None else found


def _probe(session: Session, stage: str, steps: Iterable[Step]) -> tuple[Outcome, ...] | None:
    outcomes: list[Outcome] = []
    for step in steps:
        key, _ = resolve_key(session, stage, step.partition, step.inputs)
        try:
            outcome = probe(session, stage, step.partition, key)
        except ConfigError:
            return None  # the flow raises it again
        if outcome is None:
            return None
        outcomes.append(outcome)
    return tuple(outcomes)


def _profile_names_server() -> bool:
    """Reads whether Prefect's active profile names a server, without Prefect, because importing it takes a second."""
    home = Path(os.environ.get("PREFECT_HOME") or Path.home() / ".prefect")
    path = Path(os.environ.get("PREFECT_PROFILES_PATH") or home / "profiles.toml")
    try:
        document = tomllib.loads(path.read_text("utf-8"))
        active = os.environ.get("PREFECT_PROFILE") or document.get("active")
        return "PREFECT_API_URL" in document["profiles"][active]
    except (OSError, ValueError, KeyError, TypeError):
        return False
