"""Dedup, step 3 of 4: the duplicates of all buckets, by partition."""

from __future__ import annotations

from typing import Any

from pipelines.context import StageContext
from pipelines.dedup.key_tables import FOUND
from pipelines.dedup.resolve import merge
from pipelines.dedup.stability import dedup_stability
from pipelines.dedup.tables import DUPLICATES

_BATCH_ROWS = 16_384  # of all buckets together


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes ``<partition>.parquet`` (duplicates only) for every partition, and ``figures.json``."""
    config = ctx.configs["dedup"]
    partitions = [artifact.partition for artifact in ctx.inputs["dedup_keys"]]
    buckets = ctx.inputs["dedup_buckets"]
    batch_rows = max(256, _BATCH_ROWS // len(buckets))
    streams = [bucket.table(FOUND).batches(batch_rows=batch_rows) for bucket in buckets]
    for done, (partition, rows) in enumerate(zip(partitions, merge(streams, len(partitions)), strict=True), start=1):
        with ctx.out.table(DUPLICATES, partition) as writer:
            writer.write({name: rows[name] for name in rows.column_names})
        ctx.run.progress(done, len(partitions), "bringing duplicates together, by partition")
    of_buckets = [bucket.json("figures.json") for bucket in buckets]

    def total(name: str) -> int | None:
        values = [figures[name] for figures in of_buckets]
        return None if None in values else sum(values)

    counted = ("num_sentences", "num_in_scope", "num_nominated", "num_false_positives", "num_duplicates")
    counts = {name: total(name) for name in (*counted, "num_in_other")}
    stability = dedup_stability(config.mode, config.normalise, config.verify, unit=config.unit)
    figures = {
        **counts,
        "mode": config.mode,
        "unit": config.unit,
        **({"scope": config.scope} if config.scope != "corpus" else {}),
        "has_other": bool(config.against),
        "num_other_documents": total("num_other_documents"),
        "num_other_rejected": total("num_other_rejected"),
        "normalise": config.normalise,
        "verify": config.verify,
        "hash_seed": config.hash_seed,
        "min_tokens": config.min_tokens,
        "target_false_positive_rate": config.false_positive_rate,
        "expected_items": config.expected_items,
        "backend": config.backend,
        "num_buckets": len(buckets),
        "num_bits": total("num_bits"),
        "num_hashes": of_buckets[0]["num_hashes"],
        "num_filters": total("num_filters"),
        "stability": {"add_or_remove_one": stability.add_or_remove_one, "replace_one": stability.replace_one},
        "stability_reason": stability.reason,
    }
    ctx.out.json("figures.json", figures)
    return counts
