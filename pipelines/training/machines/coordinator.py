"""Coordinator of a training on several machines: announces it, waits for workers, and assigns ranks to them."""

from __future__ import annotations

import base64
import contextlib
import os
import pickle
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pipelines.context import Progress
from pipelines.errors import ExecutorError
from pipelines.files import hold_lock, read_json, write_json
from pipelines.training.machines.process_group import LOOK_SECONDS, ProcessFailure, ProcessShare, check_interface
from pipelines.training.machines.rendezvous import LOCK, ORDER, STORE, TRAINING, installed, is_held, worker_lock


@dataclass(frozen=True, kw_only=True)
class CoordinatorSettings:
    """Settings of a training on several machines.

    Attributes:
        count: number of machines, including this one.
        interface: network interface of this machine that the settings declare private.
        wait_seconds: time to wait for the workers.
        folder: private folder in which trainings are announced.
        needed: folders that every machine must see.
    """

    count: int
    interface: str | None
    wait_seconds: float
    folder: Path
    needed: tuple[str, ...] = ()


@contextlib.contextmanager
def announce_training(settings: CoordinatorSettings) -> Iterator[Path]:
    """Makes a folder that workers may join while the context lasts, and removes folders of killed trainings.

    Raises:
        ConfigError: no interface is declared private, or this machine does not have it.
    """
    check_interface(settings.interface)
    settings.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for old in settings.folder.iterdir():
        if not is_held(old / LOCK):
            shutil.rmtree(old, ignore_errors=True)
    folder = settings.folder / secrets.token_hex(16)
    unfinished = folder.with_name(f".{folder.name}")
    unfinished.mkdir(mode=0o700)
    with hold_lock(unfinished / LOCK):
        os.close(os.open(unfinished / STORE, os.O_CREAT | os.O_RDWR, 0o600))
        write_json(unfinished / TRAINING, {"needed": list(settings.needed)})
        unfinished.rename(folder)  # workers see only a complete and locked folder
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def wait_for_workers(
    folder: Path, settings: CoordinatorSettings, on_gpu: bool, progress: Progress
) -> list[dict[str, Any]]:
    """Waits for the workers, and returns the description that each wrote when it joined.

    Raises:
        ExecutorError: too few workers joined in time, or a worker lacks what the training needs.
    """
    deadline, reported = time.monotonic() + settings.wait_seconds, -1
    while True:
        described = [read_json(path) for path in sorted(folder.glob("machine-*.json"))]
        workers = [w for w in described if is_held(worker_lock(folder, w["token"]))][: settings.count - 1]
        if reported != len(workers):
            reported = len(workers)
            progress(0, None, f"waiting for machines: {reported + 1} of {settings.count}")
        for worker in workers:
            if problem := _problem(worker, on_gpu):
                raise ExecutorError(f"machine {worker['machine']} cannot take part in this training: {problem}")
        if len(workers) == settings.count - 1:
            return workers
        if time.monotonic() > deadline:
            raise ExecutorError(
                f"{reported + 1} of {settings.count} machines were there within {settings.wait_seconds:g} s "
                "(runtime.executor_wait_seconds). Start `reticent join SETTINGS` on the others, or lower "
                "runtime.num_machines"
            )
        time.sleep(LOOK_SECONDS)


def _problem(worker: dict[str, Any], on_gpu: bool) -> str | None:
    """Returns the reason why a worker cannot take part, or None."""
    ours, theirs = installed(), worker["installed"]
    if other := [f"{k} {theirs.get(k, 'absent')} in place of {ours[k]}" for k in ours if theirs.get(k) != ours[k]]:
        return f"it has another installation: {', '.join(other)}"
    if worker["missing"]:
        return f"it does not see {worker['missing']}; all machines must mount one file system, at one path"
    if on_gpu and worker["gpus"] < worker["processes"]:
        return f"it has {worker['processes']} processes (runtime.num_processes), but shows only {worker['gpus']} GPUs"
    return None


def assign_ranks(
    folder: Path,
    workers: list[dict[str, Any]],
    share: ProcessShare,
    work: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> ProcessShare:
    """Writes the ranks of each worker and the work itself, which starts the workers. Returns this machine's share.

    The work is code. Workers read it from the private root only, never from the network.
    """
    first, ranks = share.count, {}
    for worker in workers:
        ranks[worker["token"]] = first
        first += worker["processes"]
    job = base64.b64encode(pickle.dumps((work, arguments))).decode()
    order = {"first": ranks, "total": first, "device": share.device, "seconds": share.connect_seconds, "job": job}
    write_json(folder / ORDER, order)
    return replace(share, total=first, store=folder / STORE)


def failures_on_other_machines(folder: Path, workers: list[dict[str, Any]]) -> list[ProcessFailure]:
    """Returns the failures that workers wrote down, and one failure for each worker that is gone."""
    failures = [ProcessFailure(**read_json(path)) for path in sorted(folder.glob("failure-*.json"))]
    ranks = read_json(folder / ORDER)["first"]
    for worker in workers:
        if not is_held(worker_lock(folder, worker["token"])):
            gone = ProcessFailure(
                ranks[worker["token"]], "died", "was lost with its machine", machine=worker["machine"]
            )
            failures.append(gone)
    return failures
