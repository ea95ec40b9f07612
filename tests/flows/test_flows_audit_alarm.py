"""An engine that does not clip, from the training to exit code 4, and the way back."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support import REPOSITORY
from support.project import prefect_home, reticent, small_project, warm_commands
from support.shared_server import shared_server
from test_flows_audit import SMALL

from flows.running.spec import open_store
from pipelines.settings.loading import load_settings
from pipelines.store.objects import runs
from pipelines.store.objects.ledger_lines import locked, read_documents

# Ends as the command does, unless nothing called what is replaced.
BROKEN = """
import torch
from audit_faults import replaced
from flows.cli import main
from pipelines.dp import clipping

with replaced(clipping, "clip_factors", lambda _: lambda norms, *_: torch.ones_like(norms)):
    try:
        main()
    except SystemExit as ended:
        code = ended.code
raise SystemExit(code)
"""


def cli(config: Path, *arguments: str, broken: bool = False) -> subprocess.CompletedProcess[str]:
    """``reticent``, or a process of its own whose engine does not clip."""
    settings = {
        **{name: value for name, value in SMALL.items() if not name.endswith("ENABLED")},
        "RETICENT__AUDIT__NUM_TRIALS": "2000",
        **shared_server(),
    }
    words = [arguments[0], str(config), *arguments[1:]]
    if not broken:
        return reticent(*words, cwd=config.parent, timeout=900, **settings)
    environment = {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY / "benchmarks"),
        "PREFECT_HOME": str(prefect_home(config.parent / ".prefect")),
        **settings,
    }
    (config.parent / "broken.py").write_text(BROKEN)
    return warm_commands().run(config.parent, ["broken.py", *words], environment, seconds=900, python=True)


def audit(config: Path, *arguments: str, broken: bool = False) -> tuple[int, dict[str, Any]]:
    done = cli(config, "audit", "--json", *arguments, broken=broken)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_an_engine_that_does_not_clip_stops_runs_until_it_is_settled_and_trained_anew(tmp_path: Path) -> None:
    config = small_project(tmp_path, dialogues=30)
    first = cli(config, "run", "--json")
    assert first.returncode == 0, first.stderr
    roots = open_store(load_settings(config, {}))

    def latest() -> str:
        return str((runs.latest(roots) or {})["run_id"])

    def lines(kind: str) -> list[dict[str, Any]]:
        with locked(roots) as path:
            return [d for d in read_documents(roots, path) if d["type"] == kind]

    before = latest()
    code, found = audit(config, broken=True)
    assert (code, found["alarm"]) == (4, True)
    assert "refutes the claimed epsilon" in found["alarm_reason"]
    assert "<strong>Alarm:</strong>" in Path(found["outputs"]["report"]).read_text()
    assert latest() == before != found["run_id"]
    told = lines("audited")
    assert {line["run_id"] for line in told} == {found["run_id"]}
    assert min(line["p_value"] for line in told) < 1e-6

    code, found = audit(config)  # nothing is built, by an engine that is right again
    assert (code, found["alarm"], latest()) == (4, True, before)
    assert lines("audited") == told

    assert cli(config, "audit", "--settle", "clipping was off").returncode == 0
    assert cli(config, "audit", "--settle", "again").returncode == 2
    assert [line["reason"] for line in lines("audits_settled")] == ["clipping was off"]
    code, found = audit(config)
    assert (code, found["alarm"], latest()) == (4, True, before)
    assert "Train anew" in found["alarm_reason"]

    code, found = audit(config, "--force", "train", "--force", "audit.model")
    assert (code, found["alarm"]) == (0, False)
    assert latest() == found["run_id"]
    assert len(lines("audited")) == len(told) + 2
