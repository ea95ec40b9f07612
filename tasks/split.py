"""Tokenise, then split into sentences: before redaction and deduplication (CRT, A.5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prefect import State, task

from pipelines.store.execute import PartitionKeys
from tasks.base import OPTIONS, build


@task(name="split", task_run_name="split {partition}", **OPTIONS)
def split(run: str, partition: str | None, inputs: Mapping[str, PartitionKeys]) -> State[Any]:
    """Tokenise, then split into sentences: before redaction and deduplication (CRT, A.5)."""
    return build(run, "split", partition, inputs)
