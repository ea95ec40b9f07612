"""Train, on several devices: the same work in every process of every machine that `[runtime]` asks for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pipelines.context import Environment, Progress, StageContext
from pipelines.errors import ConfigError

if TYPE_CHECKING:
    from pipelines.stages.train.config import TrainConfig
    from pipelines.training.machines.coordinator import CoordinatorSettings


def is_alone(ctx: StageContext) -> bool:
    """Whether one process trains."""
    return ctx.runtime.num_processes == ctx.runtime.num_machines == 1


def check_ranks(ctx: StageContext) -> None:
    """Refuses what could not be trained in so many processes, before any row is read.

    Raises:
        ConfigError: the method takes one process, there are fewer GPUs, or no such interface, or none is declared.
    """
    config: TrainConfig = ctx.configs["train"]
    if is_alone(ctx):
        return
    from pipelines.training.devices import check_devices
    from pipelines.training.machines.process_group import check_interface

    if not config.method_spec().shares_steps:
        raise ConfigError(
            f"method {config.method} trains in one process: each of its updates starts where the one before it in the "
            "same record ended; set runtime.num_processes = 1 and runtime.num_machines = 1"
        )
    check_devices(ctx.runtime.device, ctx.runtime.num_processes)
    if ctx.runtime.num_machines > 1:
        check_interface(ctx.runtime.private_interface)


def on_ranks(ctx: StageContext, work: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """``work(ctx, *arguments)`` in this process, or in as many as the settings ask for.

    Args:
        ctx: of the stage; the processes are not told the store's secret, and have no ledger.
        work: a function of a module. Under several processes `pipelines.dp.ranks.Ranks.here` tells them
            apart, and the first one writes; what it returns is returned.
    """
    if is_alone(ctx):
        return work(ctx, *arguments)
    from pipelines.training.devices import is_on_gpu
    from pipelines.training.machines.launch import launch
    from pipelines.training.machines.network_exchanges import record_network_exchange

    lent, machines = replace(ctx, run=Environment(processes=ctx.run.processes)), _machines(ctx)
    if machines is None:
        ctx.run.progress(0, None, f"starting {ctx.runtime.num_processes} training processes")
    else:
        record_network_exchange(ctx.out.scratch, "private_interface")
        device = "cuda" if is_on_gpu(ctx.runtime.device) else "cpu"  # on all machines the same
        lent = replace(lent, runtime=replace(ctx.runtime, device=device))
    found: dict[str, Any] = launch(
        _in_context,
        (work, lent, arguments),
        count=ctx.runtime.num_processes,
        device=ctx.runtime.device,
        progress=ctx.run.progress,
        failures=ctx.out.failures,
        machines=machines,
    )
    return found


def _machines(ctx: StageContext) -> CoordinatorSettings | None:
    if ctx.runtime.num_machines == 1:
        return None
    from pipelines.training.machines.coordinator import CoordinatorSettings

    if ctx.run.meeting is None:
        raise ConfigError("runtime.num_machines needs a store, in whose private root machines meet")
    read = [artifact for artifacts in ctx.inputs.values() for artifact in artifacts]
    folders = [ctx.out.scratch.folder, *(a.folder for a in read), *(a.public_folder for a in read if a.public_folder)]
    return CoordinatorSettings(
        count=ctx.runtime.num_machines,
        interface=ctx.runtime.private_interface,
        wait_seconds=ctx.runtime.executor_wait_seconds,
        folder=ctx.run.meeting,
        needed=tuple(map(str, folders)),
    )


def _in_context(
    work: Callable[..., dict[str, Any]], ctx: StageContext, arguments: tuple[Any, ...], progress: Progress
) -> dict[str, Any]:
    return work(replace(ctx, run=replace(ctx.run, progress=progress)), *arguments)
