"""Which sentences repeat an earlier one: Bloom filter nominates, an exact pass decides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prefect import State, task

from pipelines.store.execute import PartitionKeys
from tasks.base import OPTIONS, build


@task(name="dedup_resolve", task_run_name="dedup resolve", **OPTIONS)
def dedup_resolve(run: str, partition: str | None, inputs: Mapping[str, PartitionKeys]) -> State[Any]:
    """Which sentences repeat an earlier one: Bloom filter nominates, an exact pass decides."""
    return build(run, "dedup_resolve", partition, inputs)
