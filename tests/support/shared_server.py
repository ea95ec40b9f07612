"""One Prefect server for the runs of a session of tests that are not about the embedded one, which starts in seconds.

It is the one of `flows.server.embedded`, with a password, and lives as long as a process that asked for it.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from support.project import prefect_home, reticent, without_prefect
from support.session import locked, made_once
from support.waiting import wait_for

_SERVE = """
import os, socket, sys, threading, time, uvicorn
def end_with_the_last_user():
    try:
        while any(os.path.exists(f"/proc/{user}") for user in os.listdir(sys.argv[2])):
            time.sleep(0.5)
    finally:  # another session of tests may have removed the folder
        os._exit(0)
threading.Thread(target=end_with_the_last_user, daemon=True).start()
config = uvicorn.Config("prefect.server.api.server:create_app", factory=True, log_level="error", lifespan="on")
uvicorn.Server(config).run(sockets=[socket.socket(fileno=int(sys.argv[1]))])
"""


def shared_server() -> dict[str, str]:
    """The environment of a run that is to use the server."""
    folder = made_once("prefect", _start, is_live=True)
    _use(folder)
    environment: dict[str, str] = json.loads((folder / "environment.json").read_text())
    return environment


def run_json(config: Path, *arguments: str, **environment: str) -> dict[str, Any]:
    """``reticent run CONFIG --json`` on the server, which must succeed."""
    done = reticent("run", config, "--json", *arguments, cwd=config.parent, **shared_server(), **environment)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return document


def server_files() -> Path:
    """The server's home: its database, and ``server.log`` with all that it has to say."""
    with locked("prefect") as folder:
        return folder / "home"


def _use(folder: Path) -> None:
    (folder / "users").mkdir(exist_ok=True)
    (folder / "users" / str(os.getpid())).touch()


def _start(folder: Path) -> None:
    _use(folder)
    home = prefect_home(folder / "home")
    password = f"tests:{secrets.token_urlsafe(32)}"
    with socket.socket() as bound, (home / "server.log").open("wb") as log:
        bound.bind(("127.0.0.1", 0))
        api = f"http://127.0.0.1:{bound.getsockname()[1]}/api"
        server = subprocess.Popen(
            [sys.executable, "-P", "-c", _SERVE, str(bound.fileno()), str(folder / "users")],
            env=without_prefect(
                PREFECT_HOME=str(home),
                PREFECT_SERVER_API_AUTH_STRING=password,
                PREFECT_SERVER_LOGGING_LEVEL="DEBUG",
                PREFECT_SERVER_ANALYTICS_ENABLED="false",
                PREFECT_UI_ENABLED="0",
                PREFECT__SERVER_EPHEMERAL="1",
            ),
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=[bound.fileno()],
            start_new_session=True,
        )
    wait_for("the shared server", lambda: answers(api), 120, process=server)
    environment = {"PREFECT_API_URL": api, "PREFECT_API_AUTH_STRING": password}
    (folder / "environment.json").write_text(json.dumps(environment))


def answers(api: str) -> bool:
    """Tells if a server is healthy."""
    try:
        with urllib.request.urlopen(f"{api}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
