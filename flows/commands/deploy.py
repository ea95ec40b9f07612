"""``reticent deploy``: makes the nightly flow a scheduled deployment on a Prefect server.

Functions import Prefect themselves, because ``python -m flows.commands.deploy``, the check at a worker's start, must
report a broken installation even if an import of Prefect would fail.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import sys
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID
from zoneinfo import ZoneInfo

from flows.printing import protect_streams
from flows.running.installation import check_installation
from flows.server.automations import SILENCE_SECONDS, mark_killed_runs, tell_of_failures
from flows.server.credentials import HOW_TO_CLOSE, check_password_is_needed, close_home
from flows.server.guard import check_heartbeat
from flows.server.pool import ENTRYPOINTS, make_pool
from pipelines.errors import ConfigError, ReticentError, StoreError

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

TAGS = ("reticent", "nightly")
DESCRIPTION = """\
Prepares the text, trains if a training is due, states the guarantee and reports. Runs only what changed.

- **Completed**: the summary (Artifacts) has epsilon before and after, the budget that is left, and the report's place.
- **Refused**: the run would have broken a privacy promise, such as the budget. Nothing new was published.
- **Failed**, **Crashed**: finished stages are kept. Mend what the message names, and start the run again."""
_SCHEDULE_WAIT_SECONDS = 20.0


def deploy(
    config: Path, environ: Mapping[str, str], *, cron: str, timezone: str, pool: str, name: str, notify: str | None
) -> dict[str, Any]:
    """Creates or updates pool, deployment, schedule and automation on the server. A second equal call changes nothing.

    Returns:
        A dictionary of ``deployment``, ``deployment_id``, ``pool``, ``pool_template`` (``made``, ``replaced`` or
        ``kept``), ``cron``, ``timezone``, ``config``, ``automation``, ``notify`` (block that tells of failures, or
        None), and ``next_run``, the time of the next run that the server has planned (None if it has planned none yet).

    Raises:
        ConfigError: no server is named, the server asks for no password or another one, the settings, schedule or time
            zone are wrong, or the pool has another type or is not ours alone.
        StoreError: the server does not answer.
    """
    from pipelines.settings.loading import load_settings

    load_settings(config, environ)
    if not environ.get("PREFECT_API_URL"):
        raise ConfigError(
            f"PREFECT_API_URL is not set, and a deployment needs a Prefect server that stays: {HOW_TO_CLOSE}"
        )
    check_installation()
    _check_schedule(cron, timezone)
    path = str(config.resolve())
    import httpx
    from prefect import get_client
    from prefect.settings import PREFECT_HOME

    close_home(PREFECT_HOME.value())
    check_password_is_needed()
    try:
        with get_client(sync_client=True) as client:
            pool_template = make_pool(client, pool, name)
            deployment_id = _make_deployment(client, path, cron=cron, timezone=timezone, pool=pool, name=name)
            automation = mark_killed_runs(client, deployment_id, name)
            tell_of_failures(client, deployment_id, name, notify)
            next_run = _next_run(client, deployment_id)
    except (httpx.TransportError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "reach" not in str(error):
            raise  # Prefect raises a bare RuntimeError if it cannot reach its server
        raise StoreError(
            "the Prefect server that PREFECT_API_URL names does not answer; start it (prefect server start)"
        ) from None
    except httpx.HTTPStatusError as error:
        if error.response.status_code in (401, 403):
            raise ConfigError(
                "the Prefect server asks for a password that PREFECT_API_AUTH_STRING does not hold; read the file that "
                "the server was started with (`set -a; . FILE; set +a`)"
            ) from None
        raise StoreError(
            f"the Prefect server refused a request with status {error.response.status_code}; is its version 3.8?"
        ) from None
    return {
        "deployment": f"nightly/{name}",
        "deployment_id": str(deployment_id),
        "pool": pool,
        "pool_template": pool_template,
        "cron": cron,
        "timezone": timezone,
        "config": path,
        "automation": automation,
        "notify": notify,
        "next_run": next_run,
    }


def _check_schedule(cron: str, timezone: str) -> None:
    from prefect.client.schemas.schedules import CronSchedule

    try:
        ZoneInfo(timezone)
    except (ValueError, OSError, LookupError):
        raise ConfigError(f"--timezone {timezone}: no such time zone; write it as in Europe/Berlin or UTC") from None
    try:
        CronSchedule(cron=cron, timezone=timezone)
    except ValueError:
        raise ConfigError(f'--cron "{cron}" is no cron schedule; write five fields as in "0 2 * * *"') from None


def _make_deployment(client: SyncPrefectClient, config: str, *, cron: str, timezone: str, pool: str, name: str) -> UUID:
    from prefect.client.schemas.actions import DeploymentScheduleCreate
    from prefect.client.schemas.objects import ConcurrencyLimitStrategy, ConcurrencyOptions
    from prefect.client.schemas.schedules import CronSchedule
    from prefect.utilities.callables import parameter_schema

    from flows.nightly import nightly

    when = CronSchedule(cron=cron, timezone=timezone)
    return client.create_deployment(
        flow_id=client.create_flow_from_name(nightly.name),
        name=name,
        entrypoint=ENTRYPOINTS[0],  # a module, not a file: the worker runs what is installed, and copies no code
        work_pool_name=pool,
        schedules=[DeploymentScheduleCreate(schedule=when, active=True, slug="nightly")],
        concurrency_limit=1,
        concurrency_options=ConcurrencyOptions(collision_strategy=ConcurrencyLimitStrategy.CANCEL_NEW),
        parameters={"config": config},
        parameter_openapi_schema=parameter_schema(nightly).model_dump(mode="json", exclude_unset=True),
        enforce_parameter_schema=True,
        tags=list(TAGS),
        description=DESCRIPTION,
        version=importlib.metadata.version("reticent"),
        job_variables={},
        pull_steps=[],
        paused=False,
    )


def _next_run(client: SyncPrefectClient, deployment_id: UUID) -> str | None:
    """Returns the earliest planned run. Waits some seconds until the server's scheduler plans a new deployment."""
    body = {
        "sort": "EXPECTED_START_TIME_ASC",
        "limit": 1,
        "deployments": {"id": {"any_": [str(deployment_id)]}},
        "flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}},
    }
    deadline = time.monotonic() + _SCHEDULE_WAIT_SECONDS
    while True:
        found = client.request("POST", "/flow_runs/filter", json=body).json()
        if found or time.monotonic() > deadline:
            return str(found[0]["expected_start_time"]) if found else None
        time.sleep(0.5)


def deploy_text(document: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    """Describes the deployment for people, and how to start a worker."""
    when = "not planned yet; see the server's page"
    if document["next_run"]:
        instant = datetime.fromisoformat(document["next_run"].replace("Z", "+00:00"))
        when = f"{instant.astimezone(ZoneInfo(document['timezone'])):%Y-%m-%d %H:%M} {document['timezone']}"
    template = {
        "made": "made; no run can choose what its worker runs",
        "replaced": "its template is replaced, because the old one let any run choose what the worker runs",
        "kept": "unchanged; no run can choose what its worker runs",
    }
    lines = [
        f"deployment  {document['deployment']}, one run at a time, a second one is cancelled",
        f"settings    {document['config']}",
        f'schedule    "{document["cron"]}" {document["timezone"]}',
        f"next run    {when}",
        f"pool        {document['pool']}: {template[document['pool_template']]}",
        f"automation  runs without heartbeat for {SILENCE_SECONDS} s are marked crashed",
        f"failures    told by {document['notify']}" if document["notify"] else "failures    told to nobody (--notify)",
        f"a worker    prefect worker start --pool {document['pool']} --type process",
        f"run now     prefect deployment run {document['deployment']}",
    ]
    if overrides := sorted(name for name in environ if name.startswith("RETICENT__")):
        lines.append(
            f"note        {', '.join(overrides)} must be set in the worker's environment; a deployment keeps none"
        )
    return "\n".join(lines)


def check_worker(environ: Mapping[str, str]) -> None:
    """Checks a worker's requirements before it starts. The server may still be starting.

    Raises:
        ConfigError: another distribution hides ours, the environment lacks something, or the server is open.
    """
    check_installation()
    if not environ.get("PREFECT_API_URL"):
        raise ConfigError("PREFECT_API_URL is not set; the worker needs to know its server")
    check_heartbeat(environ)
    with contextlib.suppress(StoreError):
        check_password_is_needed()


if __name__ == "__main__":
    protect_streams()
    try:
        check_worker(os.environ)
    except ReticentError as error:
        print(f"reticent: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
