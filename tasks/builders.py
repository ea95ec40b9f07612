"""The builder and the progress display of each active run in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pipelines.context import Progress, silent
from pipelines.store.building.workers import Builder, Executor

StageProgress = Callable[[str, int, int | None, str], None]
"""(stage, done, total, message)."""


@dataclass(frozen=True)
class _Active:
    builder: Builder
    display: StageProgress | None


_active: dict[str, _Active] = {}


def activate(run: str, progress: StageProgress | None = None, executor: Executor | None = None) -> None:
    """Registers a run for the tasks of this process."""
    _active[run] = _Active(Builder(run, executor), progress)


def deactivate(run: str) -> None:
    """Ends a run's worker processes, and removes the run."""
    if run in _active:
        _active.pop(run).builder.close()


def builder_of(run: str) -> Builder:
    """Returns the run's builder, and makes it if nobody activated the run."""
    if run not in _active:
        activate(run)
    return _active[run].builder


def progress_of(run: str, stage: str) -> Progress:
    """Returns the display of an activated run, for one stage."""
    display = _active[run].display if run in _active else None
    return partial(display, stage) if display is not None else silent
