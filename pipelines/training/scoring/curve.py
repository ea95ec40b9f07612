"""Learning curve: one row of figures after each epoch.

Private: it holds losses of private records, without noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from pipelines.training.scoring.evaluation import Evaluation

EpsilonSoFar = Callable[[int], float]
"""Returns an upper bound on epsilon after a number of private steps, infinite if they add no noise."""


@dataclass
class Curve:
    """Losses of the current epoch, and a row for each finished epoch.

    Attributes:
        loss_sums, counts: sums and numbers of losses in the current epoch, by kind of text.
        rows: rows of the finished epochs.
    """

    loss_sums: dict[str, float] = field(default_factory=lambda: {"public": 0.0, "private": 0.0})
    counts: dict[str, int] = field(default_factory=lambda: {"public": 0, "private": 0})
    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, kind: Literal["public", "private"], loss_sum: float, count: int) -> None:
        """Adds losses of examples or spans."""
        self.loss_sums[kind] += loss_sum
        self.counts[kind] += count

    def end_epoch(self, evaluation: Evaluation, num_steps: int, num_private_steps: int, epsilon: float | None) -> None:
        """Adds the row of an epoch.

        Args:
            evaluation: evaluation on held-out text after the epoch.
            num_steps: number of steps of any kind so far.
            num_private_steps: number of those steps that touched private records with noise.
            epsilon: upper bound on epsilon of those steps. None if there is none.
        """
        row: dict[str, Any] = {
            "epoch": len(self.rows) + 1,
            "num_steps": num_steps,
            "num_private_steps": num_private_steps,
            "epsilon_so_far": None if epsilon is None or math.isinf(epsilon) else epsilon,
            "evaluation": asdict(evaluation),
        }
        for kind, total in self.loss_sums.items():
            row[f"{kind}_loss"] = total / self.counts[kind] if self.counts[kind] else None
        self.rows.append(row)
        self.loss_sums = dict.fromkeys(self.loss_sums, 0.0)
        self.counts = dict.fromkeys(self.counts, 0)

    def as_state(self) -> dict[str, Any]:
        """Returns the keyword arguments of an equal `Curve`, for a checkpoint."""
        return asdict(self)

    def words(self, num_epochs: int) -> str:
        """Describes the progress of a training."""
        epoch = f"epoch {min(len(self.rows) + 1, num_epochs)} of {num_epochs}"
        epsilon = self.rows[-1]["epsilon_so_far"] if self.rows else None
        return (
            epoch if epsilon is None else f"{epoch}, ε so far at most {math.ceil(100 * epsilon) / 100:.2f} (rounded up)"
        )
