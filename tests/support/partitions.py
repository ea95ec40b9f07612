"""Runs of the partition stages on executors: a policy that waits on a file, and what the store holds after."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from support import REPOSITORY
from support.project import small_project

PARTITIONS = 4
DRIVER = REPOSITORY / "tests" / "executors" / "drive.py"
PLUG_IN = '''
"""Masks numbers; notes that it was begun, and waits as long as there is a file `wait` beside it."""
import time
from pathlib import Path

from pipelines.policies.detectors.digits import DigitsPolicy

HERE = Path(__file__).parent


class Waiting(DigitsPolicy):
    is_begun = False

    def find(self, sentence):
        if not self.is_begun:
            self.is_begun = True
            (HERE / f"begun-{time.time_ns()}").touch()
        while (HERE / "wait").exists():
            time.sleep(0.05)
        return super().find(sentence)
'''
needs_dask = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None,
    reason="distributed is not installed: pip install --no-deps -r requirements-slow.lock, as .ci/run does",
)


def project(folder: Path, runtime: str) -> Path:
    config = small_project(folder, dialogues=20 * PARTITIONS, workers=2)
    (folder / "waiting.py").write_text(PLUG_IN)
    text = config.read_text().replace("workers = 2", f"workers = 2\n{runtime}")
    text += "\n[dedup]\nbuckets = 3\n"
    text = text.replace('"customersim", "high_entity"', '"waiting:Waiting"').replace('"conservative"\n', '"digits"\n')
    config.write_text(text)
    return config


def drive(config: Path, on: Sequence[str] = (), **environment: str) -> subprocess.Popen[str]:
    """Starts a run; ``on`` is a command that runs its arguments on another machine."""
    return subprocess.Popen(
        [*on, sys.executable, str(DRIVER), str(config)],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def completed(process: subprocess.Popen[str]) -> dict[str, list[str]]:
    out, error = process.communicate(timeout=500)
    assert process.returncode == 0, error
    states: dict[str, list[str]] = json.loads(out.splitlines()[-1])
    return states


def contents(config: Path) -> dict[str, str]:
    """The digest of every data file in the store, by path: the same keys, the same bytes."""
    store = config.parent / "reticent-store"
    files = [f for root in ("private", "public") for f in sorted((store / root / "objects").rglob("*")) if f.is_file()]
    assert files
    return {
        str(f.relative_to(store)): hashlib.sha256(f.read_bytes()).hexdigest()
        for f in files
        if f.name != "manifest.json"
    }
