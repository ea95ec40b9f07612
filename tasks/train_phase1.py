"""Phase 1 of methods that fine-tune twice: on redacted text (JFT, section 4.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prefect import State, task

from pipelines.store.execute import PartitionKeys
from tasks.base import OPTIONS, build


@task(name="train_phase1", task_run_name="train phase 1", **OPTIONS)
def train_phase1(run: str, partition: str | None, inputs: Mapping[str, PartitionKeys]) -> State[Any]:
    """Phase 1 of methods that fine-tune twice: on redacted text (JFT, section 4.1)."""
    return build(run, "train_phase1", partition, inputs)
