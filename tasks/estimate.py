"""How much redaction missed: m, gamma and delta2 with their intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prefect import State, task

from pipelines.store.execute import PartitionKeys
from tasks.base import OPTIONS, build


@task(name="estimate", task_run_name="estimate", **OPTIONS)
def estimate(run: str, partition: str | None, inputs: Mapping[str, PartitionKeys]) -> State[Any]:
    """How much redaction missed: m, gamma and delta2 with their intervals."""
    return build(run, "estimate", partition, inputs)
