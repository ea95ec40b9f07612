"""Fine-tune with the chosen method, such as CRT (Algorithm 1, lines 5 to 8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prefect import State, task

from pipelines.store.execute import PartitionKeys
from tasks.base import OPTIONS, build


@task(name="train", task_run_name="train", **OPTIONS)
def train(run: str, partition: str | None, inputs: Mapping[str, PartitionKeys]) -> State[Any]:
    """Fine-tune with the chosen method, such as CRT (Algorithm 1, lines 5 to 8)."""
    return build(run, "train", partition, inputs)
