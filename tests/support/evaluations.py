"""What a model that a test trained scores: its evaluation, run as the store runs it after the training."""

import dataclasses
import json
from typing import Any

import pytest

from pipelines.artifacts import Artifact
from pipelines.context import StageContext
from pipelines.stages.train import evaluate
from pipelines.training.scoring.evaluation import Evaluation
from pipelines.training.scoring.figures import figures_document
from support.contexts import artifact, stage_context


def trained_artifact(ctx: StageContext) -> Artifact:
    """What a training wrote."""
    return dataclasses.replace(artifact("train", ctx.out.folder), public_folder=ctx.out.public_folder)


def evaluated(ctx: StageContext) -> StageContext:
    """The evaluation of what a training wrote, made once; ``ctx`` is the context of the training."""
    folder = ctx.out.folder.with_name(f"{ctx.out.folder.name}.evaluated")
    inputs = {name: ctx.inputs[name] for name in ("split", "redact") if name in ctx.inputs}
    inputs |= {"train": (trained_artifact(ctx),)}
    config = ctx.configs["train"]
    inputs = {name: found for name, found in inputs.items() if name not in config.unread_inputs("evaluate")}
    made = stage_context("evaluate", folder, {"train": config}, inputs, runtime=ctx.runtime)
    if not (folder / "figures.json").exists():
        evaluate.run(made)
    return made


def figures_of(ctx: StageContext) -> dict[str, Any]:
    """The figures of a training and of its evaluation, which are those that the training had at its end.

    They are the same to the last bit: the folder holds the weights as they were, and records go in the same batches.
    Low-rank additions were merged into the weights, and an MLP's prefix was made once, which rounds.
    """
    own, found, curves = (
        json.loads((folder / name).read_text())
        for folder, name in (
            (ctx.out.folder, "figures.json"),
            (evaluated(ctx).out.folder, "figures.json"),
            (ctx.out.folder, "curves.json"),
        )
    )
    config = ctx.configs["train"]
    at_the_end = Evaluation(**curves["epochs"][-1]["evaluation"])
    counts = {"num_available": found["num_eval_sentences_available"], "evaluate_fold": config.evaluate_fold}
    for name, value in figures_document(at_the_end, found["scores"], **counts).items():
        made_once = config.adaptation == "lora" or (config.adaptation == "prefix" and config.prefix_hidden is not None)
        is_rounded = made_once and isinstance(value, float)
        assert found[name] == (pytest.approx(value, rel=1e-4, abs=1e-6) if is_rounded else value), name
    return {**own, **found}
