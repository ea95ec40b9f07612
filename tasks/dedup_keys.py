"""A 128-bit key for every sentence of one partition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prefect import State, task

from pipelines.store.execute import PartitionKeys
from tasks.base import OPTIONS, build


@task(name="dedup_keys", task_run_name="dedup keys {partition}", **OPTIONS)
def dedup_keys(run: str, partition: str | None, inputs: Mapping[str, PartitionKeys]) -> State[Any]:
    """A 128-bit key for every sentence of one partition."""
    return build(run, "dedup_keys", partition, inputs)
