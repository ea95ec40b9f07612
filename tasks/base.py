"""The common part of all tasks: no caching or storing by Prefect, retries of passing faults, one call of the store."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from concurrent.futures import BrokenExecutor
from typing import Any

from prefect import State
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed, Failed

from pipelines.errors import PrivacyGateError, StoreError, message_of
from pipelines.printable import first_sentence
from pipelines.store.objects.session import open_session
from pipelines.store.place.outcome import PartitionKeys
from tasks.builders import builder_of, progress_of
from tasks.key_figures import key_figure

REFUSED = "Refused"
"""The name of the state of a run or stage that would have broken a privacy promise."""

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
"""Faults from which a disk or a network file system recovers. A full or read-only disk does not within ten seconds."""


def is_passing(error: object) -> bool:
    """Returns True if a retry in a few seconds may help, after transient I/O errors or the loss of a worker process.

    Wrong settings, unusable input, a privacy gate and a failed stage do not go away.
    """
    if isinstance(error, BrokenExecutor | ConnectionError | EOFError | TimeoutError):
        return True
    return isinstance(error, StoreError | OSError) and error.errno in _PASSING_ERRNO


def may_retry(task: Any, task_run: Any, state: State[Any]) -> bool:
    """Answers Prefect's question for a retry by `is_passing`."""
    return is_passing(state.data)


OPTIONS: Mapping[str, Any] = {
    "cache_policy": NO_CACHE,
    "persist_result": False,
    "retries": 2,
    "retry_delay_seconds": [2, 10],
    "retry_condition_fn": may_retry,
}
"""There are no tags, because for each new tag Prefect asks the server for slots, up to two seconds a run."""


def build(run: str, stage: str, inputs: Mapping[str, PartitionKeys]) -> State[Any]:
    """Gets a stage's outputs for all partitions through the store. If all are hits, the state is ``Cached``.

    The message of the state is the stage's key figure. An error becomes a failed state, so that Prefect writes no
    traceback into its log. Prefect tries again if the error is one that passes.

    A stage has one task run, however many partitions it has, because each costs the orchestrator a tenth of a second.

    Args:
        run: path of the run's specification.
        stage: name of the stage.
        inputs: artifacts of the stages before it, in corpus order.
    """
    try:
        outcomes = builder_of(run).build_stage(stage, inputs, progress_of(run, stage))
    except Exception as error:
        return failed_state(error)
    states = {outcome.state for outcome in outcomes}
    name = states.pop().capitalize() if len(states) == 1 else "Completed"
    return Completed(name=name, message=key_figure(open_session(run), stage, outcomes), data=outcomes)


def failed_state(error: Exception) -> State[Any]:
    """Returns the state for an error: ``Refused`` with one sentence for a privacy gate, otherwise ``Failed``."""
    text = message_of(error)
    if isinstance(error, PrivacyGateError):
        return Failed(name=REFUSED, message=f"{text[:1].upper()}{first_sentence(text)[1:]}", data=error)
    return Failed(message=text, data=error)
