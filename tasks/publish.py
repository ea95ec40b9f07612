"""Publish the public rows of one partition, where the method or the settings ask for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prefect import State, task

from pipelines.store.execute import PartitionKeys
from tasks.base import OPTIONS, build


@task(name="publish", task_run_name="publish {partition}", **OPTIONS)
def publish(run: str, partition: str | None, inputs: Mapping[str, PartitionKeys]) -> State[Any]:
    """Publish the public rows of one partition, where the method or the settings ask for it."""
    return build(run, "publish", partition, inputs)
