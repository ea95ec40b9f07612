"""Draw the sentences whose redaction is reviewed (JFT: 10 samples of 0.01 %)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prefect import State, task

from pipelines.store.execute import PartitionKeys
from tasks.base import OPTIONS, build


@task(name="sample", task_run_name="sample", **OPTIONS)
def sample(run: str, partition: str | None, inputs: Mapping[str, PartitionKeys]) -> State[Any]:
    """Draw the sentences whose redaction is reviewed (JFT: 10 samples of 0.01 %)."""
    return build(run, "sample", partition, inputs)
