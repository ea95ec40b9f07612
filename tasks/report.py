"""The self-contained HTML and JSON report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prefect import State, task

from pipelines.store.execute import PartitionKeys
from tasks.base import OPTIONS, build


@task(name="report", task_run_name="report", **OPTIONS)
def report(run: str, partition: str | None, inputs: Mapping[str, PartitionKeys]) -> State[Any]:
    """The self-contained HTML and JSON report."""
    return build(run, "report", partition, inputs)
