"""List the distinct strings that were masked in one partition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prefect import State, task

from pipelines.store.execute import PartitionKeys
from tasks.base import OPTIONS, build


@task(name="gate_strings", task_run_name="gate_strings {partition}", **OPTIONS)
def gate_strings(run: str, partition: str | None, inputs: Mapping[str, PartitionKeys]) -> State[Any]:
    """List the distinct strings that were masked in one partition."""
    return build(run, "gate_strings", partition, inputs)
