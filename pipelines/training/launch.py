"""Starts the processes that train one model together, watches them, and ends all of them when one of them ends.

It does what ``torchrun`` does on one machine, one process for each device, in a way that private text asks for: the
processes meet through a file and talk over the loopback interface only, where torchrun's store listens on every one;
nothing they are told stands in an argument or in the environment; what they raise comes back through a pipe, and the
traceback, which may quote text, goes to the private root rather than to a log; and none outlives the process that
started it, however that ends.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import shutil
import signal
import socket
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final, Literal

import torch

from pipelines import errors
from pipelines.artifacts import Target
from pipelines.context import Progress, silent
from pipelines.errors import ConfigError, ReticentError, StageError
from pipelines.processes import die_with_parent, ignore_interrupts, withhold_library_messages
from pipelines.training.devices import is_on_gpu

GRACE_SECONDS: Final = 2.0
"""After one process has failed, what the others have to say is heard for so long: the first word is often that of a
process that lost its partner, and not of the one that failed."""

_PATIENCE: Final = timedelta(days=30)
"""How long a process waits for another, which may be evaluating. One that died is noticed here, not by waiting."""


@dataclass(frozen=True)
class _Failure:
    """How a process ended, if not by finishing.

    Attributes:
        rank: its number.
        kind: ``refused`` with an error of ours, ``died`` without a word, or ``failed`` with any other error.
        name: of our error's class, of the signal, or of the other error's class.
        text: the message, or the traceback.
    """

    rank: int
    kind: Literal["refused", "died", "failed"]
    name: str
    text: str = ""


def launch(
    work: Callable[..., Any],
    arguments: tuple[Any, ...],
    *,
    count: int,
    device: str,
    progress: Progress,
    scratch: Target,
    failures: Target,
) -> Any:
    """Runs ``work(*arguments, progress)`` in ``count`` processes that form torch's default group.

    Args:
        work: a function of a module; every process runs it.
        arguments: they travel through a pipe.
        count: how many processes.
        device: ``cpu``, ``cuda`` or ``auto``; process r takes the r-th GPU.
        progress: told what the first process says; the others' is dropped.
        scratch: a private folder; the processes meet in a file there.
        failures: a private folder for tracebacks; made when needed.

    Returns:
        What the first process returned.

    Raises:
        ConfigError: this process may have no children.
        ReticentError: as ``work`` raised it, with the number of the process.
        StageError: a process died, or failed by accident.
    """
    if multiprocessing.current_process().daemon:
        raise ConfigError("runtime.num_processes: a worker of Dask may start no processes of its own; set it to 1")
    context = multiprocessing.get_context("spawn")
    meeting = Path(tempfile.mkdtemp(prefix="meeting-", dir=scratch.folder))
    running: dict[Connection, tuple[int, BaseProcess]] = {}
    try:
        for rank in range(count):
            ours, theirs = context.Pipe(duplex=False)
            common = (rank, count, device, meeting, theirs)
            process = context.Process(target=_main, args=(*common, work, arguments), daemon=True, name=f"rank {rank}")
            with ignore_interrupts():
                process.start()
            theirs.close()  # so that the pipe ends when the process does
            running[ours] = (rank, process)
        results, failed = _watch(dict(running), progress)
    finally:
        for _, one in running.values():
            one.kill()  # there is nothing to save: checkpoints are whole at any moment
        for pipe, (_, one) in running.items():
            one.join()
            pipe.close()
        shutil.rmtree(meeting, ignore_errors=True)
    if failed:
        raise _as_error(failed, count, failures)
    return results[0]


def _watch(
    running: dict[Connection, tuple[int, BaseProcess]], progress: Progress
) -> tuple[dict[int, Any], list[_Failure]]:
    """Listens until all are done, or one has failed and the others were heard."""
    results: dict[int, Any] = {}
    failed: list[_Failure] = []
    deadline = None
    while running:
        timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
        ready = multiprocessing.connection.wait(list(running), timeout)
        if not ready:
            break
        for pipe in ready:
            assert isinstance(pipe, Connection)  # noqa: S101  # nothing else is waited for
            rank, process = running[pipe]
            try:
                kind, said = pipe.recv()
            except (EOFError, OSError):
                process.join()
                kind, said = "failure", _Failure(rank, "died", _way_to_end(process.exitcode))
            if kind == "progress":
                progress(*said)
                continue
            del running[pipe]
            if kind == "done":
                results[rank] = said
            else:
                failed.append(said)
                deadline = deadline or time.monotonic() + GRACE_SECONDS
    return results, failed


def _way_to_end(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        return f"was ended by {signal.Signals(-exit_code).name}"
    return f"ended with exit code {exit_code}"


def _as_error(failed: list[_Failure], count: int, failures: Target) -> ReticentError:
    """The error of the process that failed first of all: one that lost its partner fails too, by accident."""
    order = ("refused", "died", "failed")
    cause = min(failed, key=lambda failure: order.index(failure.kind))
    who = f"training process {cause.rank} (of {count}, from 0)"
    if cause.kind == "refused":
        kind: type[ReticentError] = getattr(errors, cause.name)
        return kind(f"{who}: {cause.text}")
    if cause.kind == "died":
        return StageError(
            f"{who} {cause.name}, perhaps for want of memory, and the others were ended with it; run again to go on "
            "from the last checkpoint"
        )
    for failure in failed:
        if failure.kind == "failed":
            failures.text(f"rank-{failure.rank}.txt", failure.text)
    where = failures.blob(f"rank-{cause.rank}.txt")
    return StageError(f"{who} failed with {cause.name}; the traceback is in the private root: {where}")


def _main(
    rank: int,
    count: int,
    device: str,
    meeting: Path,
    pipe: Connection,
    work: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> None:
    """What one of the processes does."""
    die_with_parent()
    withhold_library_messages()

    def tell(done: int, total: int | None, message: str = "") -> None:
        pipe.send(("progress", (done, total, message)))

    try:
        with _group(rank, count, device, meeting):
            result = work(*arguments, tell if rank == 0 else silent)
        pipe.send(("done", result))
        return
    except ReticentError as error:
        name = next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == errors.__name__)
        failure = _Failure(rank, "refused", name, str(error))
    except Exception as error:
        failure = _Failure(rank, "failed", type(error).__name__, traceback.format_exc())
    pipe.send(("failure", failure))
    pipe.close()
    os._exit(1)  # leaving the group in order would wait for the others


@contextlib.contextmanager
def _group(rank: int, count: int, device: str, meeting: Path) -> Iterator[None]:
    """Torch's default group: NCCL between GPUs, gloo between CPUs."""
    on_gpu = is_on_gpu(device)
    if on_gpu:
        torch.cuda.set_device(rank)  # what "cuda" means from here on; before anything else is put on the first GPU
    else:
        torch.set_num_threads(max(1, torch.get_num_threads() // count))
    for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        os.environ[variable] = _loopback()
    torch.distributed.init_process_group(
        "nccl" if on_gpu else "gloo",
        store=torch.distributed.FileStore(str(meeting / "store"), count),  # type: ignore[attr-defined]
        rank=rank,
        world_size=count,
        timeout=_PATIENCE,
        device_id=torch.device("cuda", rank) if on_gpu else None,
    )
    yield
    torch.distributed.barrier()  # who is done first stays until the others need nothing more
    torch.distributed.destroy_process_group()


def _loopback() -> str:
    """The name of the interface that no other machine can reach."""
    names = [name for _, name in socket.if_nameindex()]
    return next((name for name in names if name.startswith("lo")), "lo")
