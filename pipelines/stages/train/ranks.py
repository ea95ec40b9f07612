"""Train on several devices: the same work in every process of every machine that ``[runtime]`` asks for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pipelines.context import Environment, Progress, StageContext
from pipelines.errors import ConfigError
from pipelines.training.devices import check_devices, is_on_gpu
from pipelines.training.machines.coordinator import CoordinatorSettings
from pipelines.training.machines.launch import launch
from pipelines.training.machines.network_exchanges import record_network_exchange
from pipelines.training.machines.process_group import check_interface

if TYPE_CHECKING:
    from pipelines.settings.train import TrainConfig


def is_alone(ctx: StageContext) -> bool:
    """Checks that one process trains."""
    return ctx.runtime.num_processes == ctx.runtime.num_machines == 1


def check_ranks(ctx: StageContext) -> None:
    """Checks before any row is read that the training can run in the requested processes.

    Raises:
        ConfigError: the method needs one process, GPUs are too few, or the network interface is missing or undeclared.
    """
    config: TrainConfig = ctx.configs["train"]
    if is_alone(ctx):
        return
    if not config.method_spec().shares_steps:
        raise ConfigError(
            f"method {config.method} trains in one process: each of its updates starts where the one before it in the "
            "same record ended; set runtime.num_processes = 1 and runtime.num_machines = 1"
        )
    check_devices(ctx.runtime.device, ctx.runtime.num_processes)
    if ctx.runtime.num_machines > 1:
        check_interface(ctx.runtime.private_interface)


def on_ranks(ctx: StageContext, work: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """Calls ``work(ctx, *arguments)`` in this process, or in as many processes as the settings ask for.

    Args:
        ctx: context of the stage. Other processes get neither the store's secret nor a ledger.
        work: function of a module. `pipelines.dp.ranks.Ranks.here` tells processes their rank. The first process
            writes, and its return value is returned.
        arguments: further arguments of ``work``.
    """
    if is_alone(ctx):
        return work(ctx, *arguments)
    worker_ctx, machines = replace(ctx, run=Environment(processes=ctx.run.processes)), _machines(ctx)
    if machines is None:
        ctx.run.progress(0, None, f"starting {ctx.runtime.num_processes} training processes")
    else:
        record_network_exchange(ctx.out.scratch, "private_interface")
        device = "cuda" if is_on_gpu(ctx.runtime.device) else "cpu"  # on all machines the same
        worker_ctx = replace(worker_ctx, runtime=replace(ctx.runtime, device=device))
    counts: dict[str, Any] = launch(
        _in_context,
        (work, worker_ctx, arguments),
        count=ctx.runtime.num_processes,
        device=ctx.runtime.device,
        progress=ctx.run.progress,
        failures=ctx.out.failures,
        machines=machines,
    )
    return counts


def _machines(ctx: StageContext) -> CoordinatorSettings | None:
    if ctx.runtime.num_machines == 1:
        return None
    if ctx.run.rendezvous is None:
        raise ConfigError("runtime.num_machines needs a store, in whose private root machines meet")
    read = [artifact for artifacts in ctx.inputs.values() for artifact in artifacts]
    folders = [ctx.out.scratch.folder, *(a.folder for a in read), *(a.public_folder for a in read if a.public_folder)]
    return CoordinatorSettings(
        count=ctx.runtime.num_machines,
        interface=ctx.runtime.private_interface,
        wait_seconds=ctx.runtime.executor_wait_seconds,
        folder=ctx.run.rendezvous,
        needed=tuple(map(str, folders)),
    )


def _in_context(
    work: Callable[..., dict[str, Any]], ctx: StageContext, arguments: tuple[Any, ...], progress: Progress
) -> dict[str, Any]:
    return work(replace(ctx, run=replace(ctx.run, progress=progress)), *arguments)
