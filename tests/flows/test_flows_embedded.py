"""Prefect's embedded server against others on the machine; what another user gets of it in `test_flows_end_to_end`."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from support import run_command
from support.project import without_prefect
from support.waiting import wait_for


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What a process said that took a port, tried to take it again, started the server and was killed."""
    code = """
import os, signal, socket
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
print(server._run_uvicorn_command().pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=without_prefect(PREFECT_HOME=str(tmp_path_factory.mktemp("killed") / "home")),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    return done.stdout.splitlines()


@pytest.mark.slow
def test_nobody_can_take_the_embedded_servers_port_first(killed: list[str]) -> None:
    """Guards: Prefect looks for a free port and lets it go again; who takes it then is sent the run, and answers."""
    assert killed[0].split() == ["held", "OwnServer", "True", "True"]
    with socket.create_server(("127.0.0.1", 0)):
        pass  # a port can be taken here at all


@pytest.mark.slow
def test_the_embedded_server_ends_when_its_process_was_killed(killed: list[str]) -> None:
    """Guards: a server that nobody told outlived a run that was killed by SIGKILL."""
    with contextlib.suppress(psutil.NoSuchProcess):
        server = psutil.Process(int(killed[1]))
        # Nobody may be there to take note of its end.
        wait_for("the server's end", lambda: server.status() == psutil.STATUS_ZOMBIE)


@pytest.mark.slow
@pytest.mark.parametrize(
    "own",
    [pytest.param({}, id="profile"), pytest.param({"PREFECT_API_AUTH_STRING": "me:other"}, id="environment")],
)
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
    done = run_command([sys.executable, "-c", code], env=without_prefect(PREFECT_HOME=str(home), **own), check=True)
    assert done.stdout.split() == [own.get("PREFECT_API_AUTH_STRING", "me:secret"), "False"], done.stderr
