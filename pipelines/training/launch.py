"""Starts the processes that train one model together, watches them, and ends all of them when one of them ends.

It does what ``torchrun`` does, one process for each device, in a way that private text asks for: the processes of a
machine meet through a file and talk over the loopback interface only, where torchrun's store listens on every one;
nothing they are told stands in an argument or in the environment; what they raise comes back through a pipe, and the
traceback, which may quote text, goes to the private root rather than to a log; and none outlives the process that
started it, however that ends. Other machines take part as `pipelines.training.machines` says.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import shutil
import tempfile
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from pipelines import errors
from pipelines.artifacts import Target
from pipelines.context import Progress
from pipelines.errors import ConfigError, ReticentError, StageError
from pipelines.training.devices import is_on_gpu
from pipelines.training.machines.host import Machines, gathered
from pipelines.training.machines.team import Failure, Share, Team, loopback, watch


def launch(
    work: Callable[..., Any],
    arguments: tuple[Any, ...],
    *,
    count: int,
    device: str,
    progress: Progress,
    scratch: Target,
    failures: Target,
    machines: Machines | None = None,
) -> Any:
    """Runs ``work(*arguments, progress)`` in ``count`` processes here, and in those of other machines.

    They form torch's default group, or one group for each machine with sums over all (`pipelines.dp.ranks`).

    Args:
        work: a function of a module; every process runs it.
        arguments: they travel through a pipe, and to other machines in a file of the scratch folder.
        count: how many processes on this machine.
        device: ``cpu``, ``cuda`` or ``auto``; process r of a machine takes its r-th GPU.
        progress: told what the first process says; the others' is dropped.
        scratch: a private folder, which other machines see and find the work in.
        failures: a private folder for tracebacks; made when needed.
        machines: that train together; None for this one alone.

    Returns:
        What the first process returned.

    Raises:
        ConfigError: this process may have no children.
        ExecutorError: other machines did not come, or cannot take part.
        ReticentError: as ``work`` raised it, with the number of the process.
        StageError: a process died, or failed by accident.
    """
    if multiprocessing.current_process().daemon:
        raise ConfigError("runtime.num_processes: a worker of Dask may start no processes of its own; set it to 1")
    with contextlib.ExitStack() as stack:
        meeting = Path(tempfile.mkdtemp(prefix="meeting-", dir=scratch.folder))
        stack.callback(shutil.rmtree, meeting, ignore_errors=True)
        share = Share(count=count, total=count, device=device, meeting=meeting, interface=loopback())
        listener, others = None, dict[Connection, tuple[int, None]]()
        if machines is not None:
            host = stack.enter_context(gathered(machines, is_on_gpu(device), progress))
            share = Share(
                count=count,
                total=count + sum(guest.count for guest in host.guests),
                device="cuda" if is_on_gpu(device) else "cpu",
                meeting=meeting,
                interface=machines.interface or loopback(),
                elsewhere=host.place(0),
            )
            progress(0, None, f"starting {share.total} training processes on {machines.count} machines")
            others = host.start(count, share.device, meeting, work, arguments)
            listener = host.listener if machines.interface is None else None
        team = stack.enter_context(Team(share, work, arguments, listener))
        if machines is not None:
            host.listener.close()  # the first process has its own; whoever comes now comes too late
        members: Mapping[Connection, tuple[int, BaseProcess | None]] = {**team.running, **others}
        results, failed = watch(members, progress)
    if failed:
        raise _as_error(failed, share.total, failures)
    return results[0]


def _as_error(failed: list[Failure], count: int, failures: Target) -> ReticentError:
    """The error of the process that failed first of all: one that lost its partner fails too, by accident."""
    order = ("refused", "died", "failed", "lost")
    cause = min(failed, key=lambda failure: order.index(failure.kind))
    where = f", on {cause.machine}" if cause.machine else ""
    who = f"training process {cause.rank} (of {count}, from 0{where})"
    if cause.kind == "refused":
        kind: type[ReticentError] = getattr(errors, cause.name)
        return kind(f"{who}: {cause.text}")
    if cause.kind == "died":
        return StageError(
            f"{who} {cause.name}, perhaps for want of memory, and the others were ended with it; run again to go on "
            "from the last checkpoint"
        )
    if cause.kind == "lost":
        return StageError(
            f"{who} lost its connection to another machine, and all were ended; run again to go on from the last "
            "checkpoint"
        )
    for failure in failed:
        if failure.kind == "failed":
            failures.text(f"rank-{failure.rank}.txt", failure.text)
    kept = failures.blob(f"rank-{cause.rank}.txt")
    return StageError(f"{who} failed with {cause.name}; the traceback is in the private root: {kept}")
