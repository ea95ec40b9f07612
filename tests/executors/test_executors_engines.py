"""Partitions on real clusters of Dask and Ray: the same bytes; workers and schedulers that die in the middle."""

from __future__ import annotations

import importlib.util
import os
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
from support.project import free_port
from support.waiting import wait_for

pytestmark = pytest.mark.slow
needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="ray is not installed: pip install reticent[ray]"
)


@pytest.mark.parametrize("engine", [pytest.param("dask", marks=needs_dask), pytest.param("ray", marks=needs_ray)])
def test_a_cluster_on_this_machine_gives_the_bytes_of_worker_processes(tmp_path: Path, engine: str) -> None:
    config = project(tmp_path / "engine", f'executor = "{engine}"')
    before = set(processes())
    assert completed(drive(config))["redact"] == ["completed"] * PARTITIONS
    wait_for("the end of all processes", lambda: set(processes()) <= before)  # nothing is left
    found = contents(config)
    local = project(tmp_path / "local", "")
    completed(drive(local))
    assert contents(local) == found
    config.write_text(config.read_text().replace(f'executor = "{engine}"', ""))
    assert "completed" not in {s for stage in completed(drive(config)).values() for s in stage}  # it is in no key
    assert not list((tmp_path / "engine/reticent-store").rglob("executor/*"))


def processes() -> Iterator[str]:
    """Processes of engines that are there, by id."""
    for line in subprocess.run(
        ["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True
    ).stdout.splitlines():
        if any(name in line for name in ("raylet", "gcs_server", "ray::", "distributed.nanny")):
            yield line.split()[0]


class Dask:
    """A scheduler and two workers, each started as a user would, in a folder of its own."""

    def __init__(self, folder: Path, protocol: str = "tcp", **environment: str) -> None:
        self.folder, self.environment = folder, environment
        self.address = f"{protocol}://127.0.0.1:{free_port()}"
        self._stack = ExitStack()
        self.scheduler = self._scheduler()
        self.workers = [self._worker(name) for name in ("one", "two")]

    def _scheduler(self) -> subprocess.Popen[bytes]:
        host, port = self.address.partition("://")[2].split(":")
        return self._start("scheduler", "--host", host, "--port", port, "--no-dashboard", *self._protocol())

    def _protocol(self) -> list[str]:
        return ["--protocol", self.address.partition(":")[0]]

    def _worker(self, name: str) -> subprocess.Popen[bytes]:
        return self._start("worker", self.address, "--name", name, "--nthreads", "1", "--no-nanny", "--no-dashboard")

    def _start(self, kind: str, *arguments: str) -> subprocess.Popen[bytes]:
        cwd = self.folder / f"{kind}-{time.time_ns()}"
        cwd.mkdir(parents=True)
        process = subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.dask_{kind}", *arguments],
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), **self.environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process

    def again(self) -> None:
        """A scheduler at the same address, with a worker."""
        self.scheduler = self._scheduler()
        self.workers = [self._worker("three")]

    def __enter__(self) -> Dask:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def certificate(folder: Path) -> dict[str, str]:
    """Variables by which scheduler, workers and flow have one certificate, and accept no other (docs/scale.md)."""
    from distributed.security import Security

    made = Security.temporary()
    folder.mkdir()
    names = {"CA_FILE": "tls_ca_file"}
    for role in ("CLIENT", "SCHEDULER", "WORKER"):
        names |= {f"{role}__{kind.upper()}": f"tls_{role.lower()}_{kind}" for kind in ("cert", "key")}
    variables = {"DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True"}
    for variable, name in names.items():
        path = folder / name
        path.write_text(getattr(made, name))
        variables[f"DASK_DISTRIBUTED__COMM__TLS__{variable}"] = str(path)
    return variables


@needs_dask
def test_a_worker_that_is_killed_costs_its_partition_only(tmp_path: Path) -> None:
    variables = certificate(tmp_path / "tls")
    with Dask(tmp_path / "dask", "tls", **variables) as dask:
        config = project(tmp_path / "p", f'executor = "dask"\nexecutor_address = "{dask.address}"')
        (config.parent / "wait").touch()
        run = drive(config, **variables)
        wait_for("the partitions", lambda: len(list(config.parent.glob("begun-*"))) == 2, 240)
        dask.workers[0].send_signal(signal.SIGKILL)
        (config.parent / "wait").unlink()
        assert completed(run)["redact"] == ["completed"] * PARTITIONS
    assert len(list(config.parent.glob("begun-*"))) > PARTITIONS  # one of them twice
    assert len(list((config.parent / "reticent-store/private/objects/redact").iterdir())) == PARTITIONS


@needs_dask
def test_a_scheduler_that_is_killed_and_comes_back_is_joined_again(tmp_path: Path) -> None:
    with Dask(tmp_path / "dask") as dask:
        config = project(
            tmp_path / "p", f'executor = "dask"\nexecutor_address = "{dask.address}"\nprivate_network = true'
        )
        (config.parent / "wait").touch()
        run = drive(config)
        wait_for("the partitions", lambda: len(list(config.parent.glob("begun-*"))) == 2, 240)
        dask.scheduler.kill()
        for worker in dask.workers:
            worker.kill()
        (config.parent / "wait").unlink()
        dask.again()
        assert completed(run)["redact"] == ["completed"] * PARTITIONS


@needs_dask
def test_a_cluster_that_is_gone_ends_the_run_with_a_reason_and_the_next_run_goes_on(tmp_path: Path) -> None:
    with Dask(tmp_path / "dask") as dask:
        config = project(
            tmp_path / "p", f'executor = "dask"\nexecutor_address = "{dask.address}"\nprivate_network = true'
        )
        (config.parent / "wait").touch()
        run = drive(config, RETICENT__RUNTIME__EXECUTOR_WAIT_SECONDS="3")
        wait_for("the partitions", lambda: len(list(config.parent.glob("begun-*"))) == 2, 240)
    out, error = run.communicate(timeout=300)
    assert run.returncode == 5, out
    assert error.startswith(f"Dask at {dask.address} cannot be reached")
    assert "Traceback" not in error
    (config.parent / "wait").unlink()
    config.write_text(
        config.read_text()
        .replace('executor = "dask"', "")
        .replace("executor_address", "# ")
        .replace("private_network", "# ")
    )
    states = completed(drive(config))
    assert states["split"] == states["dedup_mask"] == ["cached"] * PARTITIONS
    assert states["redact"] == ["completed"] * PARTITIONS
