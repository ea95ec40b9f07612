"""Which deployed runs are refused, in Prefect's own terms; test_flows_port.py does it on a real server."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from flows.server import guard
from flows.server.pool import BASE_JOB_TEMPLATE, code_problems, run_problems

CONFIG = "/srv/reticent/reticent.toml"
STEP = "prefect.deployments.steps.set_working_directory"


def _server_side(**changes: Any) -> tuple[Any, Any, Any]:
    """A run, its deployment and its pool as the client reads them; ``run_x`` changes x of the run, and so on."""
    from prefect.client.schemas.objects import FlowRun, WorkPool
    from prefect.client.schemas.responses import DeploymentResponse

    def of(kind: str) -> dict[str, Any]:
        return {name.removeprefix(f"{kind}_"): value for name, value in changes.items() if name.startswith(f"{kind}_")}

    deployment = {
        "id": uuid4(),
        "name": "nightly",
        "flow_id": uuid4(),
        "entrypoint": "flows.nightly.nightly",
        "parameters": {"config": CONFIG},
        "work_pool_name": "local-proc",
        "pull_steps": [],
        **of("deployment"),
    }
    run = {
        "id": uuid4(),
        "name": "a-run",
        "flow_id": deployment["flow_id"],
        "deployment_id": deployment["id"],
        "parameters": {"config": CONFIG},
        "work_pool_name": "local-proc",
        **of("run"),
    }
    pool = {"id": uuid4(), "name": "local-proc", "type": "process", "base_job_template": BASE_JOB_TEMPLATE} | of("pool")
    return FlowRun(**run), DeploymentResponse(**deployment), WorkPool(**{**pool, "default_queue_id": uuid4()})


def _default_template() -> dict[str, Any]:
    from prefect.workers.process import ProcessWorker

    return ProcessWorker.get_default_base_job_template()


def test_a_run_of_the_deployment_as_it_was_made_has_no_problem() -> None:
    assert list(run_problems(*_server_side(), CONFIG)) == []
    steps = [{STEP: {"directory": "/"}}]  # of deploy/prefect.yaml
    assert list(run_problems(*_server_side(deployment_pull_steps=steps), CONFIG)) == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"run_job_variables": {"command": "sh -c id"}}, "it brings job variables"),
        ({"run_job_variables": {"env": {"PYTHONPATH": "/tmp/x"}}}, "it brings job variables"),
        ({"run_job_variables": {"env.RETICENT__REDACT__POLICIES": "[]"}}, "it brings job variables"),
        ({"run_parameters": {"config": "/tmp/x/reticent.toml"}}, "its parameters are not the deployment's"),
        ({"run_parameters": {"config": CONFIG, "more": 1}}, "its parameters are not the deployment's"),
        ({"run_parameters": {}}, "its parameters are not the deployment's"),
        ({"run_work_pool_name": "other"}, "its work pool is not the deployment's"),
        ({"run_infrastructure_document_id": uuid4()}, "it brings infrastructure"),
        ({"deployment_entrypoint": "evil.flow"}, "its deployment has another entrypoint"),
        ({"deployment_entrypoint": "/tmp/x/flows/nightly.py:nightly"}, "its deployment has another entrypoint"),
        ({"deployment_job_variables": {"command": "id"}}, "its deployment brings job variables"),
        (
            {"deployment_pull_steps": [{"prefect.deployments.steps.run_shell_script": {"script": "id"}}]},
            "its deployment has pull steps",
        ),
        ({"deployment_pull_steps": [{STEP: {}, "evil.step": {}}]}, "its deployment has pull steps"),
        ({"deployment_storage_document_id": uuid4()}, "its deployment brings storage"),
        ({"pool_base_job_template": _default_template}, "the template of its work pool"),
        ({"pool_type": "docker"}, "the template of its work pool"),
    ],
    ids=lambda x: "" if isinstance(x, str) else ",".join(x),
)
def test_a_run_with_anything_added_has_a_problem(changes: dict[str, Any], told: str) -> None:
    """Guards: each of these is a way to make the worker run other code, or ours with another's settings."""
    made = {name: value() if callable(value) else value for name, value in changes.items()}
    problems = list(run_problems(*_server_side(**made), CONFIG))
    assert any(problem.startswith(told) for problem in problems), problems


def test_a_run_of_no_deployment_and_one_with_another_settings_file_have_a_problem() -> None:
    run, _, pool = _server_side()
    assert list(run_problems(run, None, pool, CONFIG)) == ["it belongs to no deployment"]
    assert list(run_problems(*_server_side(), "/tmp/x/spec.json")) == ["its settings file is not the deployment's"]


def test_the_templates_placeholders_are_gone() -> None:
    """Guards: a placeholder, or an ``env`` that a worker merges what a run brings into."""
    assert "{{" not in str(BASE_JOB_TEMPLATE)
    assert set(BASE_JOB_TEMPLATE["job_configuration"]) == {"stream_output"}
    assert BASE_JOB_TEMPLATE["variables"]["additionalProperties"] is False
    assert "{{ command }}" in str(_default_template())  # what is guarded against


def test_a_workers_configuration_takes_nothing_from_a_run() -> None:
    """Guards: what Prefect's worker makes of a template and of job variables, also of those no server has checked."""
    import asyncio

    from prefect.workers.process import ProcessJobConfiguration

    evil = {"command": "sh -c id", "env": {"PYTHONPATH": "/tmp/x"}, "env.LD_PRELOAD": "x.so", "working_dir": "/tmp"}

    def configured(template: dict[str, Any]) -> ProcessJobConfiguration:
        make = ProcessJobConfiguration.from_template_and_values
        return asyncio.run(make(template, evil, client=object()))  # type: ignore[arg-type]

    ours, default = configured(BASE_JOB_TEMPLATE), configured(_default_template())
    assert (ours.command, ours.env, ours.working_dir) == (None, {}, None)
    assert default.command == "sh -c id"
    assert default.env == {"PYTHONPATH": "/tmp/x", "LD_PRELOAD": "x.so"}


def test_other_deployments_code_is_seen() -> None:
    _, deployment, _ = _server_side(deployment_entrypoint="flows.train.train")
    assert list(code_problems(deployment)) == []
    _, deployment, _ = _server_side(deployment_entrypoint=None)
    assert list(code_problems(deployment)) != []


@pytest.mark.parametrize(
    ("own", "names"),
    [
        ({}, []),
        ({"PREFECT__FLOW_RUN_ID": "x", "PREFECT_WORKER_QUERY_SECONDS": "1.0", "LC_CTYPE": "C.UTF-8"}, []),
        ({"PYTHONPATH": f"{Path.cwd()}{os.pathsep}/opt/worker{os.pathsep}{sys.prefix}/lib"}, ["PYTHONPATH"]),
        ({"PYTHONPATH": f"{Path.cwd()}{os.pathsep}/opt/worker"}, []),
        ({"PYTHONSTARTUP": "/tmp/x.py"}, ["PYTHONSTARTUP"]),
        ({"LD_PRELOAD": "/tmp/x.so"}, ["LD_PRELOAD"]),
        ({"RETICENT__REDACT__POLICIES": "[]"}, ["RETICENT__REDACT__POLICIES"]),
        ({"RETICENT_DEBUG": "1"}, ["RETICENT_DEBUG"]),
        ({"PREFECT_API_URL": "http://elsewhere/api"}, ["PREFECT_API_URL"]),
        ({"PREFECT_HOME": "/tmp/x"}, ["PREFECT_HOME"]),
        ({"HF_HUB_OFFLINE": "0"}, ["HF_HUB_OFFLINE"]),
        ({"PATH": "/tmp/x:/usr/bin"}, ["PATH"]),
    ],
    ids=lambda x: ",".join(x),
)
def test_decisive_variables_that_the_worker_has_not_are_seen(own: dict[str, str], names: list[str]) -> None:
    worker = {
        "PATH": "/usr/bin",
        "PYTHONPATH": "/opt/worker",
        "PREFECT_API_URL": "http://127.0.0.1:4200/api",
        "PREFECT_HOME": "/var/lib/reticent",
        "HF_HUB_OFFLINE": "1",
    }
    assert list(guard.foreign_names({**worker, **own}, worker)) == names


def test_a_settings_file_that_everybody_can_change_is_a_problem(tmp_path: Path) -> None:
    """Guards: plug-in policies are code, and the settings file names them."""
    config = tmp_path / "reticent.toml"
    config.touch()
    config.chmod(0o644)
    assert list(guard._file_problems(config)) == []
    config.chmod(0o666)
    assert list(guard._file_problems(config)) == ["its settings file can be changed by every user"]
    config.chmod(0o644)
    tmp_path.chmod(0o777)
    assert list(guard._file_problems(config)) == ["the folder of its settings file can be changed by every user"]
