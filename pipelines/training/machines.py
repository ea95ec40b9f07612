"""How machines that train together find and watch each other: by files in the private root, which all of them share.

A training has a folder of its own for each attempt, of mode 0700. The machine that runs the flow holds a lock on a file
in it, and so does each machine that joins: the kernel frees the lock of one that dies. Torch's `FileStore` lies there
too and holds network addresses only. Nothing listens on the network but torch's own sockets.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import importlib.metadata
import os
import pickle
import platform
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import torch

from pipelines.context import Progress, silent
from pipelines.errors import ExecutorError
from pipelines.files import read_json, source_digest, write_json
from pipelines.training.team import LOOK_SECONDS, ProcessFailure, ProcessGroup, ProcessShare, check_interface

_PACKAGES: Final = ("torch", "numpy", "transformers", "tokenizers", "safetensors")
_LOCK, _TRAINING, _ORDER, _STORE = "training.lock", "training.json", "order.json", "store"
_SAID: Final = {
    "refused": "a process refused ({name})",
    "died": "a process {name}",
    "failed": "a process failed with {name}",
    "lost": "a process lost its connection to another machine",
}


@dataclass(frozen=True, kw_only=True)
class CoordinatorSettings:
    """The machines that train a model together, as the settings say.

    Attributes:
        count: number of machines, this one included.
        interface: network interface of this machine that the settings declare private.
        wait_seconds: time to wait for the others.
        folder: private folder in which trainings are announced.
        needed: folders that every machine must see.
    """

    count: int
    interface: str | None
    wait_seconds: float
    folder: Path
    needed: tuple[str, ...] = ()


@contextlib.contextmanager
def announce_training(machines: CoordinatorSettings) -> Iterator[Path]:
    """A fresh folder in which machines may join, as long as this lasts.

    Raises:
        ConfigError: no interface is declared private, or this machine does not have it.
    """
    check_interface(machines.interface)
    machines.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for old in machines.folder.iterdir():
        if not _is_held(old / _LOCK):
            shutil.rmtree(old, ignore_errors=True)  # of a training that was killed
    folder = machines.folder / secrets.token_hex(16)
    making = folder.with_name(f".{folder.name}")
    making.mkdir(mode=0o700)
    with _held(making / _LOCK):
        os.close(os.open(making / _STORE, os.O_CREAT | os.O_RDWR, 0o600))
        write_json(making / _TRAINING, {"needed": list(machines.needed)})
        making.rename(folder)  # it is whole and locked when it is seen
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def wait_for_workers(
    folder: Path, machines: CoordinatorSettings, on_gpu: bool, progress: Progress
) -> list[dict[str, Any]]:
    """Waits for the other machines, and returns what each said when it joined.

    Raises:
        ExecutorError: too few came in time, or one lacks what the training needs.
    """
    deadline, told = time.monotonic() + machines.wait_seconds, -1
    while True:
        found = [read_json(path) for path in sorted(folder.glob("machine-*.json"))]
        there = [one for one in found if _is_held(folder / f"machine-{one['token']}.lock")][: machines.count - 1]
        if told != len(there):
            told = len(there)
            progress(0, None, f"waiting for machines: {told + 1} of {machines.count}")
        for one in there:
            if problem := _problem(one, on_gpu):
                raise ExecutorError(f"machine {one['machine']} cannot take part in this training: {problem}")
        if len(there) == machines.count - 1:
            return there
        if time.monotonic() > deadline:
            raise ExecutorError(
                f"{told + 1} of {machines.count} machines were there within {machines.wait_seconds:g} s "
                "(runtime.executor_wait_seconds); start `reticent join SETTINGS` on the others, or lower "
                "runtime.num_machines"
            )
        time.sleep(LOOK_SECONDS)


def _problem(joined: dict[str, Any], on_gpu: bool) -> str | None:
    """Why a machine cannot take part; None if it can."""
    ours, theirs = installed(), joined["installed"]
    if other := [f"{k} {theirs.get(k, 'absent')} in place of {ours[k]}" for k in ours if theirs.get(k) != ours[k]]:
        return f"it has another installation: {', '.join(other)}"
    if joined["missing"]:
        return f"it does not see {joined['missing']}; all machines must mount one file system, at one path"
    if on_gpu and joined["gpus"] < joined["processes"]:
        return (
            f"it has {joined['processes']} processes (runtime.num_processes), and {joined['gpus']} GPUs are to be seen "
            "there"
        )
    return None


def assign_ranks(
    folder: Path,
    joined: list[dict[str, Any]],
    share: ProcessShare,
    work: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> ProcessShare:
    """Writes down which processes each machine starts, and the work itself; returns the share of this machine.

    The work is code. It comes from the private root alone, and never over the network.
    """
    first, parts = share.count, {}
    for one in joined:
        parts[one["token"]] = first
        first += one["processes"]
    job = base64.b64encode(pickle.dumps((work, arguments))).decode()
    order = {"first": parts, "total": first, "device": share.device, "seconds": share.connect_seconds, "job": job}
    write_json(folder / _ORDER, order)
    return replace(share, total=first, store=folder / _STORE)


def failures_on_other_machines(folder: Path, joined: list[dict[str, Any]]) -> list[ProcessFailure]:
    """How processes of other machines ended, as far as these machines wrote it down or are gone themselves."""
    found = [ProcessFailure(**read_json(path)) for path in sorted(folder.glob("failure-*.json"))]
    order = read_json(folder / _ORDER)["first"]
    for one in joined:
        if not _is_held(folder / f"machine-{one['token']}.lock"):
            found.append(
                ProcessFailure(order[one["token"]], "died", "was lost with its machine", machine=one["machine"])
            )
    return found


@dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """How this machine takes part in trainings that another one runs.

    Attributes:
        folder: private folder in which trainings are announced.
        count: number of processes to start.
        interface: network interface of this machine that its settings declare private.
        say: told in words what happens; never private text.
    """

    folder: Path
    count: int
    interface: str | None
    say: Callable[[str], None]


def join_trainings(joining: WorkerSettings, is_over: Callable[[], bool] = lambda: False) -> None:
    """Joins every training that is announced, until ``is_over``.

    Raises:
        ConfigError: no interface is declared private, or this machine does not have it.
    """
    check_interface(joining.interface)
    seen: set[str] = set()
    joining.say("waiting for a training")
    while not is_over():
        for path in sorted(joining.folder.glob(f"[!.]*/{_TRAINING}")):
            if path.parent.name not in seen and _is_held(path.with_name(_LOCK)):
                seen.add(path.parent.name)
                with contextlib.suppress(FileNotFoundError):  # it has ended meanwhile
                    joining.say(_join(joining, path.parent))
        time.sleep(LOOK_SECONDS)


def _join(joining: WorkerSettings, folder: Path) -> str:
    """Takes part in one training; how it ended, in words."""
    token = secrets.token_hex(16)
    needed = read_json(folder / _TRAINING)["needed"]
    with _held(folder / f"machine-{token}.lock"):
        hello = {
            "token": token,
            "machine": platform.node(),
            "processes": joining.count,
            "gpus": torch.cuda.device_count() if torch.cuda.is_available() else 0,
            "installed": installed(),
            "missing": next((one for one in needed if not Path(one).is_dir()), None),
        }
        write_json(folder / f"machine-{token}.json", hello)
        joining.say("joined a training; waiting for the other machines")
        while not (folder / _ORDER).exists():
            if not _is_held(folder / _LOCK):
                return "the training ended without this machine; the flow's machine says why"
            time.sleep(LOOK_SECONDS)
        order = read_json(folder / _ORDER)
        if token not in order["first"]:
            return "the training began without this machine: enough others were there"
        return _train(joining, folder, order, order["first"][token])


def _train(joining: WorkerSettings, folder: Path, order: dict[str, Any], first: int) -> str:
    work, arguments = pickle.loads(base64.b64decode(order["job"]))  # noqa: S301  (from the private root)
    share = ProcessShare(
        first=first,
        count=joining.count,
        total=order["total"],
        device=order["device"],
        interface=str(joining.interface),
        store=folder / _STORE,
        connect_seconds=order["seconds"],
    )
    gone = ProcessFailure(0, "lost", "the flow's machine")

    def look() -> list[ProcessFailure]:
        return [] if _is_held(folder / _LOCK) else [gone]

    def tell(failure: ProcessFailure) -> None:
        with contextlib.suppress(FileNotFoundError):  # the training has ended
            write_json(folder / f"failure-{failure.rank}.json", asdict(failure) | {"machine": platform.node()})

    joining.say(f"training: processes {first} to {first + share.count - 1} of {share.total}, from 0")
    with ProcessGroup(share, work, arguments) as team:
        results, failed = team.watch(silent, look, tell)
    while _is_held(folder / _LOCK):  # the lock of this machine says until then that it is there
        time.sleep(LOOK_SECONDS / 4)
    if len(results) == share.count:
        return "the training is complete"
    if gone in failed:
        return "the training was ended by the flow's machine, or that is gone"
    cause = min(failed, key=lambda failure: list(_SAID).index(failure.kind))
    return f"the training ended: {_SAID[cause.kind].format(name=cause.name)}; the flow's machine says more"


def installed() -> dict[str, Any]:
    """What must be the same on all machines: versions, and a digest of our code, by name."""
    found = {"Python": platform.python_version(), "processor": platform.machine()}
    for name in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return {**found, "reticent": source_digest(Path(__file__).resolve().parents[2], ("pipelines",))[:12]}


@contextlib.contextmanager
def _held(lock: Path) -> Iterator[None]:
    """Holds the lock of a file, which the kernel frees if this process dies."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _is_held(lock: Path) -> bool:
    """Whether the process that made the file is there, on whichever machine."""
    try:
        descriptor = os.open(lock, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
