"""Train, on several devices: the same work in every one of the processes that `runtime.num_processes` asks for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pipelines.context import Environment, Progress, StageContext
from pipelines.errors import ConfigError

if TYPE_CHECKING:
    from pipelines.stages.train_config import TrainConfig


def check_ranks(ctx: StageContext) -> None:
    """Refuses what could not be trained in so many processes, before any row is read.

    Raises:
        ConfigError: the method takes one process, or there are fewer GPUs.
    """
    from pipelines.training.devices import check_devices

    config: TrainConfig = ctx.configs["train"]
    if ctx.runtime.num_processes == 1:
        return
    if not config.method_spec().shares_steps:
        raise ConfigError(
            f"method {config.method} trains in one process: each of its updates starts where the one before it in the "
            "same record ended; set runtime.num_processes = 1"
        )
    check_devices(ctx.runtime.device, ctx.runtime.num_processes)


def on_ranks(ctx: StageContext, work: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """``work(ctx, *arguments)`` in this process, or in as many as the settings ask for.

    Args:
        ctx: of the stage; the processes are not told the store's secret, and have no ledger.
        work: a function of a module. Under several processes `pipelines.dp.ranks.Ranks.here` tells them
            apart, and the first one writes; what it returns is returned.
    """
    if ctx.runtime.num_processes == 1:
        return work(ctx, *arguments)
    from pipelines.training.launch import launch

    ctx.run.progress(0, None, f"starting {ctx.runtime.num_processes} training processes")
    found: dict[str, Any] = launch(
        _in_context,
        (work, replace(ctx, run=Environment(processes=ctx.run.processes)), arguments),
        count=ctx.runtime.num_processes,
        device=ctx.runtime.device,
        progress=ctx.run.progress,
        scratch=ctx.out.scratch,
        failures=ctx.out.failures,
    )
    return found


def _in_context(
    work: Callable[..., dict[str, Any]], ctx: StageContext, arguments: tuple[Any, ...], progress: Progress
) -> dict[str, Any]:
    return work(replace(ctx, run=replace(ctx.run, progress=progress)), *arguments)
