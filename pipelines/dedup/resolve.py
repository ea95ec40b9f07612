"""From the keys of a whole corpus to the list of its duplicates.

Two steps, both in corpus order (partition, then row), so that the result depends on the order of the sentences only,
never on how they are cut into partitions or batches:

1. `nominate`: one pass through a Bloom filter. Every key that occurs twice is nominated, for the filter has no false
   negatives; a few others are too.
2. `resolve`: an exact pass over the nominated keys finds first occurrences, counts occurrences and drops the false
   positives. With ``verify=False`` (`resolve_unverified`) the nominations are the duplicates, as in CRT (section
   3.2), and nobody knows of what.

Memory: the filter (about 1.44 log2(1 / rate) bits per expected item), then the nominated keys, at most
``max_keys_in_memory`` of them at a time: more are worked off in several passes over disjoint parts of the key space.
The rest is on disk in ``scratch_dir``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from pipelines.dedup.bloom import BoolArray, ScalableBloomFilter, UInt64Array
from pipelines.dedup.index import Int64Array, KeyIndex
from pipelines.dedup.stability import Mode

_SPILL_ROWS = 65_536
_FOUND = pa.schema(
    [
        pa.field("row", pa.uint64()),
        pa.field("doc_id", pa.string()),
        pa.field("sentence_index", pa.uint32()),
        pa.field("duplicate_of", pa.string()),
        pa.field("occurrence", pa.uint32()),
    ]
)


@dataclass(frozen=True)
class KeyBatch:
    """Some consecutive rows of one partition's keys.

    Attributes:
        doc_id: strings, shape (rows,).
        sentence_index: uint32, shape (rows,).
        high, low: the halves of the keys, uint64, shape (rows,).
        in_scope: rows that take part in deduplication, bool, shape (rows,).
    """

    doc_id: pa.Array
    sentence_index: pa.Array
    high: UInt64Array
    low: UInt64Array
    in_scope: BoolArray


KeyPartition = Callable[[], Iterable[KeyBatch]]
"""One partition's keys; each call starts from the first row again."""


@dataclass(frozen=True)
class Duplicates:
    """Duplicate rows of one partition in row order, as columns of equal length.

    Attributes:
        doc_id, sentence_index: which row.
        duplicate_of: ``doc_id:sentence_index`` of the first occurrence; None for a first occurrence itself, and
            where it is unknown (not verified).
        occurrence: 1-based position among the rows of equal key; 0 where it is unknown.
    """

    doc_id: list[str]
    sentence_index: list[int]
    duplicate_of: list[str | None]
    occurrence: list[int]


@dataclass
class Tally:
    """Counts of a run, filled in as it goes.

    Attributes:
        num_sentences: all rows.
        num_in_scope: rows that take part.
        num_nominated: rows whose key the filter took for seen.
        num_repeats: rows whose key did occur earlier; None when not verified.
        num_duplicates: rows that are masked.
    """

    num_sentences: int = 0
    num_in_scope: int = 0
    num_nominated: int = 0
    num_repeats: int | None = None
    num_duplicates: int = 0

    @property
    def num_false_positives(self) -> int | None:
        """Rows that the filter took for seen though their key was new; None when not verified, 0 without a filter."""
        return None if self.num_repeats is None else max(0, self.num_nominated - self.num_repeats)


def nominate(
    partition: KeyPartition, bloom: ScalableBloomFilter | None, tally: Tally
) -> Iterator[tuple[KeyBatch, Int64Array]]:
    """Passes one partition's keys in scope through the filter; partitions must come in corpus order.

    Without a filter (backend ``exact``) every row in scope is looked at exactly, and none counts as nominated.

    Yields:
        Each batch with its rows that are nominated (int64, ascending).
    """
    for batch in partition():
        rows = np.flatnonzero(batch.in_scope)
        nominated = rows if bloom is None else rows[bloom.add_and_test(batch.high[rows], batch.low[rows])]
        tally.num_sentences += len(batch.in_scope)
        tally.num_in_scope += len(rows)
        tally.num_nominated += 0 if bloom is None else len(nominated)
        yield batch, nominated


def resolve_unverified(
    partitions: Sequence[KeyPartition], bloom: ScalableBloomFilter, tally: Tally
) -> Iterator[Duplicates]:
    """The plain Bloom filter of CRT: every nominated row is a duplicate, true or not.

    Yields:
        The duplicates of each partition, in corpus order.
    """
    for partition in partitions:
        doc_ids: list[str] = []
        sentence_indices: list[int] = []
        for batch, rows in nominate(partition, bloom, tally):
            doc_ids += batch.doc_id.take(rows).to_pylist()
            sentence_indices += batch.sentence_index.take(rows).to_pylist()
        tally.num_duplicates += len(doc_ids)
        yield Duplicates(
            doc_id=doc_ids,
            sentence_index=sentence_indices,
            duplicate_of=[None] * len(doc_ids),
            occurrence=[0] * len(doc_ids),
        )


def resolve(
    partitions: Sequence[KeyPartition],
    bloom: ScalableBloomFilter | None,
    tally: Tally,
    *,
    mode: Mode,
    scratch_dir: Path,
    max_keys_in_memory: int,
) -> Iterator[Duplicates]:
    """Nominates by the filter, then decides exactly.

    Args:
        partitions: the corpus, in order. Each is read several times.
        bloom: an empty filter; None looks at every key exactly, which takes more passes or more memory.
        tally: counts, filled in by the time the iterator ends.
        mode: ``mask_later`` reports every occurrence but the first, ``mask_all`` every occurrence of a repeated key.
        scratch_dir: an existing folder for temporary files, whose content is overwritten and left behind.
        max_keys_in_memory: bounds the memory; changes no result.

    Yields:
        The duplicates of each partition, in corpus order.
    """
    spilled = scratch_dir / "nominated.bin"
    with spilled.open("wb") as file:
        for partition in partitions:
            for batch, rows in nominate(partition, bloom, tally):
                np.column_stack([batch.high[rows], batch.low[rows]]).tofile(file)
    num_spilled = spilled.stat().st_size // 16
    num_parts = max(1, -(-num_spilled // max_keys_in_memory))
    tally.num_repeats = 0
    for part in range(num_parts):
        with spilled.open("rb") as file:
            index = KeyIndex(*_read_part(file, part, num_parts))
        _decide(partitions, index, tally, mode, [scratch_dir / f"found-{n}-{part}" for n in range(len(partitions))])
    for n in range(len(partitions)):
        yield _merge([scratch_dir / f"found-{n}-{part}" for part in range(num_parts)])


def _in_part(low: UInt64Array, part: int, num_parts: int) -> BoolArray:
    mask: BoolArray = low % np.uint64(num_parts) == np.uint64(part)
    return mask


def _read_part(file: BinaryIO, part: int, num_parts: int) -> tuple[UInt64Array, UInt64Array]:
    """The spilled keys that belong to one part of the key space."""
    kept = [np.empty((0, 2), dtype=np.uint64)]
    while len(words := np.fromfile(file, dtype=np.uint64, count=2 * _SPILL_ROWS)):
        pairs = words.reshape(-1, 2)
        kept.append(pairs[_in_part(pairs[:, 1], part, num_parts)])
    keys = np.concatenate(kept)
    return keys[:, 0], keys[:, 1]


def _members(batch: KeyBatch, index: KeyIndex) -> tuple[Int64Array, Int64Array]:
    """Rows of a batch whose key is indexed, ascending, and the slots of their keys."""
    rows = np.flatnonzero(batch.in_scope)
    slots = index.find(batch.high[rows], batch.low[rows])
    found = slots >= 0
    return rows[found], slots[found]


def _count_up(slots: Int64Array, counts: Int64Array) -> Int64Array:
    """Occurrence numbers (from 1) of rows with these slots, given and updating the counts so far per slot."""
    order = np.argsort(slots, kind="stable")
    ordered = slots[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    lengths = np.diff(starts, append=len(ordered))
    rank = np.arange(len(ordered)) - np.repeat(starts, lengths)
    occurrence = np.empty(len(ordered), dtype=np.int64)
    occurrence[order] = counts[ordered] + rank + 1
    counts[ordered[starts]] += lengths
    return occurrence


def _decide(
    partitions: Sequence[KeyPartition], index: KeyIndex, tally: Tally, mode: Mode, paths: Sequence[Path]
) -> None:
    """Writes the duplicates among the indexed keys, one temporary file per partition."""
    totals: Int64Array | None = None
    if mode == "mask_all":  # a first occurrence can be judged only when it is known that another one follows
        totals = np.zeros(len(index), dtype=np.int64)
        for partition in partitions:
            for batch in partition():
                totals += np.bincount(_members(batch, index)[1], minlength=len(index))
    counts = np.zeros(len(index), dtype=np.int64)
    first = np.full(len(index), None, dtype=object)  # doc_id:sentence_index of each slot's first occurrence
    for partition, path in zip(partitions, paths, strict=True):
        at = 0
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, _FOUND) as writer:
            for batch in partition():
                rows, slots = _members(batch, index)
                occurrence = _count_up(slots, counts)
                is_first = occurrence == 1
                where = rows[is_first]
                doc_ids, indices = batch.doc_id.take(where).to_pylist(), batch.sentence_index.take(where).to_pylist()
                first[slots[is_first]] = [f"{doc_id}:{i}" for doc_id, i in zip(doc_ids, indices, strict=True)]
                tally.num_repeats = (tally.num_repeats or 0) + int((~is_first).sum())
                wanted = ~is_first if totals is None else totals[slots] > 1
                rows, slots, occurrence = rows[wanted], slots[wanted], occurrence[wanted]
                tally.num_duplicates += len(rows)
                columns = [
                    pa.array(rows + at, type=pa.uint64()),
                    batch.doc_id.take(rows),
                    batch.sentence_index.take(rows),
                    pa.array(first[slots], type=pa.string(), mask=occurrence == 1),
                    pa.array(occurrence, type=pa.uint32()),
                ]
                writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=_FOUND))
                at += len(batch.in_scope)


def _merge(paths: Sequence[Path]) -> Duplicates:
    """One partition's duplicates out of all parts of the key space, in row order."""
    tables = []
    for path in paths:
        with pa.OSFile(str(path), "rb") as file, pa.ipc.open_stream(file) as reader:
            tables.append(reader.read_all())
    found = pa.concat_tables(tables)
    if len(tables) > 1:
        found = found.sort_by("row")
    return Duplicates(
        doc_id=found["doc_id"].to_pylist(),
        sentence_index=found["sentence_index"].to_pylist(),
        duplicate_of=found["duplicate_of"].to_pylist(),
        occurrence=found["occurrence"].to_pylist(),
    )
