"""Dedup, step 2 of 3: which sentences of the whole corpus are duplicates, and of which."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pipelines.context import StageContext

if TYPE_CHECKING:
    from types import ModuleType

    from pipelines.dedup.bloom import UInt64Array
    from pipelines.dedup.other_corpus import OtherCorpus, ReadCounts
    from pipelines.dedup.resolve import KeyBatch
    from pipelines.tables import Table


def _read_keys(keys: Table, other: OtherCorpus | None, ctx: StageContext) -> Iterator[KeyBatch]:
    import numpy as np

    from pipelines.dedup.resolve import KeyBatch

    columns = ["doc_id", "sentence_index", "key_high", "key_low", "in_scope"]
    if other is not None:
        columns += ["text_key_high", "text_key_low"]
    num_rows = 0
    for batch in keys.batches(columns, as_dictionary=["doc_id"]):
        in_scope = batch.column("in_scope").to_numpy(zero_copy_only=False)
        in_other = np.zeros(batch.num_rows, dtype=np.bool_)
        if other is not None:
            halves = (batch.column(name).to_numpy() for name in ("text_key_high", "text_key_low"))
            in_other = in_scope & other.contains(*halves)
        yield KeyBatch(
            doc_id=batch.column("doc_id"),
            sentence_index=batch.column("sentence_index"),
            high=batch.column("key_high").to_numpy(),
            low=batch.column("key_low").to_numpy(),
            in_scope=in_scope & ~in_other,
            in_other=in_other,
        )
        num_rows += batch.num_rows
        ctx.run.progress(num_rows, None, "comparing keys, by partition")


def _open_other(ctx: StageContext, counts: ReadCounts, kernels: ModuleType | None) -> OtherCorpus:
    """What ``dedup.against`` names.

    Raises:
        InputError: it cannot be read, or too many of its rows were rejected.
    """
    from pipelines.corpus.split import Splitter
    from pipelines.dedup.keys import KeyMaker
    from pipelines.dedup.other_corpus import OtherCorpus, read_keys

    config, corpus, split = (ctx.configs[name] for name in ("dedup", "corpus", "split"))

    def read(given: Sequence[str]) -> Iterator[tuple[UInt64Array, UInt64Array]]:
        return read_keys(
            given,
            corpus.other_options(),
            Splitter(split.language, split.mode, split.max_sentence_tokens, split.model),
            KeyMaker(config.normalise, config.hash_seed, kernels),
            config.unit,
            counts,
            lambda done: ctx.run.progress(done, None, "documents of the other corpus read"),
        )

    other = OtherCorpus.open(config.against, config.key_scheme(split), read, kernels)
    counts.check(corpus.max_rejected_fraction)
    return other


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes ``<partition>.parquet`` (duplicates only) for every partition, and ``figures.json``."""
    import functools

    from pipelines.dedup.bloom import ScalableBloomFilter
    from pipelines.dedup.kernels import compiled
    from pipelines.dedup.other_corpus import ReadCounts
    from pipelines.dedup.resolve import Tally, resolve, resolve_unverified
    from pipelines.dedup.stability import dedup_stability
    from pipelines.dedup.tables import DUPLICATES, KEYS

    config = ctx.configs["dedup"]
    artifacts = ctx.inputs["dedup_keys"]
    tables = [artifact.table(KEYS) for artifact in artifacts]
    num_rows = sum(table.num_rows for table in tables)
    kernels = compiled(num_rows)
    read_counts = ReadCounts()
    other = _open_other(ctx, read_counts, kernels) if config.against else None
    partitions = [functools.partial(_read_keys, table, other, ctx) for table in tables]
    tally = Tally()

    def new_filter() -> ScalableBloomFilter:
        return ScalableBloomFilter(config.expected_items, config.false_positive_rate, kernels)

    with ctx.out.scratch.emptied("resolve") as scratch:
        if config.verify:
            found = resolve(
                partitions,
                new_filter() if config.backend == "bloom" else None,  # no name here, so that it can be freed
                tally,
                mode=config.mode,
                scratch=scratch,
                max_rows_in_memory=config.max_rows_in_memory,
                num_rows=num_rows,
                kernels=kernels,
                num_threads=ctx.run.processes,  # threads do: nearly all of it is Arrow, numpy and compiled code
            )
        else:
            found = resolve_unverified(partitions, new_filter(), tally)
        for artifact, rows in zip(artifacts, found, strict=True):
            with ctx.out.table(DUPLICATES, artifact.partition) as writer:
                writer.write({name: rows[name] for name in rows.column_names})
    stability = dedup_stability(config.mode, config.normalise, config.verify, unit=config.unit)
    counts = {
        "num_sentences": tally.num_sentences,
        "num_in_scope": tally.num_in_scope + tally.num_in_other,
        "num_nominated": tally.num_nominated,
        "num_false_positives": tally.num_false_positives,
        "num_duplicates": tally.num_duplicates,
        "num_in_other": tally.num_in_other,
    }
    figures = {
        **counts,
        "mode": config.mode,
        "unit": config.unit,
        "has_other": bool(config.against),
        "num_other_documents": read_counts.num_documents,
        "num_other_rejected": read_counts.num_rejected,
        "normalise": config.normalise,
        "verify": config.verify,
        "hash_seed": config.hash_seed,
        "min_tokens": config.min_tokens,
        "target_false_positive_rate": config.false_positive_rate,
        "expected_items": config.expected_items,
        "backend": config.backend,
        "num_bits": tally.num_bits,
        "num_hashes": tally.num_hashes,
        "num_filters": tally.num_filters,
        "stability": {
            "add_or_remove_one": stability.add_or_remove_one,
            "replace_one": stability.replace_one,
        },
        "stability_reason": stability.reason,
    }
    ctx.out.json("figures.json", figures)
    return counts
