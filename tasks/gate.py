"""Search every masked string in everything that will be public; a find ends the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prefect import State, task

from pipelines.store.execute import PartitionKeys
from tasks.base import OPTIONS, build


@task(name="gate", task_run_name="gate", **OPTIONS)
def gate(run: str, partition: str | None, inputs: Mapping[str, PartitionKeys]) -> State[Any]:
    """Search every masked string in everything that will be public; a find ends the run."""
    return build(run, "gate", partition, inputs)
