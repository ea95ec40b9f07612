"""Dedup, step 2 of 3: which sentences of the whole corpus are duplicates, and of which."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pipelines.context import Artifact, StageContext

if TYPE_CHECKING:
    from pipelines.dedup.resolve import KeyBatch


def _read_keys(artifact: Artifact, ctx: StageContext) -> Iterator[KeyBatch]:
    from pipelines.dedup.resolve import KeyBatch
    from pipelines.tables import iter_batches

    num_rows = 0
    for batch in iter_batches(artifact.private("keys.parquet"), "keys"):
        yield KeyBatch(
            doc_id=batch.column("doc_id"),
            sentence_index=batch.column("sentence_index"),
            high=batch.column("key_high").to_numpy(),
            low=batch.column("key_low").to_numpy(),
            in_scope=batch.column("in_scope").to_numpy(zero_copy_only=False),
        )
        num_rows += batch.num_rows
        ctx.progress(num_rows, None, "comparing keys, by partition")


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes ``<partition>.parquet`` (duplicates only) for every partition, and ``figures.json``."""
    import functools
    import json
    import shutil

    from pipelines.dedup.bloom import ScalableBloomFilter
    from pipelines.dedup.kernels import compiled
    from pipelines.dedup.resolve import Tally, resolve, resolve_unverified
    from pipelines.dedup.stability import dedup_stability
    from pipelines.tables import TableWriter, open_table

    config = ctx.configs["dedup"]
    artifacts = ctx.inputs["dedup_keys"]
    partitions = [functools.partial(_read_keys, artifact, ctx) for artifact in artifacts]
    num_rows = 0
    for artifact in artifacts:
        with open_table(artifact.private("keys.parquet"), "keys") as table:
            num_rows += table.metadata.num_rows
    bloom = None
    if config.backend == "bloom":
        bloom = ScalableBloomFilter(config.expected_items, config.false_positive_rate, compiled(num_rows))
    tally = Tally()
    scratch_dir = ctx.scratch_dir / "resolve"
    shutil.rmtree(scratch_dir, ignore_errors=True)  # left by an attempt that was killed
    scratch_dir.mkdir(parents=True)
    if config.verify or bloom is None:
        found = resolve(
            partitions,
            bloom,
            tally,
            mode=config.mode,
            scratch_dir=scratch_dir,
            max_keys_in_memory=config.max_keys_in_memory,
        )
    else:
        found = resolve_unverified(partitions, bloom, tally)
    for artifact, rows in zip(artifacts, found, strict=True):
        with TableWriter(ctx.private_dir / f"{artifact.partition}.parquet", "decisions") as writer:
            writer.extend(
                {
                    "doc_id": rows.doc_id,
                    "sentence_index": rows.sentence_index,
                    "is_duplicate": [True] * len(rows.doc_id),
                    "duplicate_of": rows.duplicate_of,
                    "occurrence": rows.occurrence,
                }
            )
    shutil.rmtree(scratch_dir)
    stability = dedup_stability(config.mode, config.normalise, config.verify)
    counts = {
        "num_sentences": tally.num_sentences,
        "num_in_scope": tally.num_in_scope,
        "num_nominated": tally.num_nominated,
        "num_false_positives": tally.num_false_positives,
        "num_duplicates": tally.num_duplicates,
    }
    figures = {
        **counts,
        "mode": config.mode,
        "normalise": config.normalise,
        "verify": config.verify,
        "hash_seed": config.hash_seed,
        "min_tokens": config.min_tokens,
        "target_false_positive_rate": config.false_positive_rate,
        "expected_items": config.expected_items,
        "backend": config.backend,
        "num_bits": bloom.num_bits if bloom is not None else 0,
        "num_hashes": bloom.filters[0].num_hashes if bloom is not None else 0,
        "num_filters": len(bloom.filters) if bloom is not None else 0,
        "stability": {
            "add_or_remove_one": stability.add_or_remove_one,
            "replace_one": stability.replace_one,
        },
        "stability_reason": stability.reason,
    }
    text = json.dumps(figures, sort_keys=True, indent=1) + "\n"
    (ctx.private_dir / "figures.json").write_text(text, encoding="utf-8")
    return counts
