"""The values that tasks hand to each other: keys and outcomes. They hold keys and times, no text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from pipelines.stage import Keyed, Stage, Step

PartitionKeys = tuple[Keyed, ...]
"""The artifacts of one input stage as (partition, key), in corpus order."""

State = Literal["cached", "completed", "failed", "skipped"]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of one stage for one partition."""

    stage: str
    partition: str | None
    state: State
    key: str | None
    seconds: float = 0.0


def skipped_outcomes(stage: Stage, steps: Iterable[Step]) -> tuple[Outcome, ...]:
    """Returns the outcomes of a stage that is skipped because an artifact that it needs is missing; else nothing."""
    if all(step.missing is None for step in steps):
        return ()
    return tuple(Outcome(stage=stage.name, partition=step.partition, state="skipped", key=None) for step in steps)


def outcomes_to_record(stage: Stage, outcomes: tuple[Outcome, ...]) -> tuple[Outcome, ...]:
    """Returns the outcomes that a run's record lists: none for an optional stage that the run left out."""
    is_left_out = stage.optional and all(outcome.key is None for outcome in outcomes)
    return () if is_left_out else outcomes
