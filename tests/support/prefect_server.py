"""A real Prefect server and worker on loopback, started as docs/deploying.md says."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from support.project import free_port, prefect_home, without_prefect
from support.waiting import wait_for

BIN = Path(sys.executable).parent


def processes(home: Path, *words: str) -> list[int]:
    """What runs with a Prefect home: server, worker, flow runs and all their children, whatever their session."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            environment = (folder / "environ").read_bytes().split(b"\0") if folder.name.isdigit() else []
            command = (folder / "cmdline").read_bytes().decode(errors="replace") if environment else ""
        except OSError:  # it ended meanwhile
            continue
        if f"PREFECT_HOME={home}".encode() in environment and command and all(word in command for word in words):
            found.append(int(folder.name))
    return found


class Server:
    """A Prefect server and a worker on loopback, each in a session of its own.

    Args:
        folder: for its files.
        closed: whether it asks for a password, as ``reticent deploy --init-auth`` has it; else as Prefect comes.
    """

    def __init__(self, folder: Path, *, closed: bool = True) -> None:
        self.folder, self.home, self.file = folder, prefect_home(folder / "home"), folder / "prefect.env"
        self.environment = without_prefect(
            PREFECT_HOME=str(self.home), PREFECT_WORKER_QUERY_SECONDS="1", PREFECT_LOGGING_LEVEL="INFO"
        )
        self._csrf: dict[str, str] = {}
        self.running: list[subprocess.Popen[bytes]] = []
        try:
            # A server ends at once whose port somebody took since it was free; nobody does that twice.
            assert self._comes_up(closed) or self._comes_up(closed), (folder / "server.log").read_text()
            if closed:
                token = self.call("GET", "/csrf-token?client=tests")["token"]
                self._csrf = {"Prefect-Csrf-Client": "tests", "Prefect-Csrf-Token": token}
        except BaseException:
            self.stop()
            raise

    def _comes_up(self, closed: bool) -> bool:
        """Starts the server on a free port, and waits until it serves or has ended."""
        port = free_port()
        self.api = f"http://127.0.0.1:{port}/api"
        self.file.unlink(missing_ok=True)
        if closed:
            made = self.reticent("deploy", "--init-auth", self.file, PREFECT_API_URL=self.api)
            assert made.returncode == 0, made.stderr
        else:
            lines = [f"PREFECT_API_URL={self.api}", f"PREFECT_UI_API_URL={self.api}", f"PREFECT_SERVER_API_PORT={port}"]
            lines += ["DO_NOT_TRACK=1", "PREFECT_SERVER_ANALYTICS_ENABLED=false"]
            self.file.write_text("\n".join(lines) + "\n")
        self.password = dict(line.split("=", 1) for line in self.file.read_text().splitlines()).get(
            "PREFECT_API_AUTH_STRING", ""
        )
        return self.serves()

    def serves(self) -> bool:
        """Starts the server, and waits until it answers or has ended; True if it answers."""
        process = self.start("server", "server", "start")
        wait_for("the server", lambda: process.poll() is not None or self._healthy(), 120)
        return process.poll() is None

    def command(self, *arguments: str) -> list[str]:
        """A command in a shell that has read the file, as a user's terminal has."""
        script = 'set -a; [ ! -e "$0" ] || . "$0"; set +a; exec "$@"'
        return ["sh", "-c", script, str(self.file), *arguments]

    def start(self, log: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{log}.log").open("wb") as out:
            process = subprocess.Popen(
                self.command(str(BIN / "prefect"), *arguments),
                env=self.environment,
                cwd=self.folder,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.running.append(process)
        return process

    def _healthy(self) -> bool:
        try:
            return bool(self.call("GET", "/health"))
        except OSError:
            return False

    def call(self, method: str, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(self.api + path, method=method, headers=self._csrf)
        if self.password:
            request.add_header("Authorization", f"Basic {base64.b64encode(self.password.encode()).decode()}")
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            request.add_header("Content-Type", "application/json")
        for _ in range(20):
            try:
                with urllib.request.urlopen(request, data, timeout=30) as answer:
                    text = answer.read()
                return json.loads(text) if text else None
            except urllib.error.HTTPError as error:
                if error.code != 503:  # a busy database, which Prefect's own client waits for, too
                    raise
                time.sleep(1.0)
        raise AssertionError("the server stays busy")

    def state(self, flow_run: str) -> str:
        return str(self.call("GET", f"/flow_runs/{flow_run}")["state"]["type"])

    def trigger(self, deployment: str) -> str:
        return str(self.call("POST", f"/deployments/{deployment}/create_flow_run", {})["id"])

    def reticent(self, *arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        return self.python("-m", "flows.cli", *map(str, arguments), **environment)

    def python(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(sys.executable, *arguments),
            env={**self.environment, **environment},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def engine(self) -> int | None:
        """Process id of the flow run under way."""
        found = processes(self.home, "prefect.engine")
        return found[0] if found else None

    def stop(self) -> list[int]:
        """Ends worker and server as an init system would; returns what is left of them."""
        for process in reversed(self.running):
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
        deadline = time.monotonic() + 10
        while (left := processes(self.home)) and time.monotonic() < deadline:
            time.sleep(0.2)
        for process_id in left:
            os.kill(process_id, signal.SIGKILL)
        return left
