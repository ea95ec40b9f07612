"""Audit: functions that open the attacked models."""

from __future__ import annotations

from pipelines.context import StageContext
from pipelines.training.trained import TrainedModel, open_trained


def reason_not_to_open(ctx: StageContext, *, writes: bool = False) -> str | None:
    """Returns why the run's model cannot be attacked through text; None if it can."""
    config = ctx.configs["train"]
    if config.head() != "causal":
        does = "writes" if writes else "scores"
        return f"the task {config.task} gives a {config.head()} model; this attack needs one that {does} text"
    return None


def open_reference(ctx: StageContext, stage: str, folder: str) -> TrainedModel:
    """Opens a model that an input stage trained for the audit, by the name of the model's folder.

    Raises:
        ConfigError: the folder holds no causal language model.
    """
    return open_trained(ctx.input(stage).blob(folder), device=ctx.runtime.device, task=ctx.configs["train"].task)


def open_audited(ctx: StageContext, stage: str) -> TrainedModel:
    """Opens the model that an input stage made.

    Raises:
        ConfigError: the model's folder holds no causal language model.
    """
    config = ctx.configs["train"]
    artifact = ctx.input(stage)
    is_public = stage == "train" and config.method_spec().publishes_model
    folder = (artifact.public if is_public else artifact).blob("model")
    return open_trained(folder, device=ctx.runtime.device, task=config.task)
