"""Runs at once, in processes of their own, build each key once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from support.project import small_project
from support.toy import STAGES, drive, use_toy_graph

from pipelines.accounting.ledger import TABLE
from pipelines.store.ledger.ledger import read_ledger
from pipelines.store.place.roots import open_roots
from pipelines.store.upkeep.maintenance import verify
from pipelines.walks import default_stages

DRIVER = Path(__file__).with_name("driver.py")


def test_four_runs_of_a_toy_at_once_build_each_key_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each stage leaves a line when it is run; and takes a while, so that the others wait for its lock."""
    toy = use_toy_graph(monkeypatch, tmp_path)
    for name in ("a", "b", "c"):
        toy.write(f"{name}.txt", f"{name} text")
    log = tmp_path / "log"
    for module in STAGES:
        if module != "helper":
            toy.edit(
                module,
                "def run(ctx):",
                "def run(ctx):\n"
                f"    with open({str(log)!r}, 'a') as log:\n        log.write(f'{{ctx.stage}} {{ctx.partition}}\\n')\n"
                "    __import__('time').sleep(0.05)",
            )
    toy.session()  # makes the store
    children = []
    for number in range(4):
        toy.run_number = 10 * number
        if (child := os.fork()) == 0:
            try:
                drive(toy.session())
                os._exit(0)
            finally:
                os._exit(1)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    lines = log.read_text().splitlines()
    expected = [f"{stage} p-{p}" for stage in ("letters", "upper") for p in "abc"] + ["count None", "join None"]
    assert sorted(lines) == sorted(expected)
    roots = toy.session().roots
    assert [c for c in verify(roots) if c.problem] == []
    assert len(list(roots.private.glob("manifests/*/*.json"))) == len(expected)


@pytest.mark.slow
def test_two_runs_at_once_build_each_key_once(tmp_path: Path) -> None:
    config = small_project(tmp_path, dialogues=40)
    open_roots(tmp_path / "reticent-store/private", tmp_path / "reticent-store/public")
    processes = [
        subprocess.Popen(
            [sys.executable, str(DRIVER), str(config), "report"],
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
    assert {stage for stage, _ in built} == set(default_stages())
    roots = open_roots(tmp_path / "reticent-store/private", tmp_path / "reticent-store/public")
    assert [c for c in verify(roots) if c.problem] == []
    assert sorted((r.facts.method, r.state) for r in read_ledger(roots)) == [
        ("crt", "published"),  # the model was paid for once, and so was the table of public rows
        (TABLE, "published"),
    ]
