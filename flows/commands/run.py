"""``reticent run``: runs the nightly flow on the embedded Prefect server, or on the one that PREFECT_API_URL names."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.running.lifecycle import fail, finish, refuse_settings, retire, running, silence_libraries
from flows.running.mirroring import mirror_published
from flows.running.progress import Console
from flows.running.spec import begin, selection, stages_named
from flows.running.unchanged import finish_unchanged
from flows.server.embedded import protect_server
from pipelines.context import Purpose
from pipelines.errors import ConfigError, StoreError
from pipelines.graph import GRAPH
from pipelines.settings.loading import ProjectSettings, load_settings
from pipelines.store.objects.runs import new_run_id
from pipelines.store.objects.session import RunSpec, child_of, make_session, save_spec
from pipelines.walks import enabled_stages


def run_job(
    config: Path,
    *,
    from_stage: str | None,
    only: str | None,
    force: Sequence[str],
    verify: str | None,
    environ: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Runs everything that changed and returns the run's record.

    Raises:
        ReticentError: a stage failed. The results of earlier stages are kept.
    """
    if verify not in (None, "full", "size"):
        raise ConfigError(f"--verify must be full or size, not {verify}")
    environ = os.environ if environ is None else environ
    settings = load_settings(config, environ)
    selected, forced = requested(from_stage, only, force, settings)
    console = Console()
    for warning in settings.warnings:
        console.say(f"warning: {warning}")
    run = begin(config, environ, selected=selected, forced=forced, verify=verify, progress=console.reading)
    record = _run_begun(run, console)
    record["num_superseded_removed"] = retire(run)
    try:
        done = mirror_published(settings, console.copying)
        record["mirror"] = None if done is None else vars(done).copy()
    except StoreError as error:  # the run itself is complete
        record["mirror"] = {"problem": str(error)}
    console.close()
    return record


def child_run(parent: RunSpec, *, purpose: Purpose) -> dict[str, Any]:
    """Runs a child of a run (`pipelines.store.objects.session.child_of`) and returns its record.

    Raises:
        ReticentError: `child_of` or a stage failed. The results of earlier stages are kept.
    """
    spec = child_of(parent, new_run_id(), purpose=purpose)
    return _run_begun(str(save_spec(make_session(spec))), Console())


def _run_begun(run: str, console: Console) -> dict[str, Any]:
    record = finish_unchanged(run)
    if record is None:
        refuse_settings(run)
        record = _run_flow(run, console)
    console.close()
    return record


def _run_flow(run: str, console: Console) -> dict[str, Any]:
    console.say("starting Prefect")
    # Imports Prefect, which takes a second, only after settings and input have been checked.
    protect_server()
    from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

    from flows.nightly import nightly

    silence_libraries()
    with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}), running(run, console.progress):
        try:
            nightly(run)
        except RuntimeError as error:
            raise _server_error(error, fail(run)) from None
        except BaseException:
            fail(run)
            raise
        return finish(run)


def requested(
    from_stage: str | None, only: str | None, force: Sequence[str], settings: ProjectSettings
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the selected and the forced stages.

    A name of several stages, such as ``audit``, forces only those that the settings enable.

    Raises:
        ConfigError: a stage does not exist, both --from and --only are given, or a forced stage is not selected.
    """
    selected = selection(from_stage, only)
    named = (stages_named(stage) for stage in force)
    forced = tuple(name for names in named for name in (enabled_stages(names, settings.stages) or names))
    if outside := [name for name in forced if name not in selected]:
        raise ConfigError(
            f"--force {GRAPH[outside[0]].shown_name} is not among the stages that --from or --only select: name it "
            "there too, or leave --from and --only out"
        )
    return selected, forced


def _server_error(error: RuntimeError, record: dict[str, Any]) -> Exception:
    """Converts Prefect's bare RuntimeError for an unreachable server to a `StoreError`."""
    if os.environ.get("PREFECT_API_URL") and not record["stages"]:
        return StoreError(
            "the Prefect server that PREFECT_API_URL names does not answer; start it (prefect server start), "
            "or unset PREFECT_API_URL to use the embedded one"
        )
    return error
