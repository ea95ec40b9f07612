"""Sample: the training sentences to review, drawn before anything is redacted.

Just Fine-tune Twice, section 3.1: independent replicates, each a small random part of the training sentences.
"""

from __future__ import annotations

import math
from typing import Any

from pipelines.context import StageContext
from pipelines.corpus.tables import SENTENCES
from pipelines.errors import InputError
from pipelines.miss_rate import sampling
from pipelines.miss_rate.large import COLUMNS, LARGE_STREAM, find_large
from pipelines.miss_rate.tables import SAMPLE
from pipelines.settings.sample import SampleConfig


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes ``sample.parquet``, ``screening.parquet`` (both sorted by replicate and corpus order), ``figures.json``.

    The large part of the sample (`pipelines.miss_rate.large`) is the replicate after the last one in
    ``sample.parquet``. The other replicates are the same with and without the large part.

    ``{partition}.parquet`` lists the sampled sentences of a partition once, so that measurements of these sentences
    stay valid if another partition changes.

    Figures: ``num_population_sentences`` and ``num_population_tokens`` (training fold, duplicates included),
    ``replicates`` (``num_sentences`` of each), ``fraction``, ``stratify``, ``strata`` (``domain``,
    ``num_population_sentences``, ``num_sentences`` and ``inclusion_probability`` in one replicate),
    ``large`` (``num_sentences`` drawn; ``classes``, see `pipelines.miss_rate.large.LargeClass`),
    ``num_distinct_sentences``, ``num_screening_sentences``, ``is_census`` (every training sentence is in the sample),
    ``warnings``.

    Memory grows with the sample, not with the corpus.

    Raises:
        InputError: the corpus has no training sentence.
    """
    config: SampleConfig = ctx.configs["sample"]
    has_domains = config.stratify == "domain"
    partitions = [(a.partition or "", a.table(SENTENCES)) for a in ctx.inputs["split"]]
    populations, num_tokens = sampling.count_population([table for _, table in partitions], by_domain=has_domains)
    num_sentences = sum(populations.values())
    if num_sentences == 0:
        raise InputError("the corpus has no training sentence to sample; check corpus.inputs and the folds of [split]")
    minimum = config.min_sentences_per_domain if has_domains else 1
    strata = sampling.make_strata(populations, config.fraction, config.min_sentences, minimum)
    seed = sampling.seed_of_draw(ctx.seed, config.draw)
    draws = [
        [sampling.draw_replicate(s.num_population, s.size, seed, r, h) for h, s in enumerate(strata)]
        for r in range(config.replicates)
    ]
    strata_of, columns = (sampling.by_domain(strata), ["domain"]) if has_domains else (sampling.everything, [])
    drawn = sampling.gather(partitions, draws, strata_of, columns, ctx.run.progress)
    chosen = sampling.distinct(drawn)
    is_whole = chosen.num_rows == num_sentences  # nothing is left to draw
    large = find_large([table for _, table in partitions], sampling.TRAIN_FOLD)
    large = large.draw(0 if is_whole else math.ceil(config.large_sentences * chosen.num_rows))
    classes = [
        sampling.draw_replicate(c.num_population, c.size, seed, LARGE_STREAM, h) for h, c in enumerate(large.classes)
    ]
    more = sampling.gather(partitions, [classes], large.classes_of, COLUMNS) if large.num_drawn else chosen.slice(0, 0)
    rows = sampling.distinct(chosen, more)
    with ctx.out.table(SAMPLE) as writer:
        sampling.write_sample(writer, drawn, [s.inclusion_probability for s in strata], draws)
        if large.num_drawn:
            chances = [c.size / c.num_population for c in large.classes]
            sampling.write_sample(writer, more, chances, [classes], config.replicates)
    sampling.write_chosen(ctx.out, [name for name, _ in partitions], rows)

    size = sampling.replicate_size(num_sentences, config.screening_fraction, 0)
    screening = [[sampling.draw_replicate(num_sentences, size, ctx.seed, sampling.SCREENING_STREAM)]]
    screened = sampling.gather(partitions, screening, sampling.everything)
    with ctx.out.table(SAMPLE, "screening") as writer:
        sampling.write_sample(writer, screened, [size / num_sentences], screening)

    warnings = []
    if config.fraction * num_sentences < config.min_sentences:
        warnings.append(
            f"sample.fraction of {num_sentences} training sentences is {config.fraction * num_sentences:.3g} a "
            f"replicate, below sample.min_sentences; {sum(s.size for s in strata)} were drawn instead. Bounds from so "
            "few are wide: raise sample.fraction or sample.min_sentences"
        )
    figures = {
        "num_population_sentences": num_sentences,
        "num_population_tokens": num_tokens,
        "replicates": [{"num_sentences": sum(map(len, draw))} for draw in draws],
        "fraction": config.fraction,
        "stratify": config.stratify,
        "strata": [
            {
                "domain": stratum.domain,
                "num_population_sentences": stratum.num_population,
                "num_sentences": stratum.size,
                "inclusion_probability": stratum.inclusion_probability,
            }
            for stratum in strata
        ],
        "large": {"num_sentences": large.num_drawn, "classes": large.figures()},
        "num_distinct_sentences": rows.num_rows,
        "num_screening_sentences": screened.num_rows,
        "is_census": rows.num_rows == num_sentences,
        "warnings": warnings,
    }
    ctx.out.json("figures.json", figures)
    return {"num_sampled_sentences": rows.num_rows, "num_replicates": config.replicates}
