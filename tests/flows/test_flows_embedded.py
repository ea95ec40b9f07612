"""Prefect's embedded server, as `reticent run` starts it, against another user of the machine."""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from attackers import as_another_user, need_another_user
from support.project import prefect_home, small_project, without_prefect

ATTACK = """
found = {}
api = sys.argv[1]
found["read"] = ask("GET", api + "/admin/settings")[0]
found["runs"] = ask("POST", api + "/flow_runs/filter", {})[0]
found["write"] = ask("POST", api + "/flows/", {"name": "planted"})[0]
found["health"] = ask("GET", api + "/health")[0]
def allowed(path):
    try:
        return len(open(path, "rb").read()) > 0
    except OSError:
        return False
found["environ"] = [p for p in sys.argv[3:] if allowed(f"/proc/{p}/environ")]
found["database"] = allowed(sys.argv[2])
found["commands"] = "".join(open(f"/proc/{p}/cmdline").read() for p in sys.argv[3:])
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def attacked() -> Iterator[dict[str, Any]]:
    """What another user gets from the server of a run that is under way; the run then ends as if nothing were."""
    need_another_user()
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)  # pytest's own folders are closed to others
    config = small_project(folder, dialogues=20)
    home = prefect_home(folder / ".prefect")
    home.chmod(0o755)
    (home / "prefect.db").chmod(0o644)
    assert as_another_user("print(json.dumps(open(sys.argv[1], 'rb').read(6).decode()))", str(home / "prefect.db"))
    run = subprocess.Popen(
        [sys.executable, "-m", "flows.cli", "run", str(config), "--only", "split", "--json"],
        cwd=folder,
        env=without_prefect(PREFECT_HOME=str(home)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        server, port = _server_of(run)
        run.send_signal(signal.SIGSTOP)  # so that the server lives until all was tried
        found = as_another_user(
            ATTACK, f"http://127.0.0.1:{port}/api", str(home / "prefect.db"), str(server.pid), str(run.pid)
        )
        password = server.environ().get("PREFECT_SERVER_API_AUTH_STRING", "").removeprefix("reticent:")
        run.send_signal(signal.SIGCONT)
        output, errors = run.communicate(timeout=240)
    finally:
        with contextlib.suppress(ProcessLookupError):
            run.kill()
    yield {
        **found,
        "code": run.returncode,
        "output": output + errors,
        "password": password,
        "home": home,
        "mode": home.stat().st_mode & 0o777,
    }
    shutil.rmtree(folder)


def _server_of(run: subprocess.Popen[str]) -> tuple[psutil.Process, int]:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert run.poll() is None, run.communicate()[1]
        for child in psutil.Process(run.pid).children():
            with contextlib.suppress(psutil.Error):
                if ports := [c.laddr.port for c in child.net_connections("tcp") if c.status == psutil.CONN_LISTEN]:
                    return child, ports[0]
        time.sleep(0.05)
    raise AssertionError("the embedded server did not start")


def test_another_user_cannot_call_the_embedded_server(attacked: dict[str, Any]) -> None:
    """Guards: Prefect's own has no password, so any user reads figures and settings and plants runs and states."""
    assert attacked["health"] == 200  # it was there
    refused = {401, 403}
    assert {attacked["read"], attacked["runs"], attacked["write"]} <= refused
    assert attacked["code"] == 0, attacked["output"]


def test_another_user_reads_neither_password_nor_database(attacked: dict[str, Any]) -> None:
    """Guards: the password is in environments only, and SQLite's files are readable by all in a folder that is."""
    assert attacked["environ"] == []
    assert attacked["database"] is False
    assert attacked["mode"] == 0o700


def test_the_embedded_servers_password_is_in_no_command_output_or_database(attacked: dict[str, Any]) -> None:
    password = attacked["password"]
    assert len(password) >= 40
    assert password not in attacked["commands"]
    assert password not in attacked["output"]
    files = [path for path in attacked["home"].rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if password.encode() in path.read_bytes()]


def test_nobody_can_take_the_embedded_servers_port_first(tmp_path: Path) -> None:
    """Guards: Prefect looks for a free port and lets it go again; who takes it then is sent the run, and answers."""
    code = """
import os, socket, sys
from flows.server.embedded import protect_server
protect_server()
from prefect.server.api.server import SubprocessASGIServer
server = SubprocessASGIServer()
port = server.find_available_port()
try:
    socket.create_server(("127.0.0.1", port), reuse_port=True)
    print("taken")
except OSError:
    print("held", type(server).__name__, os.environ["PREFECT_API_AUTH_STRING"] != "", port > 0)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=without_prefect(PREFECT_HOME=str(tmp_path / "home")),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["held", "OwnServer", "True", "True"], done.stderr
    with socket.create_server(("127.0.0.1", 0)):
        pass  # a port can be taken here at all


def test_the_embedded_server_ends_when_its_process_was_killed(tmp_path: Path) -> None:
    """Guards: a server that nobody told outlived a run that was killed by SIGKILL."""
    code = """
import os, signal
from flows.server.embedded import protect_server
protect_server()
from prefect.server.api.server import SubprocessASGIServer
server = SubprocessASGIServer()
server.find_available_port()
print(server._run_uvicorn_command().pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = subprocess.run(
        [sys.executable, "-c", code],
        env=without_prefect(PREFECT_HOME=str(tmp_path / "home")),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    deadline = time.monotonic() + 60
    with contextlib.suppress(psutil.NoSuchProcess):
        server = psutil.Process(int(killed.stdout))
        while server.status() != psutil.STATUS_ZOMBIE:  # nobody may be there to take note of its end
            assert time.monotonic() < deadline
            time.sleep(0.1)


@pytest.mark.parametrize("own", [{}, {"PREFECT_API_AUTH_STRING": "me:other"}], ids=["profile", "environment"])
def test_a_server_that_a_profile_names_keeps_its_own_password(tmp_path: Path, own: dict[str, str]) -> None:
    """Guards: the embedded server's password would be sent to, and refused by, a server of its own."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "profiles.toml").write_text(
        'active = "ours"\n[profiles.ours]\n'
        'PREFECT_API_URL = "http://127.0.0.1:9/api"\nPREFECT_API_AUTH_STRING = "me:secret"\n'
    )
    code = """
import os
from flows.server.embedded import protect_server
protect_server()
from prefect.settings import PREFECT_API_AUTH_STRING
print(PREFECT_API_AUTH_STRING.value(), "PREFECT_SERVER_API_AUTH_STRING" in os.environ)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=without_prefect(PREFECT_HOME=str(home), **own),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [own.get("PREFECT_API_AUTH_STRING", "me:secret"), "False"], done.stderr
