"""The decisions of one partition, one row per sentence (CRT Algorithm 1, line 1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prefect import State, task

from pipelines.store.execute import PartitionKeys
from tasks.base import OPTIONS, build


@task(name="dedup_mask", task_run_name="dedup mask {partition}", **OPTIONS)
def dedup_mask(run: str, partition: str | None, inputs: Mapping[str, PartitionKeys]) -> State[Any]:
    """The decisions of one partition, one row per sentence (CRT Algorithm 1, line 1)."""
    return build(run, "dedup_mask", partition, inputs)
