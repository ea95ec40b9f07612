"""Recipes: declared versions of what a training computes. They replace the digest of its code in the keys of models.

If you change what is computed (steps, clipping, noise, sampling, the text that is read and its encoding, the initial
weights), raise a version. A golden test per method fails until you do. Everything else (speed, wording, figures,
packages) is lineage and keeps the model, because training it again is a second release of epsilon. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from pipelines.accounting.withdrawn import FIRST
from pipelines.methods import registry as methods
from pipelines.training.tasks import registry as tasks

ENGINE: Final = 1
"""Gradients, clipping, noise, sampling, optimizers, initial weights (`pipelines.dp`, `pipelines.training.loop`)."""
RECORDS: Final = 1
"""Text that is read, its order, and its encoding as token ids (`pipelines.training.data`)."""
AUDIT: Final = 1
"""Canaries that a model of an audit is trained on, and rows that it is trained without (`pipelines.stages.audit`)."""


def recipe_of(method: str, task: str, *, is_first_phase: bool = False) -> dict[str, int]:
    """Returns the version of each part of a training's recipe.

    Args:
        is_first_phase: true for the phase that is its own artifact, false for the whole method.
    """
    spec = methods.method(method)
    first = {} if spec.first_phase is None else {f"first phase of {method}": spec.first_phase.recipe}
    whole = {} if is_first_phase else {f"method {method}": spec.recipe}
    return {"engine": ENGINE, "records": RECORDS, **first, **whole, f"task {task}": tasks.task(task).recipe}


def recipe_changes(parts: Iterable[str], then: Mapping[str, int], now: Mapping[str, int]) -> list[str]:
    """Lists the parts of which two trainings used different versions, such as ``engine 1 → 2``.

    Args:
        parts: parts to compare.
        then, now: recipes. A part that a recipe lacks was of the first version, as all were before there were recipes.
    """
    versions = ((part, then.get(part, FIRST), now.get(part, FIRST)) for part in sorted(parts))
    return [f"{part} {old} → {new}" for part, old, new in versions if old != new]
