"""Candidates for duplicates on disk, divided by key into buckets, and the exact decision about each bucket.

A range of hashes (`pipelines.dedup.hash_ranges`) is called a bucket too. The buckets here divide such a range further,
so that each fits in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.artifacts import Target
from pipelines.dedup.bloom import UInt64Array
from pipelines.dedup.index import Int64Array, differs
from pipelines.dedup.key_tables import FOUND
from pipelines.dedup.stability import Mode
from pipelines.tables import arrow_file

MAX_BUCKETS = 256  # files open at a time; their numbers are bytes
_BUFFERED_ROWS = 32_768  # candidates, some 3 MB; in files of many small batches a bucket takes longer to read
_MERGED_ROWS = 16_384  # duplicates, of all buckets at once

CANDIDATES = pa.schema(
    [
        pa.field("partition", pa.uint32()),
        pa.field("row", pa.uint64()),
        pa.field("high", pa.uint64()),
        pa.field("low", pa.uint64()),
        pa.field("doc_id", pa.string()),
        pa.field("sentence_index", pa.uint32()),
    ]
)


class Buckets:
    """Files of candidates by bucket of the key. Rows of a bucket keep their order.

    Attributes:
        num_rows: number of rows in each bucket, after `flush`; int64 of shape (buckets,)
    """

    def __init__(self, scratch: Target, num_buckets: int, stack: ExitStack) -> None:
        self._pending: list[pa.RecordBatch] = []
        self._num_pending = 0
        self.num_rows = np.zeros(num_buckets, dtype=np.int64)
        self._writers = [open_writer(scratch.blob(f"bucket-{n}"), CANDIDATES, stack) for n in range(num_buckets)]

    def add(self, batch: pa.RecordBatch) -> None:
        """Takes the next candidates."""
        self._pending.append(batch)
        self._num_pending += len(batch)
        if self._num_pending >= _BUFFERED_ROWS:
            self.flush()

    def flush(self) -> None:
        """Writes the buffered candidates."""
        table = pa.Table.from_batches(self._pending, schema=CANDIDATES).combine_chunks()
        buckets = (table["low"].to_numpy() % np.uint64(len(self._writers))).astype(np.uint8)
        table = table.take(np.argsort(buckets, kind="stable"))  # bytes are sorted by their value, not by comparing
        lengths = np.bincount(buckets, minlength=len(self._writers))
        self.num_rows += lengths
        edges = np.cumsum([0, *lengths]).tolist()
        for n, writer in enumerate(self._writers):
            if edges[n] < edges[n + 1]:
                writer.write_table(table.slice(edges[n], edges[n + 1] - edges[n]))
        self._pending, self._num_pending = [], 0


def open_writer(path: Path, schema: pa.Schema, stack: ExitStack) -> pa.ipc.RecordBatchStreamWriter:
    """Opens a file of record batches, which is closed with the stack."""
    file = stack.enter_context(arrow_file(path, "wb"))
    return stack.enter_context(pa.ipc.new_stream(file, schema))


def decide(source: Path, target: Path, mode: Mode, *, num_rows: int, max_rows: int, num_buckets: int) -> int:
    """Writes the duplicates among the candidates of one bucket in their order, and removes the bucket.

    A very frequent key ("Yes.") has all its rows in one bucket, however many buckets there are. A bucket that is too
    large for memory is read in parts, twice: for the first row of each repeated key, then for the duplicates.

    Args:
        source: file of the bucket
        target: file for its duplicates
        mode: copies to mask; see `pipelines.dedup.resolve.resolve`
        num_rows: number of rows in the bucket
        max_rows: number of rows held at a time, or of distinct keys if that is larger; changes no result
        num_buckets: number of buckets, which are all merged at once afterwards

    Returns:
        The number of candidates that repeat an earlier key.
    """
    known = _Known(CANDIDATES.empty_table(), np.zeros(0, dtype=np.int64))
    if num_rows > max_rows:
        for part in _parts(source, max_rows, known):
            _Grouped(known, part).remember()
        known.forget_unrepeated()
    num_repeats = 0
    with ExitStack() as stack:
        writer = open_writer(target, FOUND.columns, stack)
        for part in _parts(source, max_rows, known):
            grouped = _Grouped(known, part)
            found, repeats = grouped.duplicates(mode)
            # All buckets are merged at once, one batch of each in memory.
            writer.write_table(found, max_chunksize=max(256, _MERGED_ROWS // num_buckets))
            num_repeats += repeats
            grouped.count()
    source.unlink()
    return num_repeats


@dataclass
class _Known:
    """The first row of each key in earlier parts of a bucket, and the number of its rows so far."""

    rows: pa.Table
    counts: Int64Array

    def forget_unrepeated(self) -> None:
        """Keeps only keys that came more than once, and restarts their counts."""
        at = np.flatnonzero(self.counts > 1)
        self.rows, self.counts = self.rows.take(at), np.zeros(len(at), dtype=np.int64)


def _parts(source: Path, max_rows: int, known: _Known) -> Iterator[pa.Table]:
    """Yields the rows of a bucket in parts of at most ``max_rows``, or of the known rows, or of one batch."""
    with arrow_file(source, "rb") as file, pa.ipc.open_stream(file) as reader:
        batches: list[pa.RecordBatch] = []
        num_rows = 0
        for batch in reader:
            if batches and num_rows + len(batch) > max(max_rows, len(known.rows)):
                yield pa.Table.from_batches(batches, schema=CANDIDATES).combine_chunks()
                batches, num_rows = [], 0
            batches.append(batch)
            num_rows += len(batch)
        yield pa.Table.from_batches(batches, schema=CANDIDATES).combine_chunks()


class _Grouped:
    """The known first rows and a part's rows, grouped by key, with each row's occurrence number in its key."""

    def __init__(self, known: _Known, part: pa.Table) -> None:
        self._known = known
        self._rows = pa.concat_tables([known.rows, part]).combine_chunks() if len(known.rows) else part
        self._order, starts = _groups(self._rows["high"].to_numpy(), self._rows["low"].to_numpy())
        self._lengths = np.diff(starts, append=len(self._order))
        self._group = np.repeat(np.arange(len(starts)), self._lengths)
        self._first = self._order[starts]
        self._last = starts + self._lengths - 1
        before = np.zeros(len(self._rows), dtype=np.int64)
        before[: len(known.counts)] = known.counts - 1  # a known row counts for all rows of its key so far
        self._occurrence = np.arange(len(self._order)) - starts[self._group] + 1 + before[self._first][self._group]

    def remember(self) -> None:
        """Adds all keys of the part to the known ones."""
        self._known.rows, self._known.counts = self._rows.take(self._first), self._occurrence[self._last]

    def count(self) -> None:
        """Counts the part's rows of known keys only."""
        is_known = self._first < len(self._known.counts)
        self._known.counts[self._first[is_known]] = self._occurrence[self._last[is_known]]

    def duplicates(self, mode: Mode) -> tuple[pa.Table, int]:
        """Returns the part's duplicates in their order, and the number of its rows that repeat an earlier key."""
        is_repeat = self._occurrence > 1
        is_masked = is_repeat if mode == "mask_later" else self._lengths[self._group] > 1
        is_new = self._order >= len(self._known.counts)
        at = np.flatnonzero(is_masked & is_new)
        at = at[np.argsort(self._order[at])]  # in the order of rows
        masked, firsts = self._rows.take(self._order[at]), self._rows.take(self._first[self._group[at]])
        names = pc.binary_join_element_wise(firsts["doc_id"], firsts["sentence_index"].cast(pa.string()), ":")
        occurrence = self._occurrence[at]
        columns = [
            masked["partition"],
            masked["row"],
            masked["doc_id"],
            masked["sentence_index"],
            pc.if_else(pa.array(occurrence > 1), names, pa.scalar(None, pa.string())),
            pa.array(occurrence, type=pa.uint32()),
        ]
        return pa.Table.from_arrays(columns, schema=FOUND.columns), int(np.count_nonzero(is_repeat & is_new))


def _groups(high: UInt64Array, low: UInt64Array) -> tuple[Int64Array, Int64Array]:
    """Sorts rows by key, keeping the order of equal keys, and returns the start of each key among them.

    The upper bits of a half of the key share a word with the row number, which sorts ten times as fast as separate keys
    and rows. If two keys agree in those bits (once in some thousand runs of a bucket), whole keys are sorted.
    """
    num_rows = len(low)
    bits = np.uint64(num_rows.bit_length())
    packed = np.sort((low >> bits << bits) | np.arange(num_rows, dtype=np.uint64))
    order = (packed & ((np.uint64(1) << bits) - np.uint64(1))).astype(np.int64)
    is_new = differs(high[order], low[order])
    if (is_new[1:] & (np.diff(packed >> bits) == 0)).any():
        order = np.lexsort((low, high))
        is_new = differs(high[order], low[order])
    return order, np.flatnonzero(is_new)
