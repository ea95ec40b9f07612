"""SIGINT, SIGTERM and SIGKILL end a run within seconds and leave no process behind; the next run goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.project import left_over, prefect_home, reticent, small_project


def _start(config: Path) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "PREFECT_HOME": str(prefect_home(config.parent / ".prefect")),
        "RETICENT__TRAIN__EPOCHS": "5000",
        "RETICENT__REDACT__POLICIES": '["digits"]',
    }
    return subprocess.Popen(
        [sys.executable, "-m", "flows.cli", "run", str(config)],
        cwd=config.parent,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=(config.parent / "stderr.txt").open("w"),
        start_new_session=True,
    )


def _wait_for_training(config: Path, process: subprocess.Popen[bytes]) -> None:
    """Until training has written a checkpoint: its steps are under way."""
    deadline = time.monotonic() + 240
    work = config.parent / "reticent-store/private/work"
    done = config.parent / "reticent-store/private/manifests/shard"
    while not (done.is_dir() and list(work.glob("*/scratch/*"))):
        assert process.poll() is None, (config.parent / "stderr.txt").read_text()
        assert time.monotonic() < deadline, "training has not begun"
        time.sleep(0.1)
    time.sleep(1.0)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_signals_during_training(tmp_path: Path, number: signal.Signals, code: int) -> None:
    config = small_project(tmp_path, dialogues=20)
    process = _start(config)
    _wait_for_training(config, process)
    assert process.poll() is None
    started = time.monotonic()
    process.send_signal(number)
    process.wait(timeout=30)
    error = (tmp_path / "stderr.txt").read_text()
    assert time.monotonic() - started < 10
    assert process.returncode == code
    if number != signal.SIGKILL:
        assert "interrupted" in error
        assert "Traceback" not in error
    deadline = time.monotonic() + 10
    while left_over(process.pid, tmp_path) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert left_over(process.pid, tmp_path) == []
    status = json.loads(reticent("status", config, "--json", cwd=tmp_path).stdout)
    assert status["unfinished_run"]["state"] in ("unfinished", "failed")
    assert reticent("gc", config, cwd=tmp_path).returncode == 0
    planned = json.loads(reticent("plan", config, "--json", cwd=tmp_path).stdout)["stages"]
    assert all(row["action"] == "hit" for row in planned if row["stage"] in ("split", "dedup", "sample"))
