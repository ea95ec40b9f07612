"""Prefect's port, attacked: by another user, by a page of another origin, and by who may start runs.

Whoever may create a run on a server as Prefect comes chooses the command that the worker runs, and the worker reads the
private root. Each attack is first made on such a server, where it works, and then on ours.
"""

from __future__ import annotations

import json
import re
import shutil
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attackers import PAGE, START_A_COMMAND, ForeignPage, as_another_user, need_another_user, no_redirect, status
from support import REPOSITORY, run_command
from support.prefect_server import BIN, Server
from support.project import free_port, small_project
from support.waiting import wait_for

pytestmark = pytest.mark.slow

REFUSED = {401, 403}


def _started(folder: Path, *, closed: bool) -> Iterator[Server]:
    server = Server(folder, closed=closed)
    try:
        yield server
    finally:
        left = server.stop()
    assert left == []


@pytest.fixture(scope="module")
def open_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """As Prefect comes, with its own pool, a deployment like ours, and a worker."""
    for server in _started(tmp_path_factory.mktemp("open"), closed=False):
        from prefect.workers.process import ProcessWorker

        template = ProcessWorker.get_default_base_job_template()
        server.call("POST", "/work_pools/", {"name": "local-proc", "type": "process", "base_job_template": template})
        flow = server.call("POST", "/flows/", {"name": "nightly"})["id"]
        server.call(
            "POST",
            "/deployments/",
            {"name": "nightly", "flow_id": flow, "work_pool_name": "local-proc", "entrypoint": "flows.nightly.nightly"},
        )
        server.start("worker", "worker", "start", "--pool", "local-proc", "--type", "process")
        yield server


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """As docs/deploying.md has it: a password, `reticent deploy`, a worker."""
    for server in _started(tmp_path_factory.mktemp("ours"), closed=True):
        config = small_project(server.folder / "project", dialogues=20)
        done = server.reticent("deploy", config)
        assert done.returncode == 0, done.stderr
        server.start("worker", "worker", "start", "--pool", "local-proc", "--type", "process")
        yield server


def _deployment(server: Server) -> dict[str, Any]:
    (found,) = server.call("POST", "/deployments/filter", {})
    return dict(found)


def test_another_user_runs_a_command_as_the_worker_of_an_open_server(open_server: Server) -> None:
    """Shows that the attack is one: without a password this is a shell for every user."""
    need_another_user()
    marker = open_server.folder / "marker"
    assert as_another_user(START_A_COMMAND, open_server.api, str(marker)) == 201
    wait_for("the attacker's command", marker.exists, 60)
    wait_for("its end", lambda: marker.read_text() == "0\n", 10)


def test_another_user_starts_nothing_on_ours(ours: Server) -> None:
    """Guards: the same without the password, and with the name that the password is for."""
    need_another_user()
    before = ours.call("POST", "/flow_runs/count", {})
    marker = ours.folder / "marker"
    assert as_another_user(START_A_COMMAND, ours.api, str(marker)) in REFUSED
    assert ours.call("POST", "/flow_runs/count", {}) == before
    assert not marker.exists()


def _from_a_page(server: Server, folder: Path, expected: set[str]) -> tuple[dict[str, Any], set[str]]:
    """Returns the answers that a foreign page got, and the tags of the runs that it started.

    A busy server answers 503, so the page is visited up to five times until all expected runs are there.
    """
    script = PAGE % {"api": json.dumps(server.api), "deployment": _deployment(server)["id"]}
    for visit in range(5):
        page = ForeignPage(folder / str(visit))
        try:
            answers = page.js(script)
        finally:
            page.close()
        assert isinstance(answers, dict), answers
        tags = {tag for run in server.call("POST", "/flow_runs/filter", {}) for tag in run["tags"]}
        if expected <= tags:
            return answers, tags
    raise AssertionError(f"five visits started only {tags}; the last one was answered {answers}")


def test_a_page_of_another_origin_starts_runs_on_an_open_server(open_server: Server, tmp_path: Path) -> None:
    """Shows that the attack is one, and that narrowing CORS alone would not end it: a blob needs no preflight."""
    told, _ = _from_a_page(open_server, tmp_path / "page", {"json", "blob", "bytes", "beacon"})
    assert told["settings"] is True
    assert {told[f"{path} prefect"] for path in ("events/in", "events/out", "logs/out")} == {"open"}
    assert told["events/in "] == "open"


def test_a_page_of_another_origin_reads_and_starts_nothing_on_ours(ours: Server, tmp_path: Path) -> None:
    """Guards: requests with and without preflight, forms, beacons, and WebSockets, which no CORS rule covers."""
    told, tags = _from_a_page(ours, tmp_path / "page", set())
    assert "Failed to fetch" in told["settings"]
    assert "Failed to fetch" in told["json"]
    assert not tags & {"json", "guessed", "blob", "bytes", "text", "cookies", "beacon", "form"}
    sockets = {told[name] for name in told if "/" in name}
    assert len(sockets) > 0
    assert "open" not in sockets
    assert "silent" not in sockets


def test_only_health_answers_without_the_password(ours: Server) -> None:
    """Guards: an endpoint of this or a later Prefect that forgets to ask. Beside the API, only the page's own files."""
    paths = ours.call("GET", "/openapi.json")["paths"]
    assert len(paths) > 100
    answered = set()
    for path, methods in paths.items():
        url = ours.api.removesuffix("/api") + "/api" + re.sub(r"\{\w+\}", "x", path.removeprefix("/api"))
        answered |= {path for method in methods if status(url, method.upper()) not in REFUSED}
    assert {path.removeprefix("/api") for path in answered} == {"/health", "/ready"}
    for path in ("/api/docs", "/api/redoc", "/api/openapi.json", "/api/static/", "/api/health/", "/api/x/health"):
        assert status(ours.api.removesuffix("/api") + path) in REFUSED, path


def test_every_websocket_of_prefect_asks_for_the_password() -> None:
    """Guards: a WebSocket of a later Prefect. The page above tries those that are known; no HTTP rule covers them."""
    from prefect.server.api.server import API_ROUTERS

    found = {str(getattr(r, "path", "")) for router in API_ROUTERS for r in router.routes if not hasattr(r, "methods")}
    assert found == {
        "/events/in",
        "/events/out",
        "/logs/out",
        "/task_runs/subscriptions/scheduled",
        "/work_pools/{work_pool_name}/workers/connect",
    }


def test_a_rebound_name_and_another_origin_get_nothing(ours: Server) -> None:
    """Guards: DNS rebinding makes a page same-origin to the browser; it has no password for that origin."""
    assert status(f"{ours.api}/admin/settings", Host="evil.example:80", Origin="http://evil.example") in REFUSED
    for origin, allowed in (("http://evil.example", None), ("null", None), (ours.api.removesuffix("/api"), ...)):
        request = urllib.request.Request(f"{ours.api}/health", headers={"Origin": origin})
        with urllib.request.urlopen(request) as answer:
            assert (answer.headers["Access-Control-Allow-Origin"] is None) == (allowed is None), origin


def _wait_for_end(server: Server, run: str) -> dict[str, Any]:
    wait_for("the run's end", lambda: server.state(run) in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED"), 240)
    return dict(server.call("GET", f"/flow_runs/{run}")["state"])


EVIL_POLICY = "from pathlib import Path\nPath({marker!r}).touch()\n"


def test_variables_and_settings_files_that_a_run_brings_are_refused_even_with_the_password(ours: Server) -> None:
    """Guards: job variables, checked by the server or smuggled past it, and another's settings file, whose plug-ins are
    code. Afterwards the slot is free and the deployment runs."""
    deployment = _deployment(ours)
    marker, start = ours.folder / "command", f"/deployments/{deployment['id']}/create_flow_run"
    variables = {"command": f"touch {marker}", "env": {"RETICENT__RUN__SEED": "7"}}
    for name, value in variables.items():
        with pytest.raises(urllib.error.HTTPError) as refused:
            ours.call("POST", start, {"job_variables": {name: value}})
        assert refused.value.code == 422

    evil = ours.folder / "evil"
    evil.mkdir()
    (evil / "plug_ins.py").write_text(EVIL_POLICY.format(marker=str(evil / "marker")))
    (evil / "reticent.toml").write_text('[corpus]\ninputs = ["."]\n[redact]\npolicies = ["plug_ins:Evil"]\n')
    common = {"flow_id": deployment["flow_id"], "deployment_id": deployment["id"], "work_pool_name": "local-proc"}
    smuggled = {
        **common,
        "parameters": deployment["parameters"],
        "job_variables": variables,
        "state": {"type": "SCHEDULED"},
    }
    other_file, specification = (
        {"parameters": {"config": str(evil / name)}} for name in ("reticent.toml", "spec.json")
    )
    for path, body, told in (
        ("/flow_runs/", smuggled, "it brings job variables"),
        (start, other_file, "not the deployment's"),
        (start, specification, "not the deployment's"),
    ):
        state = _wait_for_end(ours, ours.call("POST", path, body)["id"])
        assert state["type"] == "FAILED", state
        assert state["name"] == "Refused", state
        assert told in state["message"]
        assert "environment" not in state["message"]  # what the run brought did not even reach it
    assert not marker.exists()
    assert not (evil / "marker").exists()
    assert _wait_for_end(ours, ours.trigger(deployment["id"]))["type"] == "COMPLETED"


def test_deploy_worker_and_run_refuse_an_open_server(open_server: Server) -> None:
    """Guards: a server that was started without the file. It is also sent figures by `reticent run`."""
    project = small_project(open_server.folder / "project", dialogues=20)
    done = open_server.reticent("deploy", project)
    assert done.returncode == 2, done.stderr
    assert "asks for no password" in done.stderr
    assert "reticent deploy --init-auth" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    done = open_server.reticent("run", project)
    assert done.returncode == 2, done.stderr
    assert "unset PREFECT_API_URL" in done.stderr
    checked = open_server.python(
        "-m", "flows.commands.deploy", PREFECT_FLOWS_HEARTBEAT_FREQUENCY="30"
    )  # the worker's unit
    assert checked.returncode == 2
    assert "asks for no password" in checked.stderr


def test_deploy_and_the_command_line_need_the_right_password(ours: Server) -> None:
    config = ours.folder / "project/reticent.toml"
    for wrong in ("", "reticent:wrong"):
        environment = {**ours.environment, "PREFECT_API_URL": ours.api, "PREFECT_API_AUTH_STRING": wrong}
        done = run_command([str(BIN / "reticent"), "deploy", str(config)], env=environment)
        assert done.returncode == 2, done.stderr
        assert "set -a" in done.stderr
    command = ours.command(str(BIN / "prefect"), "deployment", "ls")
    listed = subprocess.run(command, env=ours.environment, capture_output=True, text=True, check=True)
    assert "nightly/nightly" in listed.stdout


def test_deploy_replaces_an_unsafe_pool_and_refuses_one_with_others_in_it(ours: Server) -> None:
    """Guards: a pool of an earlier version, or of `prefect work-pool create`, lets any run choose the command."""
    from prefect.workers.process import ProcessWorker

    config = ours.folder / "project/reticent.toml"
    template = ProcessWorker.get_default_base_job_template()
    ours.call("POST", "/work_pools/", {"name": "older", "type": "process", "base_job_template": template})
    older = {"name": "other", "flow_id": _deployment(ours)["flow_id"], "work_pool_name": "older"}
    changed = {
        "entrypoint": "x.py:evil",
        "path": "/tmp",
        "job_variables": {"command": "id", "env": {"PYTHONPATH": "/tmp"}},
        "pull_steps": [{"prefect.deployments.steps.run_shell_script": {"script": "id"}}],
        "parameters": {"config": "/tmp/evil.toml", "more": 1},
    }
    ours.call("POST", "/deployments/", {**older, **changed})
    arguments = ("deploy", config, "--pool", "older", "--name", "other", "--json")
    done = ours.reticent(*arguments)
    assert json.loads(done.stdout)["pool_template"] == "replaced", done.stderr
    assert "{{" not in json.dumps(ours.call("GET", "/work_pools/older")["base_job_template"])
    assert json.loads(ours.reticent(*arguments).stdout)["pool_template"] == "kept"
    made = ours.call("GET", "/deployments/name/nightly/other")
    assert {name: made[name] for name in changed} == {
        "entrypoint": "flows.nightly.nightly",
        "path": None,
        "job_variables": {},
        "pull_steps": [],
        "parameters": {"config": str(config)},
    }

    flow = ours.call("POST", "/flows/", {"name": "planted"})["id"]
    planted = {"name": "by-somebody", "flow_id": flow, "work_pool_name": "older", "entrypoint": "x.py:evil"}
    made = ours.call("POST", "/deployments/", planted)["id"]
    try:
        done = ours.reticent(*arguments)
        assert done.returncode == 2, done.stderr
        assert "planted/by-somebody" in done.stdout + done.stderr
    finally:
        ours.call("DELETE", f"/deployments/{made}")
        other = ours.call("GET", "/deployments/name/nightly/other")["id"]
        ours.call("DELETE", f"/deployments/{other}")


def test_the_password_is_in_no_log_no_database_and_no_command_line(ours: Server) -> None:
    """After all of the above."""
    secret = ours.password.removeprefix("reticent:").encode()
    places = [path for path in ours.folder.rglob("*") if path.is_file() and path != ours.file]
    assert any(path.name == "prefect.db" for path in places)
    assert any(path.name == "worker.log" for path in places)
    assert [str(path) for path in places if secret in path.read_bytes()] == []
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not any(secret in command for command in commands)
    assert ours.home.stat().st_mode & 0o077 == 0


def test_the_page_asks_for_the_password_and_takes_it(ours: Server, tmp_path: Path) -> None:
    """Guards: docs/deploying.md says that people can look, with the value of PREFECT_API_AUTH_STRING."""
    page = ForeignPage(tmp_path / "page")
    chrome = page.chrome
    try:
        chrome.open(ours.api.removesuffix("/api"))
        chrome.wait("document.querySelector('input[type=password]') !== null", 60)
        assert "nightly" not in chrome.js("document.body.innerText")
        chrome.js("document.querySelector('input[type=password]').focus()")
        chrome.call("Input.insertText", text=ours.password)
        chrome.press("Enter")
        chrome.wait("document.querySelector('input[type=password]') === null", 60)
        chrome.open(ours.api.removesuffix("/api") + "/deployments")
        chrome.wait("document.body.innerText.includes('nightly')", 60)
    finally:
        page.close()


def test_behind_the_proxy_all_is_encrypted_and_the_password_still_asked_for(ours: Server, tmp_path: Path) -> None:
    """deploy/Caddyfile for real, with a certificate of Caddy's own."""
    if shutil.which("caddy") is None:
        pytest.skip("Caddy is not installed")
    port, plain = free_port(), free_port()
    site = f"localhost:{port}"
    caddyfile = tmp_path / "Caddyfile"
    text = (REPOSITORY / "deploy/Caddyfile").read_text()
    caddyfile.write_text(text.replace("\tadmin off\n", f"\tadmin off\n\tskip_install_trust\n\thttp_port {plain}\n"))
    proxy = subprocess.Popen(
        ["caddy", "run", "--config", str(caddyfile), "--adapter", "caddyfile"],
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(tmp_path),
            "RETICENT_SITE": site,
            "RETICENT_TLS": "tls internal",
            "RETICENT_UPSTREAM": ours.api.removeprefix("http://").removesuffix("/api"),
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    root = tmp_path / ".local/share/caddy/pki/authorities/local/root.crt"
    try:
        wait_for("Caddy's certificate", root.exists, 30)
        trusted = ssl.create_default_context(cafile=str(root))

        def status(path: str, **headers: str) -> int:
            request = urllib.request.Request(f"https://{site}{path}", headers=headers)
            try:
                with urllib.request.urlopen(request, context=trusted, timeout=20) as answer:
                    return int(answer.status)
            except urllib.error.HTTPError as error:
                return error.code
            except urllib.error.URLError:
                return 0

        wait_for("the proxy", lambda: status("/api/health") == 200, 30)
        assert status("/api/admin/version") == 401
        client = {
            "PREFECT_API_URL": f"https://{site}/api",
            "PREFECT_API_SSL_CERT_FILE": str(root),
            "PREFECT_API_AUTH_STRING": ours.password,
            "SSL_CERT_FILE": str(root),
        }
        # Requests and events, so also a WebSocket.
        code = """
from prefect import get_client
from prefect.events import emit_event
from prefect.events.worker import EventsWorker
with get_client(sync_client=True) as client:
    print(client.read_deployment_by_name("nightly/nightly").name)
emit_event("reticent.through-the-proxy", resource={"prefect.resource.id": "reticent.test"})
EventsWorker.instance().drain()
"""
        done = run_command([sys.executable, "-c", code], env={**ours.environment, **client})
        assert done.stdout.split() == ["nightly"], done.stderr
        body = {"filter": {"event": {"name": ["reticent.through-the-proxy"]}}}
        wait_for("the event", lambda: ours.call("POST", "/events/filter", body)["events"], 20)
        with pytest.raises(urllib.error.HTTPError) as moved:
            no_redirect().open(urllib.request.Request(f"http://127.0.0.1:{plain}/", headers={"Host": site}))
        assert moved.value.code == 308
        assert moved.value.headers["Location"].startswith("https://")
    finally:
        proxy.terminate()
        proxy.wait(20)
