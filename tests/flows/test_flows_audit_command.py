"""``reticent audit`` as people and programs call it, killed in between, too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.project import reticent, small_project
from support.shared_server import shared_server
from support.waiting import start, wait_for
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
    process = start("audit", config, cwd=tmp_path, **environment, **shared_server())
    work = config.parent / "reticent-store/private/work"
    checkpoint = "*/*/training/model/work/train.ckpt*"
    wait_for("a checkpoint of the audit's training", lambda: list(work.glob(checkpoint)), 240, process=process)
    process.kill()
    process.wait()

    done = reticent("audit", config, "--json", cwd=tmp_path, **environment, **shared_server())
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout.splitlines()[-1])
    assert document.keys() >= CONTRACT
    assert document["alarm"] is False
    assert Path(document["outputs"]["report"]).is_file()
    told = reticent("audit", config, cwd=tmp_path, **environment, **shared_server())
    assert "alarm         none" in told.stdout
