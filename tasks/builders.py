"""The builder and the progress display of each run that is under way in this process."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from pipelines.context import Progress, silent
from pipelines.store.session import open_session
from pipelines.store.workers import Builder

StageProgress = Callable[[str, int, int | None, str], None]
"""(stage, done, total, message)."""

PARTITIONS = "partitions"
"""The message of a progress report that counts finished partitions rather than work inside one."""


@dataclass
class _Active:
    builder: Builder
    display: StageProgress | None
    finished: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)


_active: dict[str, _Active] = {}


def activate(run: str, progress: StageProgress | None = None) -> None:
    """Makes a run known to the tasks of this process."""
    _active[run] = _Active(Builder(run), progress)


def deactivate(run: str) -> None:
    """Ends a run's worker processes."""
    if run in _active:
        _active.pop(run).builder.close()


def builder_of(run: str) -> Builder:
    """The run's builder; made on first use where a task runs in a process of its own (Dask, Ray)."""
    if run not in _active:
        activate(run)
    return _active[run].builder


def progress_of(run: str, stage: str) -> Progress:
    """The display that the run was activated with, for one stage."""
    display = _active[run].display if run in _active else None
    return partial(display, stage) if display is not None else silent


def report_partition(run: str, stage: str, partition: str | None, *, is_new: bool) -> None:
    """Counts a finished partition, and shows the count if it was work: worker processes report nothing themselves."""
    active = _active.get(run)
    if active is None or active.display is None or partition is None:
        return
    with active.lock:
        active.finished[stage] += 1
        done = active.finished[stage]
    if is_new:
        active.display(stage, done, len(open_session(run).spec.partitions), PARTITIONS)
