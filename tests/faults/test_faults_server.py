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
from support.prefect_server import Server
from support.project import small_project
from support.waiting import wait_for

from pipelines.store.place.roots import open_roots
from pipelines.store.upkeep.maintenance import verify


@pytest.mark.slow
def test_the_server_restarts_during_a_run(tmp_path: Path) -> None:
    config = small_project(tmp_path, dialogues=30)
    manifests = tmp_path / "reticent-store/private/manifests"
    (tmp_path / "server").mkdir()
    server = Server(tmp_path / "server")
    command = server.command(sys.executable, "-m", "flows.cli", "run", str(config), "--json")
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
        process = server.running[-1]
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)
        time.sleep(3)
        assert server.serves()
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
        server.stop()
