"""Recipes: the declared versions of what a training computes, which stand for its code in the keys of models.

Whoever changes what is computed (steps, clipping, noise, sampling, which text is read and how it is encoded, the
initial weights) raises a version, and a golden test per method fails until that is done. Everything else (speed,
wording, figures, packages) is lineage: a model stays what it is, for to train it again is a second release of epsilon.
Imports no torch.
"""

from __future__ import annotations

from typing import Final

from pipelines.methods import registry as methods
from pipelines.training.tasks import registry as tasks

ENGINE: Final = 1
"""Gradients, clipping, noise, sampling, optimizers, initial weights (`pipelines.dp`, `pipelines.training.loop`)."""
RECORDS: Final = 1
"""Which text is read, in which order, and how it becomes token ids (`pipelines.training.data`)."""


def recipe_of(method: str, task: str, *, is_first_phase: bool = False) -> dict[str, int]:
    """The version of each part of a training's recipe.

    Args:
        is_first_phase: of the phase that is an artifact of its own, rather than of the whole method.
    """
    spec = methods.method(method)
    first = {} if spec.first_phase is None else {f"first phase of {method}": spec.first_phase.recipe}
    whole = {} if is_first_phase else {f"method {method}": spec.recipe}
    return {"engine": ENGINE, "records": RECORDS, **first, **whole, f"task {task}": tasks.task(task).recipe}
