"""What every task shares: no Prefect caching, no persisted results, one call of the store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prefect import State
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed

from pipelines.store.execute import PartitionKeys
from tasks.builders import builder_of, progress_of

OPTIONS: Mapping[str, Any] = {"cache_policy": NO_CACHE, "persist_result": False}
"""No tags: for each new one Prefect asks the server for concurrency slots, which costs up to two seconds a run."""


def build(run: str, stage: str, partition: str | None, inputs: Mapping[str, PartitionKeys]) -> State[Any]:
    """Gets a stage's output through the store; a hit ends as ``Completed(name="Cached")``.

    Args:
        run: path of the run's specification.
        inputs: keys of the input artifacts.
    """
    outcome = builder_of(run).build(stage, partition, inputs, progress_of(run, stage))
    return Completed(name=outcome.state.capitalize(), data=outcome)
