"""Estimate: what the redaction missed, from the sample and gold labels.

``figures.json``, flat:

- ``source``: ``gold``, or ``not_measured`` (then every measured figure is null). A proxy would be named as such.
- ``is_census``: every training document carries labels and every training sentence was reviewed, so there is no
  sampling error. ``covers_corpus``: every training document carries labels (a list, be it an empty one);
  ``labelled_share``: of the training sentences, those in such documents. Only they are judged: where they are a part
  of the corpus, all rates describe that part alone, and no claim about the corpus rests on them.
- ``confidence``: of two-sided intervals, and of each one-sided bound on its own. ``mu``: what gamma and delta2 average
  over.
- ``num_sampled_sentences`` (distinct, in labelled documents), ``num_kept_sentences`` (of those, not duplicates),
  ``num_tokens``, ``num_sensitive_tokens``, ``num_missed_tokens`` (over all sampled sentences, duplicates masked whole);
  ``num_secret_spans``, ``num_missed_spans``, ``num_escaped_spans`` (over kept ones; a secret over several sentences
  is one, and missed if any piece of it is).
- ``miss_rate``: m, missed sensitive tokens over all tokens: ``value``, ``mean_of_replicates``, intervals
  ``student_t`` (the paper's), ``student_t_clipped``, ``clopper_pearson``, ``cluster_robust``, ``recommended``, with
  ``recommended_method`` and ``reason``. Null for an interval that does not exist.
- ``false_negative_rate``: gamma, ``value`` and one-sided ``upper`` with its ``confidence``: any token of a secret
  stays unmasked.
- ``delta2``: likewise, and its sentence is public as well. Without a conservative policy every row is private, and
  the guarantee stage takes 0 instead.
- ``escape_per_sentence``: share of all training sentences that are public and hold a missed secret (``value``,
  ``upper``, ``num_sentences`` in the sample).
- ``recall`` = found / (found + missed) and ``precision`` = found / masked, in tokens of kept sentences;
  ``recall_as_in_jft`` = 1 - missed / masked, as in the paper, which flatters: it credits false positives.
- ``by_label``: gamma by label of the secret, with bounds that hold for all labels at once. ``worst_label``: the largest
  ``false_negative_rate`` and ``delta2`` of any label, likewise; null where no secret was seen.
- ``assumptions``, ``warnings``: in words.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic import Field

from pipelines.config import StageConfig
from pipelines.context import StageContext
from pipelines.errors import InputError


class EstimateConfig(StageConfig):
    """The ``[estimate]`` table."""

    source: Literal["auto", "gold", "none"] = Field(
        default="auto",
        description="Who says what was missed. gold: the corpus's own labels; none: nobody, and nothing is measured;"
        " auto: gold where the corpus brings any, none otherwise.",
    )
    confidence: float = Field(
        default=0.95, gt=0.5, lt=1, description="Confidence of intervals and of one-sided bounds (a probability)."
    )


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes ``figures.json``.

    Raises:
        InputError: gold labels are asked for and the corpus brings none.
        StageError: the sample and the redacted rows do not fit together.
    """
    from pipelines.miss_rate.estimate import Labelled, measured, not_measured
    from pipelines.miss_rate.review_tables import ReviewPartition, coverage, review_all

    config: EstimateConfig = ctx.configs["estimate"]
    sample = ctx.one("sample")
    sampling = json.loads(sample.private("figures.json").read_text(encoding="utf-8"))
    is_census = bool(sampling["is_census"])
    covered = coverage([artifact.private("documents.parquet") for artifact in ctx.inputs["split"]])
    found_gold = config.source != "none" and covered.num_labelled_documents > 0
    if config.source == "gold" and not found_gold:
        raise InputError(
            "estimate.source is gold, but no training document brings gold labels; set corpus.gold_field to the field "
            "that holds them, or estimate.source to none"
        )
    if found_gold:
        redacted = {artifact.partition: artifact.private("redacted.parquet") for artifact in ctx.inputs["redact"]}
        partitions = [
            ReviewPartition(
                name=artifact.partition or "",
                documents=artifact.private("documents.parquet"),
                gold=artifact.private("gold.parquet"),
                redacted=redacted[artifact.partition],
            )
            for artifact in ctx.inputs["split"]
        ]
        table = review_all(
            sample.private("sample.parquet"), partitions, len(sampling["replicates"]), progress=ctx.progress
        )
        labelled = Labelled(is_whole=covered.is_whole, share=covered.share)
        figures = measured(table, source="gold", is_census=is_census, confidence=config.confidence, labelled=labelled)
    else:
        figures = not_measured(
            num_sampled_sentences=sampling["num_distinct_sentences"],
            is_census=is_census,
            confidence=config.confidence,
            reason="the miss rate was not measured: "
            + ("estimate.source is none" if config.source == "none" else "no training document brings gold labels"),
        )
    figures["warnings"] = [*figures["warnings"], *sampling["warnings"]]
    text = json.dumps(figures, sort_keys=True, indent=1, allow_nan=False) + "\n"
    (ctx.private_dir / "figures.json").write_text(text, encoding="utf-8")
    return {
        "source": figures["source"],
        "num_sampled_sentences": figures["num_sampled_sentences"],
        "num_secret_spans": figures["num_secret_spans"],
    }
