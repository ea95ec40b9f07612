"""Checks that a deployed run is exactly what `reticent deploy` made, before the run begins.

Anybody who may talk to a Prefect server can start runs with variables, parameters and deployments of their own, and the
worker that runs them reads the private root. The server's password keeps others out, and the work pool's template lets
no run choose a command. This check is the third defence: it also finds changes from before the other two existed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from flows.environment import HEARTBEAT, HEARTBEAT_SECONDS
from flows.server.credentials import check_password_is_needed
from flows.server.pool import run_problems
from pipelines.errors import ConfigError, PrivacyGateError, StoreError

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun

_DECISIVE = ("PYTHON", "LD_", "RETICENT", "HF_", "SSL_", "HTTP_PROXY", "HTTPS_PROXY", "PATH", "HOME")
"""Prefixes of variables that decide which code runs, with which settings, and which machines it talks to."""

_DECISIVE_OF_PREFECT = (
    "PREFECT_API_URL",
    "PREFECT_API_AUTH_STRING",
    "PREFECT_HOME",
    "PREFECT_PROFILES_PATH",
    "PREFECT_LOGGING_CONFIG_PATH",
    "PREFECT_LOGGING_SETTINGS_PATH",
)
"""Prefect's own variables that count. The others do not, because a worker passes all its settings on, reworded."""


def refuse_foreign_run(config: str) -> None:
    """Refuses a run that its deployment did not define. Does nothing outside a worker.

    Args:
        config: the flow's argument. Specifications of runs are refused as well, because they name code.

    Raises:
        PrivacyGateError: the run differs from its deployment. The message names no value of the run.
        ConfigError: the server asks for no password, or the worker lacks its environment.
        StoreError: the server could not be asked.
    """
    run = _run_of_a_worker()
    if run is None:
        return
    check_password_is_needed()
    problems = [*_problems_on_the_server(run, config), *_file_problems(Path(config)), *_environment_problems()]
    if problems:
        raise PrivacyGateError(
            f"this run is refused: {'; '.join(problems)}. If you know whose it is, `reticent deploy` again and start "
            "it without anything added; if not, somebody else can start runs on this server"
        )
    check_heartbeat(os.environ)


def check_heartbeat(environ: Mapping[str, str]) -> None:
    """Refuses a worker whose runs would send no heartbeat.

    Raises:
        ConfigError: the variable is missing.
    """
    if HEARTBEAT not in environ:
        raise ConfigError(
            f"the worker's environment lacks {HEARTBEAT}={HEARTBEAT_SECONDS}, so a run that is killed would hold the "
            "only slot for ever; `reticent deploy --init-auth FILE` writes it, `set -a; . FILE; set +a` reads it"
        )


def _run_of_a_worker() -> FlowRun | None:
    from prefect.context import FlowRunContext

    context = FlowRunContext.get()
    run = context.flow_run if context else None
    if run is None or (run.deployment_id is None and str(run.id) != os.environ.get("PREFECT__FLOW_RUN_ID")):
        return None
    return run


def _problems_on_the_server(run: FlowRun, config: str) -> list[str]:
    import httpx
    from prefect import get_client

    try:
        with get_client(sync_client=True) as client:
            run = client.read_flow_run(run.id)
            deployment = client.read_deployment(run.deployment_id) if run.deployment_id else None
            pool = client.read_work_pool(run.work_pool_name) if run.work_pool_name else None
    except (httpx.HTTPError, RuntimeError):
        raise StoreError(
            "the Prefect server does not answer, so it is unknown who started this run; start the server, then the "
            "run again"
        ) from None
    return list(run_problems(run, deployment, pool, config))


def _file_problems(config: Path) -> Iterator[str]:
    """Yields problems of the settings' folder, which may hold code: plug-in policies that the settings name."""
    for place, name in ((config, "its settings file"), (config.parent, "the folder of its settings file")):
        try:
            mode = place.stat().st_mode
        except OSError:
            continue  # the run cannot begin, and reports why
        if mode & 0o002:
            yield f"{name} can be changed by every user"


def _environment_problems() -> Iterator[str]:
    """Compares this process's environment at its start with the worker's, if /proc shows both."""
    own, worker = _environment("self"), _environment(str(os.getppid()))
    if own is None or worker is None or "PREFECT__FLOW_RUN_ID" in worker:
        return
    if names := sorted(foreign_names(own, worker)):
        yield f"its environment is not the worker's ({', '.join(names)})"


def _environment(process: str) -> dict[str, str] | None:
    try:
        entries = Path("/proc", process, "environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return None
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def foreign_names(own: Mapping[str, str], worker: Mapping[str, str]) -> Iterator[str]:
    """Yields decisive variables whose value differs from the worker's."""
    for name, value in own.items():
        if worker.get(name) == value:
            continue
        if name == "PYTHONPATH":
            if _added(value, worker.get(name, "")):
                yield name
        elif name.startswith(_DECISIVE) or (name in _DECISIVE_OF_PREFECT and name in worker):
            yield name


def _added(path: str, before: str) -> set[str]:
    """Returns folders that were added to a path, except those of Prefect: the working folder and the interpreter's."""
    added = set(path.split(os.pathsep)) - set(before.split(os.pathsep)) - {str(Path.cwd())}
    if not added:
        return added
    command = [sys.executable, "-I", "-c", "import sys; print(*sys.path, sep='\\0')"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return added - set(done.stdout.rstrip("\n").split("\0"))
