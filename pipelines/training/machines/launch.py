"""Starts the processes that train one model together, watches them, and ends all of them if one fails.

It replaces ``torchrun``, with one process per device, because private text needs more care:

* The processes of a machine meet through a file and talk over the loopback interface only. Torchrun's store listens on
  every interface.
* No argument and no environment variable of a process holds private data.
* Errors come back through a pipe. The traceback, which may quote text, goes to the private root and not to a log.
* No process outlives the process that started it, whichever way that ends.

`coordinator` and `worker` add the processes of other machines.
"""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from pipelines import errors
from pipelines.artifacts import Target
from pipelines.context import Progress
from pipelines.errors import ConfigError, ReticentError, StageError
from pipelines.training.devices import is_on_gpu
from pipelines.training.machines.coordinator import (
    CoordinatorSettings,
    announce_training,
    assign_ranks,
    failures_on_other_machines,
    wait_for_workers,
)
from pipelines.training.machines.process_group import ProcessFailure, ProcessGroup, ProcessShare, loopback


def launch(
    work: Callable[..., Any],
    arguments: tuple[Any, ...],
    *,
    count: int,
    device: str,
    progress: Progress,
    failures: Target,
    machines: CoordinatorSettings | None = None,
) -> Any:
    """Runs ``work(*arguments, progress)`` in ``count`` processes here, and in those of other machines.

    The processes form torch's default group.

    Args:
        work: function at the top level of a module. Every process runs it.
        arguments: arguments of the function. They travel through a pipe, and to other machines in a file of the private
            root.
        count: number of processes on this machine.
        device: ``cpu``, ``cuda`` or ``auto``. Process r of a machine takes its r-th GPU.
        progress: callback that receives the progress of the first process.
        failures: private folder for tracebacks, made when needed.
        machines: settings of a training on several machines. None for this machine alone.

    Returns:
        Result of the first process.

    Raises:
        ConfigError: this process may have no children, or no interface is declared private.
        ExecutorError: other machines did not join, or cannot take part.
        ReticentError: ``work`` raised it. The message names the process.
        StageError: a process died, or failed with an error that is not of Reticent.
    """
    if multiprocessing.current_process().daemon:
        raise ConfigError("runtime.num_processes: a worker of Dask cannot start processes. Set it to 1")
    share, look = ProcessShare(count=count, total=count, device=device, interface=loopback()), None
    with contextlib.ExitStack() as stack:
        if machines is not None:
            on_gpu = is_on_gpu(device)
            folder = stack.enter_context(announce_training(machines))
            joined = wait_for_workers(folder, machines, on_gpu, progress)
            share = replace(
                share,
                device="cuda" if on_gpu else "cpu",  # the same on all machines
                interface=str(machines.interface),
                connect_seconds=machines.wait_seconds,
            )
            share = assign_ranks(folder, joined, share, work, arguments)
            progress(0, None, f"starting {share.total} training processes on {machines.count} machines")
            look = partial(failures_on_other_machines, folder, joined)
        team = stack.enter_context(ProcessGroup(share, work, arguments))
        results, failed = team.watch(progress, look)
    if failed:
        raise _as_error(failed, share.total, failures)
    return results[0]


def _as_error(failed: list[ProcessFailure], count: int, failures: Target) -> ReticentError:
    """Returns the error for the first cause: a process that only lost its partner comes last."""
    order = ("refused", "died", "failed", "lost")
    cause = min(failed, key=lambda failure: order.index(failure.kind))
    where = f", on {cause.machine}" if cause.machine else ""
    who = f"training process {cause.rank} (of {count}, from 0{where})"
    if cause.kind == "refused":
        kind: type[ReticentError] = getattr(errors, cause.name)
        return kind(f"{who}: {cause.text}")
    if cause.kind == "died":
        return StageError(
            f"{who} {cause.name}, perhaps because memory ran out, and the other processes were ended. Run again to "
            "continue from the last checkpoint"
        )
    if cause.name == "unreachable":
        return StageError(
            f"the training processes did not reach each other over runtime.private_interface within {cause.text} s "
            "(runtime.executor_wait_seconds). Check on each machine that the interface is up, that the others answer "
            "there, and that no firewall is between them. Then run again"
        )
    if cause.kind == "lost":
        return StageError(
            f"{who} lost its connection to another one, and all were ended. Run again to continue from the last "
            "checkpoint"
        )
    for failure in failed:
        if failure.kind == "failed":
            failures.text(f"rank-{failure.rank}.txt", failure.text)
    path = failures.blob(f"rank-{cause.rank}.txt")
    return StageError(f"{who} failed with {cause.name}; the traceback is in the private root: {path}")
