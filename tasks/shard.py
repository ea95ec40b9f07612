"""Divide one partition into public and private rows (CRT Algorithm 1, lines 3 and 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prefect import State, task

from pipelines.store.execute import PartitionKeys
from tasks.base import OPTIONS, build


@task(name="shard", task_run_name="shard {partition}", **OPTIONS)
def shard(run: str, partition: str | None, inputs: Mapping[str, PartitionKeys]) -> State[Any]:
    """Divide one partition into public and private rows (CRT Algorithm 1, lines 3 and 4)."""
    return build(run, "shard", partition, inputs)
