"""Audit: opening the models that are attacked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.context import StageContext
from pipelines.training.trained import open_trained

if TYPE_CHECKING:
    from pipelines.training.trained import TrainedModel


def reason_not_to_open(ctx: StageContext, *, writes: bool = False) -> str | None:
    """Why a model is not attacked by what it says of text; None if it can be.

    Args:
        ctx: of the stage.
        writes: whether the attack lets the model write.
    """
    config = ctx.configs["train"]
    if config.head() != "causal":
        does = "writes" if writes else "scores"
        return f"the task {config.task} gives a {config.head()} model; this attack needs one that {does} text"
    return None


def open_reference(ctx: StageContext, stage: str, folder: str) -> TrainedModel:
    """One of the models that a stage among the inputs has trained for the audit, by the name of its folder.

    Raises:
        ConfigError: its folder holds no causal language model.
    """
    return open_trained(ctx.input(stage).blob(folder), device=ctx.runtime.device, task=ctx.configs["train"].task)


def open_audited(ctx: StageContext, stage: str) -> TrainedModel:
    """The model that a stage among the inputs has made.

    Raises:
        ConfigError: its folder holds no causal language model.
    """
    config = ctx.configs["train"]
    artifact = ctx.input(stage)
    is_public = stage == "train" and config.method_spec().publishes_model
    folder = (artifact.public if is_public else artifact).blob("model")
    return open_trained(folder, device=ctx.runtime.device, task=config.task)
