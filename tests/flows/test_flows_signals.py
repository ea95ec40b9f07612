"""SIGINT, SIGTERM and SIGKILL end a run within seconds and leave no process behind; the next run goes on."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest
from support.project import left_over, reticent, small_project
from support.waiting import slowness, start, wait_for

SETTINGS = {"RETICENT__TRAIN__EPOCHS": "5000", "RETICENT__REDACT__POLICIES": '["digits"]'}


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_signals_during_training(tmp_path: Path, number: signal.Signals, code: int) -> None:
    config = small_project(tmp_path, dialogues=20)
    process = start("run", config, cwd=tmp_path, **SETTINGS)
    private = tmp_path / "reticent-store/private"
    is_training = lambda: (private / "manifests/shard").is_dir() and list(private.glob("work/*/scratch/*"))  # noqa: E731
    wait_for("training", is_training, 240, process=process)
    time.sleep(1.0)
    assert process.poll() is None
    started = time.monotonic()
    process.send_signal(number)
    process.wait(timeout=120)
    error = (tmp_path / "stderr.txt").read_text()
    assert time.monotonic() - started < 10 * slowness()
    assert process.returncode == code
    if number != signal.SIGKILL:
        assert "interrupted" in error
        assert "Traceback" not in error
    wait_for("the end of all processes", lambda: not left_over(process.pid, tmp_path))
    status = json.loads(reticent("status", config, "--json", cwd=tmp_path).stdout)
    assert status["unfinished_run"]["state"] in ("unfinished", "failed")
    assert reticent("gc", config, cwd=tmp_path).returncode == 0
    planned = json.loads(reticent("plan", config, "--json", cwd=tmp_path).stdout)["stages"]
    assert all(row["action"] == "hit" for row in planned if row["stage"] in ("split", "dedup", "sample"))
