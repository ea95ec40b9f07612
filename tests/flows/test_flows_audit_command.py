"""``reticent audit`` as people and programs call it, killed in between, too."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.project import prefect_home, reticent, small_project
from support.shared_server import shared_server
from test_flows_audit import SMALL

CONTRACT = {
    "schema_version", "exposure", "membership", "secrets", "extraction", "domains",
    "epsilon_lower", "epsilon_claimed", "alarm",
}  # fmt: skip


@pytest.mark.slow
def test_an_audit_goes_on_after_a_kill_and_its_last_line_is_the_contracts(tmp_path: Path) -> None:
    config = small_project(tmp_path, dialogues=40)
    environment = {name: value for name, value in SMALL.items() if not name.endswith("ENABLED")}
    environment["RETICENT__TRAIN__EPOCHS"] = "6"
    process = subprocess.Popen(
        [sys.executable, "-m", "flows.cli", "audit", str(config)],
        cwd=tmp_path,
        env={**_environment(tmp_path), **environment, **shared_server()},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until = time.monotonic() + 240
    work = config.parent / "reticent-store/private/work"
    while not list(work.glob("*/*/training/model/work/train.ckpt*")):
        assert process.poll() is None, "ended before it could be killed"
        assert time.monotonic() < until, "the audit's training wrote no checkpoint"
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()

    done = reticent("audit", config, "--json", cwd=tmp_path, **environment, **shared_server())
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout.splitlines()[-1])
    assert document.keys() >= CONTRACT
    assert document["alarm"] is False
    assert Path(document["outputs"]["report"]).is_file()
    told = reticent("audit", config, cwd=tmp_path, **environment, **shared_server())
    assert "alarm         none" in told.stdout


def _environment(folder: Path) -> dict[str, str]:
    import os

    return {**os.environ, "PREFECT_HOME": str(prefect_home(folder / ".prefect"))}
