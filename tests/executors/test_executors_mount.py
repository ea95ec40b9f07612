"""Two machines that mount one store: one goes on where the other was killed; a flow here and workers there.

Needs root and GlusterFS (`support.shared_mount`), which CI lacks; ``make test-slow`` runs it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support import REPOSITORY
from support.partitions import PARTITIONS, completed, contents, drive, needs_dask, project
from support.shared_mount import Machine, reason_without, shared_mount
from support.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.skipif(reason_without() is not None, reason=str(reason_without()))]
Machines = tuple[Machine, Machine, Path]


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    """Two machines, and the folder that both mount."""
    with shared_mount(tmp_path / "third", tmp_path / "shared") as (one, two):
        yield one, two, tmp_path / "shared"


def place(made: Path, machine: Machine, config: Path) -> None:
    """Copies a project to where the machine sees it; this process does not."""
    assert machine.run("cp", "-a", str(made), str(config.parent)).returncode == 0


def seen(machine: Machine, folder: Path, pattern: str) -> list[str]:
    return machine.run("find", str(folder), "-maxdepth", "1", "-name", pattern).stdout.split()


def test_one_machine_goes_on_where_the_other_was_killed(machines: Machines, tmp_path: Path) -> None:
    one, two, shared = machines
    made, config = project(tmp_path / "made", ""), shared / "p" / "reticent.toml"
    local = project(tmp_path / "local", "")
    completed(drive(local))
    (made.parent / "wait").touch()
    place(made.parent, one, config)
    run = drive(config, one.command())
    wait_for("the partitions", lambda: len(seen(two, config.parent, "begun-*")) == 2, 240)
    refused = subprocess.run(
        two.command(sys.executable, "-m", "flows.cli", "gc", str(config)),
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(REPOSITORY), "PATH": "/usr/bin:/bin"},
    )
    assert refused.returncode != 0
    assert "in use by a run" in refused.stderr  # the lock of the other machine's run holds here
    for process in one.run("pgrep", "-f", str(config)).stdout.split():
        one.run("kill", "-9", process)
    run.send_signal(signal.SIGKILL)
    run.wait()
    two.run("rm", str(config.parent / "wait"))
    states = completed(drive(config, two.command()))
    assert states["split"] == ["cached"] * PARTITIONS
    assert set(states["redact"]) == {"completed"}
    two.run("cp", "-a", str(config.parent), str(tmp_path / "back"))
    assert contents(tmp_path / "back" / "reticent.toml") == contents(local)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An installation from a wheel, beside the packages that are here."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"  # the repository's own folder may hold what an earlier build left
    for name in ("flows", "pipelines", "reticent", "tasks"):
        shutil.copytree(REPOSITORY / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, source / name)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    options = ["--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "wheel", *options, "--wheel-dir", str(folder), str(source)], check=True)
    (made,) = folder.glob("*.whl")
    subprocess.run([*pip, "install", *options, "--target", str(folder / "installed"), str(made)], check=True)
    return folder / "installed"


class Workers:
    """Dask's scheduler and two workers on a machine, from a wheel, each in a folder of its own."""

    def __init__(self, machine: Machine, wheel: Path, folder: Path) -> None:
        self.address = f"tcp://{machine.address}:8786"
        self._machine, self._wheel, self._folder = machine, wheel, folder
        self._stack = ExitStack()
        self._start("scheduler", "--host", machine.address, "--port", "8786")
        self.processes = [self._start("worker", self.address, "--nthreads", "1", "--no-nanny") for _ in range(2)]

    def full(self) -> None:
        """A third worker, whose folder for temporary files is on a disk without room."""
        disk = self._folder / "full"
        disk.mkdir()
        assert self._machine.run("mount", "-t", "tmpfs", "-o", "size=64k", "none", str(disk)).returncode == 0
        self._machine.run("sh", "-c", f"head -c 1M /dev/zero > {disk}/filling")
        self._start("worker", self.address, "--nthreads", "1", "--no-nanny", TMPDIR=str(disk))

    def _start(self, kind: str, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        cwd = self._folder / f"{kind}-{time.time_ns()}"
        cwd.mkdir(parents=True)
        command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", *arguments, "--no-dashboard"]
        process = subprocess.Popen(
            self._machine.command(*command),
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": str(self._wheel), **environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


@needs_dask
@pytest.mark.parametrize("accident", ["none", "killed", "full disk"])
def test_workers_of_another_machine_from_a_wheel(
    machines: Machines, tmp_path: Path, wheel: Path, accident: str
) -> None:
    one, two, shared = machines
    config = shared / "p" / "reticent.toml"
    local = project(tmp_path / "local", "")
    completed(drive(local))
    with Workers(two, wheel, tmp_path / "elsewhere") as workers:
        made = project(
            tmp_path / "made", f'executor = "dask"\nexecutor_address = "{workers.address}"\nprivate_network = true'
        )
        (made.parent / "wait").touch()
        place(made.parent, one, config)
        num_workers = 2
        if accident == "full disk":
            workers.full()
            num_workers = 3
        run = drive(config, one.command())
        wait_for("a partition for each", lambda: len(seen(two, config.parent, "begun-*")) == num_workers, 240)
        if accident == "killed":
            workers.processes[0].send_signal(signal.SIGKILL)
        two.run("rm", str(config.parent / "wait"))
        states = completed(run)
    assert states["redact"] == ["completed"] * PARTITIONS
    two.run("cp", "-a", str(config.parent), str(tmp_path / "back"))
    assert contents(tmp_path / "back" / "reticent.toml") == contents(local)
