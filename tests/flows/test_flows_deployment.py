"""The nightly deployment: a real Prefect server, pool and worker on loopback."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from support import REPOSITORY, patches, run_command
from support.prefect_server import BIN, Server, processes
from support.project import small_project
from support.waiting import slowness, wait_for

from flows.commands.deploy import DESCRIPTION


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("server"))
    try:
        yield made
    finally:
        left = made.stop()
    assert left == []


@pytest.fixture(scope="module")
def deployed(server: Server) -> tuple[Path, dict[str, Any]]:
    """A project and what ``reticent deploy`` printed; deployed twice, which must not matter."""
    config = small_project(server.folder / "project", workers=2)
    server.reticent("deploy", config, "--cron", "5 1 * * *")
    done = server.reticent("deploy", config, "--cron", "30 2 * * *", "--timezone", "Europe/Berlin", "--json")
    assert done.returncode == 0, done.stderr
    return config, json.loads(done.stdout)


@pytest.fixture(scope="module")
def worker(server: Server, deployed: tuple[Path, dict[str, Any]]) -> None:
    """A worker of the pool that ``deployed`` made."""
    server.start("worker", "worker", "start", "--pool", "local-proc", "--type", "process")


@pytest.mark.slow
def test_deploy_registers_schedule_limit_and_automation_once(
    server: Server, deployed: tuple[Path, dict[str, Any]]
) -> None:
    config, document = deployed
    found = server.call("POST", "/deployments/filter", {})
    assert len(found) == 1
    assert [s["schedule"] for s in found[0]["schedules"]] == [
        {"cron": "30 2 * * *", "timezone": "Europe/Berlin", "day_or": True}
    ]
    assert found[0]["schedules"][0]["active"]
    assert found[0]["parameters"] == {"config": str(config)}
    assert found[0]["entrypoint"] == "flows.nightly.nightly"
    assert found[0]["job_variables"] == {}
    assert found[0]["concurrency_options"]["collision_strategy"] == "CANCEL_NEW"
    assert found[0]["global_concurrency_limit"]["limit"] == 1
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT0[01]:30:00(Z|\+00:00)", document["next_run"])  # 2:30 in Berlin
    automations = server.call("POST", "/automations/filter", {})
    assert len(automations) == 1
    assert automations[0]["trigger"]["posture"] == "Proactive"
    assert automations[0]["trigger"]["match_related"]["prefect.resource.id"].endswith(document["deployment_id"])
    assert automations[0]["actions"][0]["state"] == "CRASHED"


@pytest.mark.slow
@pytest.mark.usefixtures("worker")
def test_triggered_run_completes_and_a_second_is_cancelled(
    server: Server, deployed: tuple[Path, dict[str, Any]]
) -> None:
    config, document = deployed
    first = server.trigger(document["deployment_id"])
    wait_for("the first run", lambda: server.state(first) == "RUNNING", 120)
    second = server.trigger(document["deployment_id"])
    wait_for("the second run's end", lambda: server.state(second) == "CANCELLED", 120)
    wait_for("the first run's end", lambda: server.state(first) not in ("RUNNING", "PENDING"), 240)
    assert server.state(first) == "COMPLETED", (server.folder / "worker.log").read_text()

    record = json.loads(next((config.parent / "reticent-store/private/runs").glob("*/record.json")).read_text())
    assert record["state"] == "completed"
    assert server.call("GET", f"/flow_runs/{first}")["name"] == f"nightly {record['run_id']}"
    artifacts = {a["key"]: a for a in server.call("POST", "/artifacts/filter", {})}
    assert {"reticent-summary", "reticent-stages", "reticent-figures"} <= artifacts.keys()
    assert all(a["flow_run_id"] == first for a in artifacts.values())
    assert record["run_id"] in artifacts["reticent-summary"]["data"]
    stages = json.loads(artifacts["reticent-stages"]["data"])
    partitions = len({row["partition"] for row in record["stages"] if row["stage"] == "redact"})
    assert partitions > 1
    assert {row["stage"]: row["built"] for row in stages}["redact"] == partitions
    figures = {row["figure"]: row["value"] for row in json.loads(artifacts["reticent-figures"]["data"])}
    assert float(figures["epsilon of the headline claim"]) == pytest.approx(record["metrics"]["epsilon"], rel=0.01)
    newest = max(server.call("POST", "/artifacts/filter", {}), key=lambda artifact: artifact["created"])
    assert newest["key"] == "reticent-summary"
    names = [t["name"] for t in server.call("POST", "/task_runs/filter", {})]
    assert {"train", "report", "dedup resolve"} <= set(names)
    assert names.count("redact") == 1  # however many partitions there are


@contextmanager
def _messages() -> Iterator[tuple[str, list[str]]]:
    """A place on loopback that takes messages: its address, and what it got."""
    got: list[str] = []

    class Place(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    place = ThreadingHTTPServer(("127.0.0.1", 0), Place)
    threading.Thread(target=place.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{place.server_port}/", got
    finally:
        place.shutdown()


BLOCK = """
import sys
from prefect.blocks.notifications import CustomWebhookNotificationBlock as Webhook
Webhook(name="w", url=sys.argv[1], json_data={"text": "{{subject}} / {{body}}"}).save("nightly")
"""


@pytest.mark.slow
@pytest.mark.usefixtures("worker")
def test_a_refused_run_says_so_in_one_sentence_and_tells_who_asked_for_it(
    server: Server, deployed: tuple[Path, dict[str, Any]]
) -> None:
    config, document = deployed
    schedule = ("--cron", "30 2 * * *", "--timezone", "Europe/Berlin")
    text = config.read_text()
    wrong = server.reticent("deploy", config, "--notify", "slack-webhook/nobody")
    assert wrong.returncode == 2
    assert "--notify slack-webhook/nobody: the Prefect server has no such block" in wrong.stderr
    with _messages() as (address, got):
        assert server.python("-c", BLOCK, address).returncode == 0
        told = server.reticent("deploy", config, *schedule, "--notify", "custom-webhook/nightly")
        assert "told by custom-webhook/nightly" in told.stdout, told.stderr
        budget = text.replace("[guarantee]", "[guarantee]\nbudget_epsilon = 0.01")
        budget = budget if "[guarantee]" in text else f"{text}[guarantee]\nbudget_epsilon = 0.01\n"
        config.write_text(budget.replace("epochs = 1", "epochs = 2"))
        try:
            run = server.trigger(document["deployment_id"])
            wait_for("the run's end", lambda: server.state(run) in ("COMPLETED", "FAILED"), 240)
            state = server.call("GET", f"/flow_runs/{run}")["state"]
            wait_for("the message", lambda: got, 60)
        finally:
            config.write_text(text)
            server.reticent("deploy", config, *schedule)
    assert (state["type"], state["name"]) == ("FAILED", "Refused")
    assert re.fullmatch(r"Training was not started: .* above guarantee\.budget_epsilon = 0\.01\.", state["message"])
    assert "nightly 2" in got[0]
    assert state["message"] in json.loads(got[0])["text"]
    logs = server.call("POST", "/logs/filter", {"logs": {"flow_run_id": {"any_": [run]}}, "limit": 200})
    assert not [line for line in logs if "Traceback" in line["message"] or "exception" in line["message"]]
    assert any(line["message"].startswith("What to do: Keep the model") for line in logs)
    artifacts = server.call("POST", "/artifacts/filter", {"artifacts": {"flow_run_id": {"any_": [run]}}})
    summary = next(a["data"] for a in artifacts if a["key"] == "reticent-summary")
    assert ": refused" in summary
    assert "up to date" not in summary
    assert "| budget left | 0 of 0.01 |" in summary
    assert len(server.call("POST", "/automations/filter", {})) == 1  # the second deploy asked for no messages


@pytest.mark.slow
@pytest.mark.usefixtures("worker")
def test_prefect_yaml_makes_a_deployment_that_runs(server: Server, deployed: tuple[Path, dict[str, Any]]) -> None:
    """After the run of the test before, so that nothing is left to do; with a pool as docs/deploying.md makes it."""
    config, document = deployed
    template = str(REPOSITORY / "deploy/base-job-template.json")
    pool = ["work-pool", "create", "from-file", "--type", "process", "--base-job-template", template]
    files = ["--no-prompt", "deploy", "--all", "--prefect-file", str(REPOSITORY / "deploy/prefect.yaml")]
    for arguments in (pool, files):
        done = run_command(
            server.command(str(BIN / "prefect"), *arguments),
            env={**server.environment, "RETICENT_CONFIG": str(config)},
            cwd=server.folder,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    made = server.call("GET", "/work_pools/from-file")["base_job_template"]
    assert made == server.call("GET", "/work_pools/local-proc")["base_job_template"]
    try:
        deployment = server.call("GET", f"/deployments/{document['deployment_id']}")
        assert deployment["description"].strip() == DESCRIPTION
        assert deployment["pull_steps"]  # as the file has it, not as `reticent deploy` made it
        run = server.trigger(document["deployment_id"])
        wait_for("the run's end", lambda: server.state(run) in ("COMPLETED", "FAILED"), 240)
        assert server.state(run) == "COMPLETED", server.call("GET", f"/flow_runs/{run}")["state"]["message"]
    finally:
        server.reticent("deploy", config, "--cron", "30 2 * * *", "--timezone", "Europe/Berlin")


@pytest.mark.slow
def test_the_servers_database_holds_no_secret_and_no_file_name(
    server: Server, deployed: tuple[Path, dict[str, Any]]
) -> None:
    """After the run of the test before."""
    config, _ = deployed
    rows = [json.loads(line) for p in (config.parent / "corpus").glob("*.jsonl") for line in p.read_text().splitlines()]
    secrets = {row["text"][s["start"] : s["end"]] for row in rows for s in row["spans"]}
    names = {p.name for p in (config.parent / "corpus").glob("*.jsonl")}
    # `.dump` also shows what is still in the write-ahead log.
    with sqlite3.connect(f"file:{server.home / 'prefect.db'}?mode=ro", uri=True) as database:
        dump = "\n".join(database.iterdump())
    assert "reticent-summary" in dump
    assert "Completed" in dump
    assert not [s for s in secrets if len(s) > 6 and s in dump]
    assert not [name for name in names if name in dump]


@pytest.mark.slow
@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("setting", ['inputs = ["zebulon-quackenbush.txt"]', "zebulon-quackenbush = 1"])
def test_a_run_that_cannot_begin_names_nothing_in_the_database(
    server: Server, deployed: tuple[Path, dict[str, Any]], setting: str
) -> None:
    config, document = deployed
    text = config.read_text()
    config.write_text(text.replace('inputs = ["corpus"]', setting))
    try:
        flow_run = server.trigger(document["deployment_id"])
        wait_for("the run's end", lambda: server.state(flow_run) == "FAILED", 120)
    finally:
        config.write_text(text)
    message = server.call("GET", f"/flow_runs/{flow_run}")["state"]["message"]
    assert "reticent plan" in message
    with sqlite3.connect(f"file:{server.home / 'prefect.db'}?mode=ro", uri=True) as database:
        dump = "\n".join(database.iterdump())
    assert "could not begin" in dump
    assert "zebulon" not in dump


@pytest.mark.slow
@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("how", ["cancel", "SIGTERM"])
def test_a_run_that_is_stopped_ends_within_ten_seconds(
    server: Server, deployed: tuple[Path, dict[str, Any]], how: str
) -> None:
    config, document = deployed
    text = config.read_text()
    config.write_text(text.replace("epochs = 1", "epochs = 5000"))  # one setting: only training runs
    try:
        flow_run = server.trigger(document["deployment_id"])
        training = {"flow_runs": {"id": {"any_": [flow_run]}}, "task_runs": {"name": {"any_": ["train"]}}}
        engine = wait_for("the run's process", server.engine, 120)
        wait_for("training", lambda: server.call("POST", "/task_runs/filter", training), 240)
        time.sleep(1.0)
        started = time.monotonic()
        if how == "cancel":
            cancelling = {"state": {"type": "CANCELLING", "name": "Cancelling"}}
            server.call("POST", f"/flow_runs/{flow_run}/set_state", cancelling)
        else:
            os.kill(engine, signal.SIGTERM)
        wait_for("the process's end", lambda: server.engine() is None)
        assert time.monotonic() - started < 10 * slowness()
        ended = "CANCELLED" if how == "cancel" else "CRASHED"
        wait_for(f"state {ended}", lambda: server.state(flow_run) == ended)
        wait_for("the worker processes' end", lambda: not processes(server.home, "multiprocessing.forkserver"))
    finally:
        config.write_text(text)
        for process_id in processes(server.home, "prefect.engine"):
            os.kill(process_id, signal.SIGKILL)
    records = [json.loads(p.read_text()) for p in (config.parent / "reticent-store/private/runs").glob("*/record.json")]
    assert sorted(records, key=lambda r: r["run_id"])[-1]["state"] in ("failed", "unfinished")


@pytest.mark.slow
@pytest.mark.usefixtures("worker")
def test_a_run_killed_with_its_worker_is_marked_crashed_and_frees_the_slot(
    server: Server, deployed: tuple[Path, dict[str, Any]]
) -> None:
    """As when the machine loses power: nobody is left to say so but the automation on the server."""
    from flows.commands.deploy import SILENCE_SECONDS
    from flows.environment import HEARTBEAT_SECONDS

    config, document = deployed
    text = config.read_text()
    config.write_text(text.replace("epochs = 1", "epochs = 5000"))
    try:
        flow_run = server.trigger(document["deployment_id"])
        events = {"filter": {"event": {"name": ["prefect.flow-run.heartbeat"]}}}
        events["filter"]["resource"] = {"id": [f"prefect.flow-run.{flow_run}"]}
        heard = lambda: server.call("POST", "/events/filter", events)["events"]  # noqa: E731
        wait_for("a heartbeat", heard, 120 + HEARTBEAT_SECONDS)
        (worker,) = processes(server.home, "worker", "local-proc")[:1]
        for process_id in (worker, *processes(server.home, "prefect.engine")):
            os.kill(process_id, signal.SIGKILL)
        assert server.state(flow_run) == "RUNNING"
        wait_for("state CRASHED", lambda: server.state(flow_run) == "CRASHED", SILENCE_SECONDS + 90)
        assert "No heartbeat" in server.call("GET", f"/flow_runs/{flow_run}")["state"]["message"]
    finally:
        config.write_text(text)
        for process_id in processes(server.home, "prefect.engine"):
            os.kill(process_id, signal.SIGKILL)
    server.start("worker-2", "worker", "start", "--pool", "local-proc", "--type", "process")
    after = server.trigger(document["deployment_id"])
    wait_for("the next run", lambda: server.state(after) == "COMPLETED", 240)


@pytest.mark.slow
def test_faults_that_pass_are_tried_again_and_others_are_not(server: Server) -> None:
    """Through Prefect's engine, with a builder that fails as a flaky disk would."""
    code = (
        f"{patches.SOURCE}\n"
        + """
import errno, json, sys
from prefect import flow
import tasks.base
from tasks.stages import split
from pipelines.errors import InputError
from pipelines.store.place.outcome import Outcome
from pipelines.store.place.disk import disk_error

errors = {"passing": [disk_error(OSError(errno.EIO, "x"))] * 2, "lasting": [InputError("no such file")]}
calls = dict.fromkeys(errors, 0)

class Builder:
    def __init__(self, run): self.run = run
    def build_stage(self, stage, inputs, progress):
        calls[self.run] += 1
        if errors[self.run]:
            raise errors[self.run].pop()
        return (Outcome(stage=stage, partition=None, state="completed", key="k"),)

patch_for_process(tasks.base, "builder_of", Builder)
quick = split.with_options(retry_delay_seconds=0)

@flow
def both():
    return {run: quick.submit(run, {}).wait() or calls[run] for run in errors}

both()
print(json.dumps(calls))
"""
    )
    done = server.python("-c", code, PREFECT_LOGGING_LEVEL="CRITICAL")
    assert json.loads(done.stdout.splitlines()[-1]) == {"passing": 3, "lasting": 1}, done.stderr
