"""What tasks hand to each other: keys, and what became of a stage. Holds keys and times, no text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pipelines.stage import Keyed

PartitionKeys = tuple[Keyed, ...]
"""(partition, key) in corpus order: how an input's artifacts are named between tasks."""

State = Literal["cached", "completed", "failed", "skipped"]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one stage for one partition. Holds keys and times, no text."""

    stage: str
    partition: str | None
    state: State
    key: str | None
    seconds: float = 0.0
