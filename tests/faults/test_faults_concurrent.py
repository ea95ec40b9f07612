"""Two whole runs at once, in processes of their own, build each key once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from project import small_project

from pipelines.graph import GRAPH
from pipelines.store.maintenance import verify
from pipelines.store.roots import open_roots

DRIVER = Path(__file__).with_name("driver.py")


@pytest.mark.parametrize("last", ["redact", pytest.param("report", marks=pytest.mark.slow)])
def test_two_runs_at_once_build_each_key_once(tmp_path: Path, last: str) -> None:
    config = small_project(tmp_path, dialogues=40)
    open_roots(tmp_path / "reticent-store/private", tmp_path / "reticent-store/public")
    processes = [
        subprocess.Popen(
            [sys.executable, str(DRIVER), str(config), last],
            env={**os.environ, "RETICENT__RUNTIME__WORKERS": str(workers)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for workers in (1, 2)
    ]
    built: Counter[tuple[str, str]] = Counter()
    keys = []
    for process in processes:
        output, error = process.communicate(timeout=200)
        assert process.returncode == 0, error
        rows = json.loads(output.splitlines()[-1])
        assert {row[2] for row in rows} <= {"completed", "cached"}
        built.update((stage, key) for stage, _, state, key in rows if state == "completed")
        keys.append({(stage, key) for stage, _, _, key in rows})
    assert keys[0] == keys[1]
    assert built == Counter(keys[0])  # each key exactly once, by one run or the other
    assert {stage for stage, _ in built} == set(list(GRAPH)[: list(GRAPH).index(last) + 1])
    roots = open_roots(tmp_path / "reticent-store/private", tmp_path / "reticent-store/public")
    assert [c for c in verify(roots) if c.problem] == []
    if last != "report":
        return
    releases = (roots.private / "ledger/releases.jsonl").read_text().splitlines()
    assert [json.loads(line)["type"] for line in releases] == ["release", "published"]  # the model was paid for once
