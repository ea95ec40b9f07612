"""Dedup, step 2 of 4: the duplicates among the sentences of one hash bucket, over the whole corpus."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.context import StageContext
from pipelines.dedup.bloom import ScalableBloomFilter, UInt64Array
from pipelines.dedup.hash_ranges import items_per_bucket, num_buckets, prefixes
from pipelines.dedup.kernels import compiled
from pipelines.dedup.key_tables import FOUND, KEYS
from pipelines.dedup.keys import KeyMaker
from pipelines.dedup.other_corpus import OtherCorpus, ReadCounts, read_keys
from pipelines.dedup.resolve import KeyBatch, Tally, resolve, resolve_unverified

if TYPE_CHECKING:
    from types import ModuleType

    from pipelines.tables import Table


def _read_keys(
    keys: Table, bucket: str, other: OtherCorpus | None, ctx: StageContext, *, in_order: bool
) -> Iterator[KeyBatch]:
    """Yields the bucket's rows of one partition: by prefix, or in the order of the text."""
    columns = ["prefix", "row", "doc_id", "sentence_index", "key_high", "key_low", "in_scope"]
    if other is not None:
        columns += ["text_key_high", "text_key_low"]
    first, end = prefixes(bucket)
    batches = keys.batches(columns, as_dictionary=["doc_id"], near=("prefix", first, end))
    if in_order:  # a plain filter has one bucket, which holds all rows
        batches = iter(keys.read().sort_by("row").to_batches())
    for batch in batches:
        if not in_order:
            start, stop = np.searchsorted(batch.column("prefix").to_numpy(), (first, end)).tolist()
            batch = batch.slice(start, stop - start)
        in_scope = batch.column("in_scope").to_numpy(zero_copy_only=False)
        in_other = np.zeros(batch.num_rows, dtype=np.bool_)
        if other is not None:
            halves = (batch.column(name).to_numpy() for name in ("text_key_high", "text_key_low"))
            in_other = in_scope & other.contains(*halves)
        yield KeyBatch(
            row=batch.column("row").to_numpy(),
            doc_id=batch.column("doc_id"),
            sentence_index=batch.column("sentence_index"),
            high=batch.column("key_high").to_numpy(),
            low=batch.column("key_low").to_numpy(),
            in_scope=in_scope & ~in_other,
            in_other=in_other,
        )


def _open_other(ctx: StageContext, counts: ReadCounts, kernels: ModuleType | None) -> OtherCorpus:
    """Opens the other corpus, which ``dedup.against`` names.

    Raises:
        InputError: the other corpus cannot be read, or too many of its rows were rejected.
    """
    from pipelines.corpus.split import Splitter  # spaCy is slow to import

    config, corpus, split = (ctx.configs[name] for name in ("dedup", "corpus", "split"))

    def read(paths: Sequence[str]) -> Iterator[tuple[UInt64Array, UInt64Array]]:
        return read_keys(
            paths,
            corpus.other_options(),
            Splitter(split.language, split.mode, split.max_sentence_tokens, split.model, split.cut_fields),
            KeyMaker(config.normalise, config.hash_seed, kernels),
            config.unit,
            counts,
            lambda done: ctx.run.progress(done, None, "documents of the other corpus read"),
        )

    other = OtherCorpus.open(config.against, config.key_scheme(split), read, kernels)
    counts.check(corpus.max_rejected_fraction)
    return other


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes ``found.parquet`` (duplicates only, of all partitions) and ``figures.json``."""
    config, bucket = ctx.configs["dedup"], str(ctx.partition)
    tables = [artifact.table(KEYS) for artifact in ctx.inputs["dedup_keys"]]
    num_rows = sum(table.num_rows for table in tables) // num_buckets(bucket)
    kernels = compiled(num_rows)
    read_counts = ReadCounts()
    other = _open_other(ctx, read_counts, kernels) if config.against else None
    partitions = [
        functools.partial(_read_keys, table, bucket, other, ctx, in_order=not config.verify) for table in tables
    ]
    tally = Tally()

    def new_filter() -> ScalableBloomFilter:
        expected_items = items_per_bucket(config.expected_items, num_buckets(bucket))
        return ScalableBloomFilter(expected_items, config.false_positive_rate, kernels)

    with ctx.out.scratch.emptied("resolve") as scratch, ctx.out.table(FOUND) as writer:
        if config.verify:
            duplicates = resolve(
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
            duplicates = resolve_unverified(partitions, new_filter(), tally)
        for partition, rows in enumerate(duplicates):
            if len(rows):
                numbers = np.full(len(rows), partition, dtype=np.uint32)
                writer.write({"partition": numbers, **{name: rows[name] for name in rows.column_names}})
                ctx.run.progress(writer.num_rows, None, "writing duplicates")
    counts = {
        "num_sentences": tally.num_sentences,
        "num_in_scope": tally.num_in_scope + tally.num_in_other,
        "num_nominated": tally.num_nominated,
        "num_false_positives": tally.num_false_positives,
        "num_duplicates": tally.num_duplicates,
        "num_in_other": tally.num_in_other,
    }
    size = {"num_bits": tally.num_bits, "num_hashes": tally.num_hashes, "num_filters": tally.num_filters}
    read = {"num_other_documents": read_counts.num_documents, "num_other_rejected": read_counts.num_rejected}
    ctx.out.json("figures.json", {**counts, **size, **read})
    return counts
