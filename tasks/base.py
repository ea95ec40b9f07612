"""What every task shares: no Prefect caching, no stored results, retries of passing faults, one call of the store."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from concurrent.futures import BrokenExecutor
from typing import Any

from prefect import State
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed

from pipelines.errors import StoreError
from pipelines.store.place.outcome import PartitionKeys
from tasks.builders import builder_of, progress_of

_PASSING_ERRNO = frozenset(
    {
        errno.EAGAIN,
        errno.EBUSY,
        errno.ECONNRESET,
        errno.EINTR,
        errno.EIO,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ESTALE,
        errno.ETIMEDOUT,
    }
)
"""Faults that a disk or a network file system gets over. A full or read-only disk is still that in ten seconds."""


def is_passing(error: object) -> bool:
    """Whether trying again in a few seconds may help: transient I/O, or a worker process that was lost.

    Wrong settings, unusable input, a privacy gate and a stage that failed stay what they are.
    """
    if isinstance(error, BrokenExecutor | ConnectionError | EOFError | TimeoutError):
        return True
    return isinstance(error, StoreError | OSError) and error.errno in _PASSING_ERRNO


def may_retry(task: Any, task_run: Any, state: State[Any]) -> bool:
    """`is_passing`, as Prefect asks it."""
    return is_passing(state.data)


OPTIONS: Mapping[str, Any] = {
    "cache_policy": NO_CACHE,
    "persist_result": False,
    "retries": 2,
    "retry_delay_seconds": [2, 10],
    "retry_condition_fn": may_retry,
}
"""No tags: for each new one Prefect asks the server for concurrency slots, which costs up to two seconds a run."""


def build(run: str, stage: str, inputs: Mapping[str, PartitionKeys]) -> State[Any]:
    """Gets a stage's outputs through the store, those of all partitions; if all are hits, it ends as ``Cached``.

    One task run for a stage, however many partitions it has: each costs the orchestrator a tenth of a second.

    Args:
        run: path of the run's specification.
        inputs: (partition, key) of every artifact of the stages before it, in corpus order.
    """
    outcomes = builder_of(run).build_stage(stage, inputs, progress_of(run, stage))
    states = {outcome.state for outcome in outcomes}
    return Completed(name=states.pop().capitalize() if len(states) == 1 else "Completed", data=outcomes)
