"""Worker: takes part in trainings that another machine coordinates."""

from __future__ import annotations

import base64
import contextlib
import pickle
import platform
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import torch

from pipelines.context import silent
from pipelines.files import hold_lock, read_json, write_json
from pipelines.training.machines.process_group import (
    LOOK_SECONDS,
    ProcessFailure,
    ProcessGroup,
    ProcessShare,
    check_interface,
)
from pipelines.training.machines.rendezvous import LOCK, ORDER, STORE, TRAINING, installed, is_held, worker_lock

_ENDINGS: Final = {
    "refused": "a process refused ({name})",
    "died": "a process {name}",
    "failed": "a process failed with {name}",
    "lost": "a process lost its connection to another machine",
}


@dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """Settings of a machine that joins trainings.

    Attributes:
        folder: private folder in which trainings are announced.
        count: number of processes to start.
        interface: network interface of this machine that its settings declare private.
        say: callback that receives messages about the training, never private text.
    """

    folder: Path
    count: int
    interface: str | None
    say: Callable[[str], None]


def join_announced_trainings(settings: WorkerSettings, is_over: Callable[[], bool] = lambda: False) -> None:
    """Joins every training that is announced, until ``is_over`` returns true.

    Raises:
        ConfigError: no interface is declared private, or this machine does not have it.
    """
    check_interface(settings.interface)
    seen: set[str] = set()
    settings.say("waiting for a training")
    while not is_over():
        for path in sorted(settings.folder.glob(f"[!.]*/{TRAINING}")):
            if path.parent.name not in seen and is_held(path.with_name(LOCK)):
                seen.add(path.parent.name)
                with contextlib.suppress(FileNotFoundError):  # the training has ended meanwhile
                    settings.say(_join(settings, path.parent))
        time.sleep(LOOK_SECONDS)


def _join(settings: WorkerSettings, folder: Path) -> str:
    """Takes part in one training, and returns how it ended, in words."""
    token = secrets.token_hex(16)
    needed = read_json(folder / TRAINING)["needed"]
    with hold_lock(worker_lock(folder, token)):
        description = {
            "token": token,
            "machine": platform.node(),
            "processes": settings.count,
            "gpus": torch.cuda.device_count() if torch.cuda.is_available() else 0,
            "installed": installed(),
            "missing": next((path for path in needed if not Path(path).is_dir()), None),
        }
        write_json(folder / f"machine-{token}.json", description)
        settings.say("joined a training; waiting for the other machines")
        while not (folder / ORDER).exists():
            if not is_held(folder / LOCK):
                return "the training ended without this machine; the flow's machine says why"
            time.sleep(LOOK_SECONDS)
        order = read_json(folder / ORDER)
        if token not in order["first"]:
            return "the training began without this machine: enough others were there"
        return _train(settings, folder, order, order["first"][token])


def _train(settings: WorkerSettings, folder: Path, order: dict[str, Any], first: int) -> str:
    work, arguments = pickle.loads(base64.b64decode(order["job"]))  # noqa: S301  (from the private root)
    share = ProcessShare(
        first=first,
        count=settings.count,
        total=order["total"],
        device=order["device"],
        interface=str(settings.interface),
        store=folder / STORE,
        connect_seconds=order["seconds"],
    )
    gone = ProcessFailure(0, "lost", "the flow's machine")

    def look() -> list[ProcessFailure]:
        return [] if is_held(folder / LOCK) else [gone]

    def tell(failure: ProcessFailure) -> None:
        with contextlib.suppress(FileNotFoundError):  # the training has ended
            write_json(folder / f"failure-{failure.rank}.json", asdict(failure) | {"machine": platform.node()})

    settings.say(f"training: processes {first} to {first + share.count - 1} of {share.total}, from 0")
    with ProcessGroup(share, work, arguments) as group:
        results, failed = group.watch(silent, look, tell)
    while is_held(folder / LOCK):  # until then, the lock of this machine says that it is there
        time.sleep(LOOK_SECONDS / 4)
    if len(results) == share.count:
        return "the training is complete"
    if gone in failed:
        return "the training was ended by the flow's machine, or that is gone"
    cause = min(failed, key=lambda failure: list(_ENDINGS).index(failure.kind))
    return f"the training ended: {_ENDINGS[cause.kind].format(name=cause.name)}; the flow's machine says more"
