"""Synthesize, step 3: counts of private text in the synthetic table, made on the trusted side after publication.

Nothing that is published depends on these counts. ``check.json`` and ``finds.parquet`` are private: ε does not cover
them.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from pipelines.context import StageContext, derived_key
from pipelines.corpus.tables import SENTENCES
from pipelines.dp.language import base_of
from pipelines.gate.tables import GATE_INDEX
from pipelines.mask import MASK
from pipelines.policies.sharding import PUBLISHED
from pipelines.policies.tables import REDACTED
from pipelines.stages.audit.opening import open_audited
from pipelines.stages.train.train import open_network
from pipelines.synthesis.downstream import MOST_ROWS, Network, worth
from pipelines.synthesis.finds import finds_in
from pipelines.synthesis.networks import Trial, is_affordable
from pipelines.synthesis.quality import distances, drawn_of
from pipelines.synthesis.replay import Passages, lines_of, replayed
from pipelines.synthesis.tables import SYNTHETIC
from pipelines.synthesis.writing import Decoding, write
from pipelines.tables import Table, schema
from pipelines.training.models.recurrent import RecurrentLanguageModel, build_recurrent
from pipelines.training.trained import TrainedModel

if TYPE_CHECKING:
    from pipelines.settings.synthesize import SynthesizeConfig
FINDS: Final = schema("finds", "row: uint32, string: string, label: string")
"""Masked strings that stand in rows of the table, counted from 0, in the form in which they are compared. Private."""
_PURPOSE: Final = "passages of synthetic text"


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes ``check.json``: replay, finds of the gate's strings, distance from real text, and use for training."""
    config: SynthesizeConfig = ctx.configs["synthesize"]
    table = _table(ctx)
    columns = ("doc_id", "text", "fold")
    rows = [artifact.table(SENTENCES) for artifact in ctx.inputs["split"]]
    ctx.run.progress(0, None, "reading the private text")
    passages = Passages(
        (line for sentences in rows for line in lines_of(sentences.rows(columns))),
        derived_key(ctx.run.secret, _PURPOSE),
        config.replay_words,
        published=(
            text
            for piece in ctx.inputs["publish"]
            for text in _texts(piece.public.table(PUBLISHED, "public"), "redacted_text")
        ),
    )
    ctx.run.progress(0, None, "writing with the start weights")
    model = open_audited(ctx, "train")
    expected = _written_at_the_start(ctx, config, model) if config.baseline_rows else []
    ctx.run.progress(0, None, "looking for replay")
    replay: dict[str, Any] = {
        "words": config.replay_words,
        "table": replayed(_texts(table), passages).document(),
        "start": replayed(expected, passages).document() if expected else None,
    }
    ctx.run.progress(0, None, "looking for masked strings")
    figures = ctx.input("gate").json("figures.json")
    finds: dict[str, Any] | None = None
    with ctx.out.table(FINDS) as writer:
        if figures["enabled"]:
            search = {
                "index": ctx.input("gate").table(GATE_INDEX, "index"),
                "case_sensitive": figures["case_sensitive"],
            }

            def tell(row: int, string: str, label: str) -> None:
                writer.append(row=row, string=string, label=label)

            found = finds_in(lambda: _texts(table), **search, tell=tell)
            start_finds = finds_in(lambda: expected, **search) if expected else None
            finds = {"table": found.document(), "start": start_finds.document() if start_finds else None}
    ctx.run.progress(0, None, "comparing with real text")
    real = (row["text"] for sentences in rows for row in sentences.rows(columns) if row["fold"] != "train")
    generator = np.random.default_rng(ctx.seed)
    distance = distances(real, _texts(table), generator)
    training = "training on synthetic text, and trying it on real text"
    ctx.run.progress(0, None, training)
    redacted = [artifact.table(REDACTED) for artifact in ctx.inputs["redact"]]
    downstream = worth(
        {
            "synthetic": drawn_of(_rows([table], "record", "text"), MOST_ROWS, generator),
            "redacted": drawn_of(_rows(redacted, "doc_id", "redacted_text", folds={"train"}), MOST_ROWS, generator),
            "real": drawn_of(_rows(rows, "doc_id", "text", folds={"train"}), MOST_ROWS, generator),
        },
        drawn_of(_rows(rows, "doc_id", "text", folds={"valid", "test"}), MOST_ROWS, generator),
        network=_trial(ctx, config, model, training),
    )
    ctx.out.json(
        "check.json",
        {
            "schema_version": 1,
            "num_baseline_rows": len(expected),
            "replay": replay,
            "finds": finds,
            "distance": distance,
            "downstream": downstream,
        },
    )
    return {
        "num_replayed": replay["table"]["rows"]["num_hits"],
        "num_finds": None if finds is None else finds["table"]["rows"]["num_hits"],
    }


def _table(ctx: StageContext) -> Table:
    is_published = ctx.configs["train"].method_spec().publishes_model
    output = ctx.input("synthesize")
    return output.public.table(SYNTHETIC) if is_published else output.table(SYNTHETIC, "private_synthetic")


def _texts(table: Table, column: str = "text") -> Iterator[str]:
    for batch in table.batches((column,)):
        yield from batch.column(column).to_pylist()


def _rows(
    tables: Sequence[Table], cluster: str, text: str, folds: Collection[str] | None = None
) -> Iterator[dict[str, Any]]:
    """Yields rows with text, without masks, in the form that `pipelines.synthesis.downstream.worth` reads."""
    columns = (cluster, text, "domain", "speaker", *(("fold",) if folds else ()))
    for table in tables:
        for row in table.rows(columns):
            said = row[text].replace(MASK, " ")
            if said.strip() and (folds is None or row["fold"] in folds):
                yield {
                    **{name: row[name] for name in ("domain", "speaker")},
                    "text": said,
                    "cluster": str(row[cluster]),
                }


def _written_at_the_start(ctx: StageContext, config: SynthesizeConfig, model: TrainedModel) -> list[str]:
    """Writes the first rows of the same plan with the start weights of the model."""
    start = _at_the_start(ctx, model, ctx.seed)
    plan = config.plan(model, ctx.seed)
    num_rows = min(config.rows, config.baseline_rows // config.turns * config.turns)
    decoding = Decoding(temperature=config.temperature, top_p=config.top_p, batch_size=config.batch_size)
    return [text.text for _, text in write(start, [plan.turn(row) for row in range(num_rows)], decoding)]


def _trial(ctx: StageContext, config: SynthesizeConfig, model: TrainedModel, word: str) -> Network | None:
    """Returns the trainer of the run's network on text of each kind; None if settings or network size rule it out."""
    if not config.downstream_steps or not is_affordable(model):
        return None
    return Trial(
        start=lambda seed: _at_the_start(ctx, model, seed),
        num_steps=config.downstream_steps,
        learning_rate=ctx.configs["train"].public_learning_rate,
        seed=ctx.seed,
        tell=lambda done, of: ctx.run.progress(done, of, word),
    )


def _at_the_start(ctx: StageContext, model: TrainedModel, seed: int) -> TrainedModel:
    """Returns the model with the weights that its training begins with: pretrained, or random ones of a seed."""
    config, vocabulary = ctx.configs["train"], model.vocabulary
    base = base_of(model.model)
    if isinstance(base, RecurrentLanguageModel):
        network: Any = build_recurrent(vocabulary.backend.get_vocab_size(), seed, kind=base.kind)
    elif config.is_pretrained() and config.adaptation != "scratch":
        opened = open_network(ctx, config, seed)
        vocabulary = opened.vocabulary(sorted(model.control.speakers), sorted(model.control.domains), None)
        network = opened.build()
    else:
        with torch.random.fork_rng():
            torch.manual_seed(seed % 2**63)
            network = type(base)(copy.deepcopy(base.config))
    network.requires_grad_(False).to(model.device).eval()
    description = {
        "method": model.method,
        "task": model.task,
        "context_length": model.context_length,
        "marks_tokens": False,
    }
    return TrainedModel(network, vocabulary, description)
