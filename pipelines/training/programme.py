"""The programme of a training: the order of its steps, fixed beforehand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

StepKind = Literal["nonprivate", "private"]


@dataclass(frozen=True, kw_only=True)
class Segment:
    """Consecutive steps of one kind.

    Attributes:
        kind: kind of the steps, ``nonprivate`` or ``private``.
        num_steps: number of steps.
        ends_epoch: true if the model is evaluated, and always saved, after these steps.
    """

    kind: StepKind
    num_steps: int
    ends_epoch: bool = False
