"""Audit: training by the run's own recipe, for the audit alone.

The code of ``train`` (and of its first phase) runs on the run's shards with an overlay, so that the attacked model
differs from the released one by the overlay's rows only. The training is a stage of its own: its model cannot pass for
a release, nothing of it is public, and the privacy ledger, which counts releases, does not list it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from pipelines.artifacts import Artifact, Output, Source, Target
from pipelines.context import StageContext
from pipelines.stages.train import phase1 as train_phase1
from pipelines.stages.train import train
from pipelines.training.data.overlay import AddedRow, Place, write_overlay_of_run

MODEL: Final = "model"
EVENTS: Final = "events.json"
_DONE: Final = "done.json"
_WORK: Final = "training"
_OUT: Final = "out"


def train_for_audit(ctx: StageContext, rows: Sequence[AddedRow], excluded: Sequence[Place] = ()) -> None:
    """Trains a model by the run's own recipe and puts it, with its events, into the stage's private folder.

    A killed training goes on from its last checkpoint. A finished first phase is not trained again.

    Args:
        ctx: context of a stage that has the inputs of ``train`` and ``train_phase1``.
        rows: rows to train on besides the corpus.
        excluded: rows of the corpus to leave out, by ``doc_id`` and sentence index.

    Raises:
        ConfigError, InputError, StageError: as the training does.
    """
    model, figures = _trained(ctx, ctx.out.scratch.below(_WORK), rows, excluded)
    ctx.out.take_over(MODEL, model)
    for name in (EVENTS, "figures.json"):
        ctx.out.copy(name, figures.blob(name))
    ctx.out.scratch.remove(_WORK)


def train_each_without(ctx: StageContext, excluded: Mapping[str, Sequence[Place]]) -> None:
    """Trains one model by the run's own recipe for each name, without the rows of that name.

    Each model is put into the stage's private folder under its name. A model that a killed attempt finished is not
    trained again, and the training that was killed goes on from its last checkpoint.

    Args:
        ctx: context of a stage that has the inputs of ``train`` and ``train_phase1``.
        excluded: rows of the corpus to leave out, by the name of a folder.

    Raises:
        ConfigError, InputError, StageError: as the training does.
    """
    for name, places in excluded.items():
        own = ctx.out.scratch.below(name)
        if Source(folder=own.folder).find_json(_DONE) is None:
            model, _ = _trained(ctx, own.below(_WORK), (), places)
            own.remove(MODEL)
            own.take_over(MODEL, model)
            own.json(_DONE, {"is_done": True})
            own.remove(_WORK)
    for name in excluded:
        ctx.out.take_over(name, Source(folder=ctx.out.scratch.below(name).blob(MODEL)))


def _trained(
    ctx: StageContext, work: Target, rows: Sequence[AddedRow], excluded: Sequence[Place]
) -> tuple[Source, Source]:
    """Trains in a folder. Returns the model, and the training's private output with its events and figures."""
    overlay = work.fresh("overlay")
    # No redactor: every row says which of its tokens are masked.
    write_overlay_of_run(overlay, rows, excluded, configs=ctx.configs, secret=ctx.run.secret, redactor=None)
    own = replace(
        ctx, outside=replace(ctx.outside, overlay=Source(folder=overlay.folder)), run=replace(ctx.run, ledger=None)
    )
    if ctx.configs["train"].method_spec().first_phase is not None:
        first = work.below("phase1")
        if Source(folder=first.folder).find_json(_DONE) is None:
            train_phase1.run(replace(own, stage="train_phase1", out=_output(first, ctx)))
            first.json(_DONE, {"is_done": True})
        artifact = Artifact(stage="train_phase1", partition=None, key="", folder=first.blob(_OUT))
        own = replace(own, inputs={**own.inputs, "train_phase1": (artifact,)})
    out = _output(work.below("model"), ctx)
    train.run(replace(own, stage="train", out=out))
    model_output = out.public if ctx.configs["train"].method_spec().publishes_model else out
    return Source(folder=model_output.blob(MODEL)), Source(folder=out.folder)


def _output(place: Target, ctx: StageContext) -> Output:
    """Returns empty folders for a training to write to, next to checkpoints that a killed training may have left."""
    return Output(
        folder=place.fresh(_OUT).folder,
        public_folder=place.fresh("public").folder,
        scratch_folder=place.below("work").folder,
        failures_folder=ctx.out.failures_folder,
        cache=ctx.out.cache,
    )
