"""Which caught secrets are redacted stably: masked by hand, they would change nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prefect import State, task

from pipelines.store.execute import PartitionKeys
from tasks.base import OPTIONS, build


@task(name="stability", task_run_name="stability {partition}", **OPTIONS)
def stability(run: str, partition: str | None, inputs: Mapping[str, PartitionKeys]) -> State[Any]:
    """Which caught secrets are redacted stably: masked by hand, they would change nothing else."""
    return build(run, "stability", partition, inputs)
