"""The builder and the progress display of each run that is under way in this process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pipelines.context import Progress, silent
from pipelines.store.workers import Builder

StageProgress = Callable[[str, int, int | None, str], None]
"""(stage, done, total, message)."""

_active: dict[str, tuple[Builder, StageProgress | None]] = {}


def activate(run: str, progress: StageProgress | None = None) -> None:
    """Makes a run known to the tasks of this process."""
    _active[run] = (Builder(run), progress)


def deactivate(run: str) -> None:
    """Ends a run's worker processes."""
    if run in _active:
        _active.pop(run)[0].close()


def builder_of(run: str) -> Builder:
    """The run's builder; made on first use where a task runs in a process of its own (Dask, Ray)."""
    if run not in _active:
        activate(run)
    return _active[run][0]


def progress_of(run: str, stage: str) -> Progress:
    """The display that the run was activated with, for one stage."""
    display = _active[run][1] if run in _active else None
    return partial(display, stage) if display is not None else silent
