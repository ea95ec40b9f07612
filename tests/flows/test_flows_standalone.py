"""``prepare`` and ``train`` as flows of their own, on a settings file, as a deployment of one would run them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from support.project import prefect_home, reticent, small_project, warm_commands
from support.shared_server import shared_server


def _python(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **shared_server(), "PREFECT_LOGGING_LEVEL": "CRITICAL"}
    environment["PREFECT_HOME"] = str(prefect_home(folder / ".prefect"))
    (folder / "flow.py").write_text(code)
    return warm_commands().run(folder, ["flow.py"], environment, python=True)


@pytest.mark.slow
def test_train_needs_prepare_and_then_reruns_nothing_of_it(tmp_path: Path) -> None:
    config = small_project(tmp_path, dialogues=30)
    early = _python(f"from flows.train import train; train({str(config)!r})", tmp_path)
    assert early.returncode != 0
    assert "not cached" in early.stderr

    done = _python(f"from flows.prepare import prepare; prepare({str(config)!r})", tmp_path)
    assert done.returncode == 0, done.stderr
    status = json.loads(reticent("status", config, "--json", cwd=tmp_path).stdout)
    assert {r["stage"] for r in status["stages"] if r["action"] != "hit"} == {"train", "guarantee", "report"}
    assert "model" not in status["last_run"]["outputs"]

    done = _python(f"from flows.train import train; train({str(config)!r})", tmp_path)
    assert done.returncode == 0, done.stderr
    status = json.loads(reticent("status", config, "--json", cwd=tmp_path).stdout)
    assert {r["action"] for r in status["stages"]} == {"hit"}
    assert Path(status["last_run"]["outputs"]["model"], "model.safetensors").is_file()
