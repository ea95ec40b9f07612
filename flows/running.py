"""``reticent run``: the nightly flow on the embedded Prefect server, or on the one that PREFECT_API_URL names."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flows.console import Console
from flows.lifecycle import finish, running
from flows.spec import begin, selection, stages_named
from pipelines.errors import ConfigError


def run_job(
    config: Path, *, from_stage: str | None, only: str | None, force: Sequence[str], verify: str | None
) -> dict[str, Any]:
    """Runs everything that changed and returns the run's record.

    Raises:
        ReticentError: as the stages raise it; what was finished before is kept.
    """
    if verify not in (None, "full", "size"):
        raise ConfigError(f"--verify must be full or size, not {verify}")
    forced = [name for stage in force for name in stages_named(stage)]
    console = Console()
    run = begin(
        config,
        os.environ,
        selected=selection(from_stage, only),
        forced=forced,
        verify=verify,
        progress=console.reading,
    )
    console.say("starting Prefect")
    # Prefect is imported only after the settings and the input were found to be in order: it takes a second.
    from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

    from flows.nightly import nightly

    _silence_teardown()
    with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}), running(run, console.progress):
        nightly(run)
        record = finish(run)
    console.close()
    return record


def _silence_teardown() -> None:
    """The embedded server prints its cancelled tasks when it stops; they mean nothing."""
    for name in ("uvicorn.error", "prefect.server", "prefect._internal", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
