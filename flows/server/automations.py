"""Automations of a deployment on the Prefect server: runs that were killed are marked, and failures are told."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from pipelines.errors import ConfigError

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

SILENCE_SECONDS: Final = 120
"""Silence after which a run that sent a heartbeat counts as dead: three heartbeats and some delay."""

_BAD_ENDS: Final = ("Failed", "Refused", "Crashed", "TimedOut")


def mark_killed_runs(client: SyncPrefectClient, deployment_id: UUID, name: str) -> str:
    """Creates the automation that marks killed runs as crashed. Otherwise they stay RUNNING and hold the only slot."""
    from prefect.client.schemas.objects import StateType
    from prefect.events.actions import ChangeFlowRunState
    from prefect.events.schemas.automations import Posture

    ended = {f"prefect.flow-run.{state}" for state in ("Completed", "Failed", "Refused", "Cancelled", "Crashed")}
    crashed = ChangeFlowRunState(
        name="Crashed",
        state=StateType.CRASHED,
        message=f"No heartbeat for {SILENCE_SECONDS} seconds. What was finished is kept; the next run goes on.",
        force=False,
    )
    trigger = _trigger(
        deployment_id,
        after={"prefect.flow-run.heartbeat"},
        expect={"prefect.flow-run.heartbeat", *ended},
        posture=Posture.Proactive,
        within=timedelta(seconds=SILENCE_SECONDS),
    )
    title = f"reticent: nightly/{name}, crash runs without heartbeat"
    about = "Marks a run as crashed that was killed and could not say so itself."
    _put(client, title, {"description": about, "trigger": trigger, "actions": [crashed]})
    return title


def tell_of_failures(client: SyncPrefectClient, deployment_id: UUID, name: str, block: str | None) -> None:
    """Creates the automation that sends a message if a run fails, crashes or is refused.

    Args:
        client: client of the server
        deployment_id: deployment whose runs are watched
        name: name of the deployment
        block: notification block as ``TYPE/NAME``, such as ``slack-webhook/nightly``; None to send no messages

    Raises:
        ConfigError: there is no such block.
    """
    from prefect.events.actions import SendNotification
    from prefect.events.schemas.automations import Posture
    from prefect.exceptions import ObjectNotFound

    title = f"reticent: nightly/{name}, tell of failures"
    if block is None:
        for found in _find(client, title):
            client.request("DELETE", "/automations/{id}", path_params={"id": found["id"]})
        return
    kind, _, called = block.partition("/")
    try:
        document = client.read_block_document_by_name(called, kind)
    except ObjectNotFound:
        raise ConfigError(
            f"--notify {block}: the Prefect server has no such block. Make one on its page (Blocks), and name it as "
            "TYPE/NAME, e.g. slack-webhook/nightly"
        ) from None
    message = SendNotification(
        block_document_id=document.id,
        subject="{{ flow_run.name }}: {{ flow_run.state.name }}",
        body="{{ flow_run.state.message }}\n{{ flow_run|ui_url }}",
    )
    trigger = _trigger(
        deployment_id,
        expect={f"prefect.flow-run.{state}" for state in _BAD_ENDS},
        posture=Posture.Reactive,
        within=timedelta(0),
    )
    about = "Sends a message if a run fails, crashes or is refused."
    _put(client, title, {"description": about, "trigger": trigger, "actions": [message]})


def _trigger(deployment_id: UUID, **options: Any) -> Any:
    """Returns a trigger for each run of a deployment."""
    from prefect.events.schemas.automations import EventTrigger
    from prefect.events.schemas.events import ResourceSpecification

    return EventTrigger(
        match=ResourceSpecification.model_validate({"prefect.resource.id": "prefect.flow-run.*"}),
        match_related=ResourceSpecification.model_validate(
            {"prefect.resource.id": f"prefect.deployment.{deployment_id}", "prefect.resource.role": "deployment"}
        ),
        for_each={"prefect.resource.id"},
        threshold=1,
        **options,
    )


def _find(client: SyncPrefectClient, title: str) -> list[dict[str, Any]]:
    body = {"automations": {"name": {"any_": [title]}}}
    found: list[dict[str, Any]] = client.request("POST", "/automations/filter", json=body).json()
    return found


def _put(client: SyncPrefectClient, title: str, parts: dict[str, Any]) -> None:
    """Creates an automation, or replaces the one of this name."""
    from prefect.automations import Automation

    body = Automation(name=title, **parts).model_dump(mode="json", exclude={"id", "owner_resource"})
    if found := _find(client, title):
        client.request("PUT", "/automations/{id}", path_params={"id": found[0]["id"]}, json=body)
    else:
        client.request("POST", "/automations/", json=body)
