"""From training events and the miss rate to stated guarantees (CRT Theorem 8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prefect import State, task

from pipelines.store.execute import PartitionKeys
from tasks.base import OPTIONS, build


@task(name="guarantee", task_run_name="guarantee", **OPTIONS)
def guarantee(run: str, partition: str | None, inputs: Mapping[str, PartitionKeys]) -> State[Any]:
    """From training events and the miss rate to stated guarantees (CRT Theorem 8)."""
    return build(run, "guarantee", partition, inputs)
