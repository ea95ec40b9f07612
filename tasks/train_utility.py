"""Utility on what the policies found in held-out text, and on the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prefect import State, task

from pipelines.store.execute import PartitionKeys
from tasks.base import OPTIONS, build


@task(name="train_utility", task_run_name="train utility", **OPTIONS)
def train_utility(run: str, partition: str | None, inputs: Mapping[str, PartitionKeys]) -> State[Any]:
    """Utility on what the policies found in held-out text, and on the rest."""
    return build(run, "train_utility", partition, inputs)
