"""SIGINT from a keyboard and SIGTERM from a service manager reach every process of a run while partitions are built."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
from support.project import left_over, reticent, small_project
from support.waiting import slowness, start, wait_for

PLUG_IN = """
import time
from pathlib import Path

from pipelines.policies.detectors.digits import DigitsPolicy


class SlowPolicy(DigitsPolicy):
    def find(self, sentence):
        time.sleep(3600 if Path(__file__).with_name("slow").exists() else 0)
        return super().find(sentence)
"""


@pytest.mark.slow
def test_ctrl_c_while_workers_build(tmp_path: Path) -> None:
    """The terminal sends it to the whole group. Other signals and phases are in tests/flows/test_flows_signal*.py."""
    config = small_project(tmp_path, dialogues=60, workers=2)
    (tmp_path / "slow_plug_in.py").write_text(PLUG_IN)
    (tmp_path / "slow").touch()
    config.write_text(config.read_text().replace('"customersim", "high_entity"', '"slow_plug_in:SlowPolicy"'))
    process = start("run", config, cwd=tmp_path, PREFECT_LOGGING_LEVEL="CRITICAL")
    private = tmp_path / "reticent-store/private"
    is_redacting = lambda: len(list(private.glob("manifests/dedup_mask/*"))) == 3 and list(private.glob("work/*"))  # noqa: E731
    wait_for("redaction", is_redacting, 150, process=process)
    time.sleep(1.0)  # the workers are in the policy now
    started = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    process.wait(timeout=120)
    assert time.monotonic() - started < 10 * slowness()
    assert process.returncode == 130
    error = (tmp_path / "stderr.txt").read_text()
    assert "Traceback" not in error
    assert "interrupted; what was finished is kept" in error
    wait_for("the end of all processes", lambda: not left_over(process.pid, tmp_path))
    (tmp_path / "slow").unlink()
    after = reticent("run", config, "--json", cwd=tmp_path)
    assert after.returncode == 0, after.stderr
    rows = json.loads(after.stdout.splitlines()[-1])["stages"]
    assert {row["state"] for row in rows if row["stage"] in ("split", "dedup")} == {"cached"}
