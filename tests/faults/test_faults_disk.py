"""A store on a disk that is full, or read-only: the command line says so and what to do, and goes on afterwards.

On a small file system of its own, which only root can mount; `test_faults_points` does it for everyone, in Python.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.project import reticent, small_project

from pipelines.store.place.roots import open_roots
from pipelines.store.upkeep.maintenance import verify


def _mount(*arguments: str) -> bool:
    return subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode == 0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 700 KiB at ``tmp_path/disk``."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0 or not _mount("-t", "tmpfs", "-o", "size=700k", "none", str(folder)):
        pytest.skip("only root can mount a small file system")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _assert_whole(disk: Path) -> None:
    roots = open_roots(disk / "private", disk / "public")
    assert [c for c in verify(roots) if c.problem] == []


@pytest.mark.slow
def test_a_full_and_a_read_only_disk(disk: Path, tmp_path: Path) -> None:
    config = small_project(tmp_path, dialogues=20)
    store = {"RETICENT__STORE__ROOT": str(disk), "PREFECT_LOGGING_LEVEL": "CRITICAL"}  # as for users
    full = reticent("run", config, cwd=tmp_path, **store)
    assert full.returncode == 5, full.stderr
    assert "the disk is full; free some space (reticent gc) and run again" in full.stderr
    assert "Traceback" not in full.stderr
    assert _mount("-o", "remount,size=64m", str(disk))
    _assert_whole(disk)
    kept = len(list((disk / "private/manifests").glob("*/*.json")))

    done = reticent("run", config, "--json", cwd=tmp_path, **store)
    assert done.returncode == 0, done.stderr
    stages = json.loads(done.stdout.splitlines()[-1])["stages"]
    assert kept > 0
    assert sum(row["state"] == "cached" for row in stages) == kept
    assert {row["state"] for row in stages} == {"cached", "completed"}
    _assert_whole(disk)

    assert _mount("-o", "remount,ro", str(disk))
    _assert_whole(disk)
    for command in (("run", config), ("gc", config)):
        refused = reticent(*command, cwd=tmp_path, **store)
        assert refused.returncode == 5, refused.stderr
        assert "read-only file system" in refused.stderr
        assert "Traceback" not in refused.stderr
    shown = reticent("status", config, "--json", cwd=tmp_path, **store)
    assert shown.returncode == 0, shown.stderr
    checked = reticent("verify", config, cwd=tmp_path, **store)
    assert checked.returncode == 0, checked.stderr
    assert _mount("-o", "remount,rw", str(disk))
    again = reticent("run", config, "--json", cwd=tmp_path, **store)
    assert again.returncode == 0, again.stderr
    assert {row["state"] for row in json.loads(again.stdout.splitlines()[-1])["stages"]} == {"cached"}


def test_a_full_disk_before_a_run_has_begun(disk: Path, tmp_path: Path) -> None:
    """Not even the store, or a run's specification, can be made."""
    config = small_project(tmp_path, dialogues=2)
    filler = os.open(disk / "filler", os.O_WRONLY | os.O_CREAT)
    written = 1
    while written:
        try:
            written = os.write(filler, b"x" * 4096)
        except OSError:
            written = 0
    os.close(filler)
    refused = reticent("run", config, cwd=tmp_path, RETICENT__STORE__ROOT=str(disk))
    assert refused.returncode == 5, refused.stderr
    assert "No space left" in refused.stderr or "disk is full" in refused.stderr
    assert "Traceback" not in refused.stderr
