"""The work pool of the nightly deployment, and checks that a run in it chooses no code of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pipelines.errors import ConfigError

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

ENTRYPOINTS = ("flows.nightly.nightly", "flows.prepare.prepare", "flows.train.train")
BASE_JOB_TEMPLATE: dict[str, Any] = {
    # No placeholder: command, working directory and environment are the worker's own. Not even a fixed `env`, because a
    # worker merges a run's own `env` into it.
    "job_configuration": {"stream_output": True},
    "variables": {"type": "object", "properties": {}, "additionalProperties": False},
}
_HARMLESS_STEP = "prefect.deployments.steps.set_working_directory"


def make_pool(client: SyncPrefectClient, pool: str, deployment: str) -> str:
    """Creates the pool, or brings its template up to date.

    Returns:
        ``made``, ``replaced`` (the old template let a run choose what the worker runs) or ``kept``.

    Raises:
        ConfigError: the pool has another type, or holds deployments of others, whose code the worker would run.
    """
    from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
    from prefect.exceptions import ObjectNotFound

    try:
        found = client.read_work_pool(pool)
    except ObjectNotFound:
        client.create_work_pool(WorkPoolCreate(name=pool, type="process", base_job_template=BASE_JOB_TEMPLATE))
        return "made"
    if found.type != "process":
        raise ConfigError(f"work pool {pool} is of type {found.type}, not process; choose another with --pool")
    if foreign := sorted(_foreign_deployments(client, pool, deployment)):
        raise ConfigError(
            f"work pool {pool} also has {', '.join(foreign)}, and its worker, which can read the private root, runs "
            "their code; delete deployments that you do not know, or choose another pool with --pool"
        )
    if found.base_job_template == BASE_JOB_TEMPLATE:
        return "kept"
    client.update_work_pool(pool, WorkPoolUpdate(base_job_template=BASE_JOB_TEMPLATE))
    return "replaced"


def _foreign_deployments(client: SyncPrefectClient, pool: str, own: str) -> Iterator[str]:
    from prefect.client.schemas.filters import WorkPoolFilter, WorkPoolFilterName

    wanted = WorkPoolFilter(name=WorkPoolFilterName(any_=[pool]))
    offset = 0
    while found := client.read_deployments(work_pool_filter=wanted, offset=offset, limit=100):
        offset += len(found)
        for deployment in found:
            flow = client.read_flow(deployment.flow_id).name
            if (flow, deployment.name) != ("nightly", own) and list(code_problems(deployment)):
                yield f"{flow}/{deployment.name}"


def code_problems(deployment: Any) -> Iterator[str]:
    """Yields reasons why a deployment, as the server describes it, may run code that is not ours."""
    if deployment.entrypoint not in ENTRYPOINTS:
        yield "its deployment has another entrypoint"
    steps = deployment.pull_steps or []
    if any(not isinstance(step, Mapping) or list(step) != [_HARMLESS_STEP] for step in steps):
        yield "its deployment has pull steps"
    if deployment.storage_document_id or deployment.infrastructure_document_id:
        yield "its deployment brings storage or infrastructure"


def run_problems(run: Any, deployment: Any, pool: Any, config: str) -> Iterator[str]:
    """Yields differences between a run, as the server describes it, and its deployment.

    Args:
        run, deployment, pool: objects of the server; None if the run has no such object
        config: the flow's argument
    """
    if deployment is None:
        yield "it belongs to no deployment"
        return
    yield from code_problems(deployment)
    if run.job_variables:
        yield "it brings job variables"
    if run.infrastructure_document_id:
        yield "it brings infrastructure"
    if deployment.job_variables:
        yield "its deployment brings job variables"
    if run.parameters != deployment.parameters or set(run.parameters) != {"config"}:
        yield "its parameters are not the deployment's"
    if deployment.parameters.get("config") != config:
        yield "its settings file is not the deployment's"
    if pool is None or run.work_pool_name != deployment.work_pool_name:
        yield "its work pool is not the deployment's"
    elif pool.type != "process" or pool.base_job_template != BASE_JOB_TEMPLATE:
        yield "the template of its work pool lets a run choose what the worker runs"
