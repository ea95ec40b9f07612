"""Computes the list of duplicates from keys, for a whole corpus or for one range of hashes.

Partitions are read in corpus order, and equal keys keep the order of their rows. So the result depends only on the
order of the sentences, never on the borders of partitions or batches:

1. One pass through a Bloom filter nominates every key that occurs twice, because the filter has no false negatives. It
   nominates a few other keys too. A small second filter marks the nominated keys. Then the first filter is freed.
2. Rows with a marked key go to files on disk, by bucket of the key, and each bucket is decided exactly: first
   occurrences, numbers of occurrences, and no false positives. With ``verify=False`` (`resolve_unverified`) the
   nominations are the duplicates, as in CRT (section 3.2), and their originals are unknown.

Memory: first the filter (up to 2 log2(1 / rate) bits per expected item) and the marks (`MARK_BITS` per row), then the
marks and one bucket per thread. The rest is on disk in ``scratch``.

With several threads, keys are read while earlier ones pass through the filter or are sorted out, buckets are decided
at the same time, and duplicates are merged while earlier ones are used. The order of all insertions and writes stays
the same, and so does every byte.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa

from pipelines.artifacts import Target
from pipelines.dedup.bloom import BloomFilter, BoolArray, ScalableBloomFilter, UInt64Array
from pipelines.dedup.bloom_rate import BLOCK_BITS
from pipelines.dedup.buckets import CANDIDATES, MAX_BUCKETS, Buckets, decide, open_writer
from pipelines.dedup.index import Int64Array
from pipelines.dedup.key_tables import FOUND
from pipelines.dedup.prefetch import prefetch
from pipelines.dedup.stability import Mode
from pipelines.dedup.tables import DUPLICATES
from pipelines.tables import arrow_file

MARK_BITS = 2
"""Bits of marks per row. If a fifth of all rows is nominated, 1 % of the rows without a marked key go to disk
needlessly. If three tenths are nominated, 6 % do."""

POOLED_ROWS = 65_536
"""Number of duplicates merged at a time, some 7 MB: as many as the batches of most files of candidates."""

_ROW_BYTES = 400  # about twice the memory of a candidate while its bucket is decided


@dataclass(frozen=True)
class KeyBatch:
    """Some rows of one partition's keys. Rows of equal keys come in ascending order.

    Attributes:
        row: row numbers in the partition, uint64, shape (rows,)
        doc_id: strings, or a dictionary array of strings, shape (rows,)
        sentence_index: uint32, shape (rows,)
        high, low: halves of the keys, uint64, shape (rows,)
        in_scope: rows that are compared with each other, bool, shape (rows,)
        in_other: rows that are masked because another corpus holds them, bool, shape (rows,); none is in scope
    """

    row: UInt64Array
    doc_id: pa.Array
    sentence_index: pa.Array
    high: UInt64Array
    low: UInt64Array
    in_scope: BoolArray
    in_other: BoolArray


KeyPartition = Callable[[], Iterable[KeyBatch]]
"""Function that yields one partition's keys. Each call starts from the first row."""


@dataclass
class Tally:
    """Counts of a run, filled in while it proceeds.

    Attributes:
        num_sentences: all rows
        num_in_scope: rows that are compared with each other
        num_in_other: rows that another corpus holds
        num_nominated: rows whose key the filter took for seen
        num_repeats: rows whose key did occur earlier; None if not verified
        num_duplicates: rows that are masked
        num_bits, num_hashes, num_filters: size of the chain of filters (hashes of its first one); 0 without a filter
    """

    num_sentences: int = 0
    num_in_scope: int = 0
    num_in_other: int = 0
    num_nominated: int = 0
    num_repeats: int | None = None
    num_duplicates: int = 0
    num_bits: int = 0
    num_hashes: int = 0
    num_filters: int = 0

    @property
    def num_false_positives(self) -> int | None:
        """Rows that the filter took for seen although their key was new; None if not verified, 0 without a filter."""
        return None if self.num_repeats is None else max(0, self.num_nominated - self.num_repeats)

    def count(self, batch: KeyBatch) -> None:
        """Counts the rows of a batch."""
        self.num_sentences += len(batch.in_scope)
        self.num_in_scope += int(batch.in_scope.sum())
        self.num_in_other += int(batch.in_other.sum())

    def describe(self, bloom: ScalableBloomFilter) -> None:
        """Notes a filter that has seen the whole corpus."""
        self.num_bits = bloom.num_bits
        self.num_hashes = bloom.filters[0].num_hashes
        self.num_filters = len(bloom.filters)


def nominate(
    batches: Iterable[KeyBatch], bloom: ScalableBloomFilter, tally: Tally
) -> Iterator[tuple[KeyBatch, Int64Array]]:
    """Passes keys in scope, in corpus order, through the filter.

    Yields:
        A pair of each batch and its nominated rows (int64, ascending).
    """
    for batch in batches:
        rows = np.flatnonzero(batch.in_scope)
        nominated = rows[bloom.add_and_test(batch.high[rows], batch.low[rows])]
        tally.count(batch)
        tally.num_nominated += len(nominated)
        yield batch, nominated


def resolve_unverified(
    partitions: Sequence[KeyPartition], bloom: ScalableBloomFilter, tally: Tally
) -> Iterator[pa.Table]:
    """Applies the plain Bloom filter of CRT: every nominated row is a duplicate, true or not.

    Args:
        partitions: partitions of the corpus, in order, because false duplicates depend on the order of all rows
        bloom: empty filter
        tally: counts, complete when the iterator ends

    Yields:
        The ``duplicates`` of each partition, in corpus order.
    """
    for partition in partitions:
        found: list[pa.RecordBatch] = []
        for batch, rows in nominate(partition(), bloom, tally):
            is_masked = batch.in_other.copy()
            is_masked[rows] = True
            found.append(_of_unknown(batch, np.flatnonzero(is_masked), 0))
        tally.num_duplicates += sum(map(len, found))
        yield pa.Table.from_batches(found, schema=FOUND.columns).select(DUPLICATES.names)
    tally.describe(bloom)


def resolve(
    partitions: Sequence[KeyPartition],
    bloom: ScalableBloomFilter | None,
    tally: Tally,
    *,
    mode: Mode,
    scratch: Target,
    max_rows_in_memory: int,
    num_rows: int,
    kernels: ModuleType | None = None,
    num_threads: int = 1,
) -> Iterator[pa.Table]:
    """Nominates by the filter, then decides exactly.

    Args:
        partitions: partitions of the corpus, in order; each is read twice
        bloom: empty filter, freed after its pass if the caller holds no reference; None to check every row exactly,
            which writes all rows to disk
        tally: counts, complete when the iterator ends
        mode: ``mask_later`` to report every occurrence except the first, ``mask_all`` to report every occurrence of a
            repeated key
        scratch: folder for temporary files, whose content is overwritten and left
        max_rows_in_memory: approximate number of rows in a bucket, or the number that fits into the filter's memory;
            bounds the memory and changes no result
        num_rows: approximate number of rows in all partitions; sizes the marks and changes no result
        kernels: compiled passes; see `BloomFilter`
        num_threads: largest number of busy threads; changes no result

    Yields:
        The ``duplicates`` of each partition, in corpus order.
    """
    prefetched = prefetch if num_threads > 1 else iter
    marks: BloomFilter | None = None
    if bloom is not None:
        marks = BloomFilter(1 + MARK_BITS * num_rows // BLOCK_BITS, kernels=kernels)
        batches = (batch for _, batch in prefetched(_numbered(partitions)))
        for batch, rows in nominate(batches, bloom, tally):
            marks.add_and_test(batch.high[rows], batch.low[rows])
        tally.describe(bloom)
        num_rows = 2 * tally.num_nominated
        # Few buckets are quick to write and to merge, and they may use the memory that the filter frees.
        max_rows_in_memory = max(max_rows_in_memory, tally.num_bits // 8 // _ROW_BYTES // num_threads)
    bloom = None
    num_buckets = min(MAX_BUCKETS, 1 + num_rows // max_rows_in_memory)
    keys = prefetched(_numbered(partitions))
    rows = _sort_out(keys, marks, tally, scratch, num_buckets).tolist()
    marks = None
    found = [scratch.blob(f"found-{n}") for n in range(num_buckets)]
    with ThreadPoolExecutor(num_threads) as threads:
        decided = threads.map(
            lambda n: decide(
                scratch.blob(f"bucket-{n}"),
                found[n],
                mode,
                num_rows=rows[n],
                max_rows=2 * max_rows_in_memory,  # hashes fill buckets unevenly
                num_buckets=num_buckets,
            ),
            range(num_buckets),
        )
        tally.num_repeats = sum(decided)
    streams = [_read(path) for path in (scratch.blob("other"), *found)]
    for duplicates in prefetched(merge(streams, len(partitions))):
        tally.num_duplicates += len(duplicates)
        yield duplicates


def _numbered(partitions: Sequence[KeyPartition]) -> Iterator[tuple[int, KeyBatch]]:
    """Yields the keys of the whole corpus, with the number of the partition."""
    return ((number, batch) for number, partition in enumerate(partitions) for batch in partition())


def _names(batch: KeyBatch, rows: Int64Array) -> pa.Array:
    """Returns the documents of some rows, as strings."""
    if pa.types.is_dictionary(batch.doc_id.type):
        return batch.doc_id.dictionary.take(batch.doc_id.indices.take(rows))
    return batch.doc_id.take(rows)


def _of_unknown(batch: KeyBatch, rows: Int64Array, partition: int) -> pa.RecordBatch:
    """Returns rows as duplicates whose originals are unknown."""
    columns = [
        pa.array(np.full(len(rows), partition, dtype=np.uint32)),
        pa.array(batch.row[rows]),
        _names(batch, rows),
        batch.sentence_index.take(rows),
        pa.nulls(len(rows), pa.string()),
        pa.array(np.zeros(len(rows), dtype=np.uint32)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=FOUND.columns)


def _sort_out(
    keys: Iterable[tuple[int, KeyBatch]], marks: BloomFilter | None, tally: Tally, scratch: Target, num_buckets: int
) -> Int64Array:
    """Writes rows whose key is marked to their buckets, and rows that another corpus holds to ``other``.

    Args:
        keys: keys of the corpus in order, with the number of the partition
        marks: filter of marked keys; None to mark every key, in which case the rows are counted here

    Returns:
        The number of rows in each bucket.
    """
    with ExitStack() as stack:
        buckets = Buckets(scratch, num_buckets, stack)
        other = open_writer(scratch.blob("other"), FOUND.columns, stack)
        for partition, batch in keys:
            rows = np.flatnonzero(batch.in_scope)
            if marks is None:
                tally.count(batch)
            else:
                rows = rows[marks.contains(batch.high[rows], batch.low[rows])]
            columns = [
                pa.array(np.full(len(rows), partition, dtype=np.uint32)),
                pa.array(batch.row[rows]),
                pa.array(batch.high[rows]),
                pa.array(batch.low[rows]),
                _names(batch, rows),
                batch.sentence_index.take(rows),
            ]
            buckets.add(pa.RecordBatch.from_arrays(columns, schema=CANDIDATES))
            if batch.in_other.any():
                other.write_batch(_of_unknown(batch, np.flatnonzero(batch.in_other), partition))
        buckets.flush()
    return buckets.num_rows


def _read(path: Path) -> Iterator[pa.RecordBatch]:
    """Yields the batches of a file of `open_writer`."""
    with arrow_file(path, "rb") as file, pa.ipc.open_stream(file) as reader:
        yield from reader


def merge(
    streams: Sequence[Iterator[pa.RecordBatch]], num_partitions: int, pooled_rows: int = POOLED_ROWS
) -> Iterator[pa.Table]:
    """Merges the duplicates of several streams.

    The time grows with rows and batches. Reading every stream for every partition would grow with the square of the
    corpus, because both numbers grow with it.

    Args:
        streams: rows of `pipelines.dedup.key_tables.FOUND`, each sorted by partition
        num_partitions: number of partitions
        pooled_rows: number of rows sorted at a time; more if a batch of each stream, or a partition, has more

    Yields:
        The ``duplicates`` of each partition, by row, in corpus order.
    """
    pool = FOUND.columns.empty_table()
    behind = [(0, n) for n in range(len(streams))]  # last partition read from each stream
    first = 0
    while first < num_partitions:
        added: list[pa.RecordBatch] = []
        num_rows = len(pool)
        while behind and (num_rows < pooled_rows or behind[0][0] <= first):
            _, n = heapq.heappop(behind)
            batch = next((batch for batch in streams[n] if len(batch)), None)
            if batch is not None:
                added.append(batch)
                num_rows += len(batch)
                heapq.heappush(behind, (batch["partition"][-1].as_py(), n))
        end = behind[0][0] if behind else num_partitions
        pool = pa.concat_tables([pool, pa.Table.from_batches(added, schema=FOUND.columns)])
        pool = pool.take(np.lexsort((pool["row"].to_numpy(), pool["partition"].to_numpy())))
        edges = np.searchsorted(pool["partition"].to_numpy(), np.arange(first, end + 1)).tolist()
        found = pool.select(DUPLICATES.names)
        for start, stop in pairwise(edges):
            yield found.slice(start, stop - start)
        pool, first = pool.slice(edges[-1]), end
