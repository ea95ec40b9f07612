"""Sample: which training sentences to review, drawn before anything is redacted.

Just Fine-tune Twice, section 3.1: independent replicates, each a small random part of the training sentences.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import Field

from pipelines.config import StageConfig
from pipelines.context import StageContext
from pipelines.errors import InputError


class SampleConfig(StageConfig):
    """The ``[sample]`` table."""

    replicates: int = Field(
        default=10, ge=1, le=1_000, description="Independent samples; their spread gives the paper's interval."
    )
    fraction: float = Field(
        default=0.0001,
        ge=0,
        le=1,
        description="Share of the training sentences in each replicate. 1 reviews them all: figures are then exact.",
    )
    min_sentences: int = Field(
        default=1, ge=1, description="Fewest sentences in each replicate, where the fraction would give fewer."
    )


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes ``sample.parquet``, sorted by replicate and corpus order, and ``figures.json``.

    Figures: ``num_population_sentences`` and ``num_population_tokens`` (training fold, duplicates included),
    ``replicates`` (``num_sentences`` of each), ``fraction``, ``num_distinct_sentences``, ``is_census`` (every training
    sentence is in the sample), ``warnings``.

    Memory grows with the sample, not with the corpus.

    Raises:
        InputError: the corpus has no training sentence.
    """
    from pipelines.miss_rate.sample_table import count_population, gather, write_sample
    from pipelines.miss_rate.sampling import draw_replicate, replicate_size

    config: SampleConfig = ctx.configs["sample"]
    partitions = [(a.partition or "", a.private("sentences.parquet")) for a in ctx.inputs["split"]]
    num_sentences, num_tokens = count_population([path for _, path in partitions])
    if num_sentences == 0:
        raise InputError("the corpus has no training sentence to sample; check corpus.inputs and the folds of [split]")
    size = replicate_size(num_sentences, config.fraction, config.min_sentences)
    drawn = [draw_replicate(num_sentences, size, ctx.seed, r) for r in range(config.replicates)]
    rows = gather(partitions, drawn, progress=ctx.progress)
    write_sample(ctx.private_dir / "sample.parquet", rows, drawn, inclusion_probability=size / num_sentences)

    warnings = []
    if config.fraction * num_sentences < config.min_sentences:
        warnings.append(
            f"sample.fraction of {num_sentences} training sentences is {config.fraction * num_sentences:.3g} a "
            f"replicate, below sample.min_sentences; {size} were drawn instead. Bounds from so few are wide: "
            "raise sample.fraction or sample.min_sentences"
        )
    figures = {
        "num_population_sentences": num_sentences,
        "num_population_tokens": num_tokens,
        "replicates": [{"num_sentences": len(rows_of)} for rows_of in drawn],
        "fraction": config.fraction,
        "num_distinct_sentences": rows.num_rows,
        "is_census": rows.num_rows == num_sentences,
        "warnings": warnings,
    }
    text = json.dumps(figures, sort_keys=True, indent=1) + "\n"
    (ctx.private_dir / "figures.json").write_text(text, encoding="utf-8")
    return {"num_sampled_sentences": rows.num_rows, "num_replicates": config.replicates}
