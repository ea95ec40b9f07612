"""Train, evaluate: scores of the finished model on held-out text. The model is read back from its folder.

Evaluation is a step of its own, so that a corrected figure is measured again without another training.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pipelines.context import StageContext
from pipelines.corpus.tables import DOCUMENTS, SENTENCES
from pipelines.policies.tables import REDACTED
from pipelines.training.data.held_out import Encoder, HeldOut, read_held_out
from pipelines.training.data.row_store import document_lengths
from pipelines.training.description import UntoldEncodingError
from pipelines.training.devices import attention_on, cpu_threads_for
from pipelines.training.model_folder import open_folder
from pipelines.training.models.adaptation import count_parameters
from pipelines.training.scoring.evaluation import Evaluation
from pipelines.training.scoring.figures import figures_document
from pipelines.training.scoring.tables import GENERATED, TOKEN_SCORES
from pipelines.training.scoring.token_scores import write_token_scores
from pipelines.training.tasks.base import TaskModel

if TYPE_CHECKING:
    from pipelines.settings.train import TrainConfig


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes ``figures.json``, the texts that the model generates, and its score on each token. All are private."""
    config: TrainConfig = ctx.configs["train"]
    trained = ctx.input("train")
    ctx.run.progress(0, None, "loading the model")
    try:
        loaded, _ = open_folder(
            (trained.public if config.method_spec().publishes_model else trained).blob("model"),
            device=ctx.runtime.device,
            task=config.task,
            kind=config.head(),
            attention=attention_on(ctx.runtime.device) if config.is_pretrained() else None,  # as it was trained
        )
    except UntoldEncodingError:
        return _taken_over(ctx)
    model = TaskModel(vocabulary=loaded.vocabulary, context_length=loaded.context_length, loaded=loaded)
    task = importlib.import_module(config.task_spec().module).make_task(model, config.of_task())
    held_out = _read(ctx, config, task)
    ctx.run.progress(0, None, "scoring held-out text")
    with cpu_threads_for(count_parameters(loaded.model)[1]):
        evaluation = task.evaluate(loaded.model, held_out)
        scores = task.scores(loaded.model, held_out, ctx.run.progress)
        with ctx.out.table(GENERATED) as writer:
            scores.write_texts(writer)
        with ctx.out.table(TOKEN_SCORES) as writer:
            write_token_scores(writer, loaded.model, held_out)
    fold, available = config.evaluate_fold, held_out.num_available
    ctx.out.json(
        "figures.json", figures_document(evaluation, scores.figures, evaluate_fold=fold, num_available=available)
    )
    return {"num_eval_sentences": evaluation.num_sentences}


def _read(ctx: StageContext, config: TrainConfig, task: Encoder) -> HeldOut:
    """Reads the held-out records that the training was evaluated on."""
    ctx.run.progress(0, None, "reading rows")
    split, redact = ctx.inputs["split"], ctx.inputs.get("redact", ())
    return read_held_out(
        [artifact.table(SENTENCES) for artifact in split],
        [artifact.table(REDACTED) for artifact in redact] if config.view().marks_tokens else None,
        fold=config.evaluate_fold,
        most=config.max_eval_sentences,
        unit=config.record_unit(),
        encoder=task,
        scratch=ctx.out.scratch,
        lengths=document_lengths(a.table(DOCUMENTS) for a in split if config.conversation_tokens),
    )


def _taken_over(ctx: StageContext) -> dict[str, Any]:
    """Copies the figures that a training of version 0.1.0 measured; its folder does not describe the encoding."""
    trained = ctx.input("train")
    names = figures_document(Evaluation(reason=""), {}, evaluate_fold="", num_available=0)
    measured = {name: value for name, value in trained.json("figures.json").items() if name in names}
    ctx.out.json("figures.json", measured)
    for table in ("generated.parquet", "token_scores.parquet"):
        ctx.out.copy(table, trained.blob(table))
    return {"num_eval_sentences": measured["num_eval_sentences"]}
