"""The Prefect server goes away in the middle of a run and comes back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.project import free_port, small_project
from support.shared_server import answers
from support.waiting import wait_for

from pipelines.store.place.roots import open_roots
from pipelines.store.upkeep.maintenance import verify


class PrefectServer:
    """A server of its own on loopback."""

    def __init__(self, home: Path) -> None:
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}/api"
        self.environment = {
            **os.environ,
            "PREFECT_HOME": str(home),
            "PREFECT_API_URL": self.url,
            "PREFECT_API_AUTH_STRING": "reticent:for-tests",
            "PREFECT_SERVER_API_AUTH_STRING": "reticent:for-tests",
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(self._port)],
            env={**self.environment, "PREFECT_UI_API_URL": self.url},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        wait_for("the server", lambda: answers(self.url), 90, process=self._process)

    def kill(self) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(30)
            self._process = None


@pytest.mark.slow
def test_the_server_restarts_during_a_run(tmp_path: Path) -> None:
    config = small_project(tmp_path, dialogues=30)
    server = PrefectServer(tmp_path / ".prefect")
    command = [sys.executable, "-m", "flows.cli", "run", str(config), "--json"]
    manifests = tmp_path / "reticent-store/private/manifests"
    server.start()
    try:
        run = subprocess.Popen(
            command,
            cwd=tmp_path,
            env=server.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        wait_for("the first artifact", (manifests / "split").is_dir, 120, process=run)
        server.kill()
        time.sleep(3)
        server.start()
        _, error = run.communicate(timeout=240)
        assert run.returncode in (0, 5), error
        assert "Traceback" not in error
        finished = {p.stem for p in manifests.glob("*/*.json")}
        assert finished
        roots = open_roots(tmp_path / "reticent-store/private", tmp_path / "reticent-store/public")
        assert [c for c in verify(roots) if c.problem] == []
        after = subprocess.run(
            command, cwd=tmp_path, env=server.environment, capture_output=True, text=True, timeout=240, check=False
        )
        assert after.returncode == 0, after.stderr
        rows = json.loads(after.stdout.splitlines()[-1])["stages"]
        assert {row["key"] for row in rows if row["state"] == "cached"} >= finished
        if run.returncode == 0:
            assert {row["state"] for row in rows} == {"cached"}
    finally:
        server.kill()
