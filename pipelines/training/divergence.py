"""The error of a diverged training."""

from __future__ import annotations

from pipelines.errors import StageError


def diverged(where: str) -> StageError:
    """Returns the error for a loss or gradient that is not finite."""
    return StageError(
        f"training diverged: the loss or a gradient is not a finite number in {where}. Lower "
        "train.public_learning_rate or train.private_learning_rate, or take a smaller model, and run again."
    )
