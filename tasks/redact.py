"""Mask what the policies find in one partition (CRT Algorithm 1, line 2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prefect import State, task

from pipelines.store.execute import PartitionKeys
from tasks.base import OPTIONS, build


@task(name="redact", task_run_name="redact {partition}", **OPTIONS)
def redact(run: str, partition: str | None, inputs: Mapping[str, PartitionKeys]) -> State[Any]:
    """Mask what the policies find in one partition (CRT Algorithm 1, line 2)."""
    return build(run, "redact", partition, inputs)
