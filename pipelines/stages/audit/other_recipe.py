"""Audit: a note for people if a model of the audit was not trained by the recipe of the released model."""

from __future__ import annotations

from pipelines.context import StageContext
from pipelines.training.recipes import recipe_changes


def note_of_other_recipe(ctx: StageContext, stage: str, models: str) -> str | None:
    """Returns what the audit leaves open because a stage trained its models by another recipe; None if it did not.

    Args:
        ctx: context of a stage that reads ``train`` and the other stage.
        stage: stage that trained models for the audit.
        models: name of these models for people.
    """
    parts = ctx.configs["train"].recipe("train")
    changes = recipe_changes(parts, ctx.input("train").recipe, ctx.input(stage).recipe)
    if not changes:
        return None
    return (
        f"the recipe of the released model: an upgrade came between its training and that of {models} "
        f"({', '.join(changes)}). `reticent run --force train` trains another model for release by the present recipe"
    )
