"""Candidates for duplicates on disk, in parts by their key, and the exact decision about each part.

What holds the keys of one range of hashes (`pipelines.dedup.hash_ranges`) is a bucket too; these are buckets of such a
bucket, one of which fits in memory.
"""

from __future__ import annotations

from contextlib import ExitStack
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
    """Files of candidates, by bucket of the key. Rows of one bucket stay in the order in which they came."""

    def __init__(self, scratch: Target, num_buckets: int, stack: ExitStack) -> None:
        self._pending: list[pa.RecordBatch] = []
        self._num_pending = 0
        self._writers = [open_writer(scratch.blob(f"bucket-{n}"), CANDIDATES, stack) for n in range(num_buckets)]

    def add(self, batch: pa.RecordBatch) -> None:
        """Takes the next candidates."""
        self._pending.append(batch)
        self._num_pending += len(batch)
        if self._num_pending >= _BUFFERED_ROWS:
            self.flush()

    def flush(self) -> None:
        """Writes what waits."""
        table = pa.Table.from_batches(self._pending, schema=CANDIDATES).combine_chunks()
        buckets = (table["low"].to_numpy() % np.uint64(len(self._writers))).astype(np.uint8)
        table = table.take(np.argsort(buckets, kind="stable"))  # bytes are sorted by their value, not by comparing
        edges = np.cumsum([0, *np.bincount(buckets, minlength=len(self._writers))]).tolist()
        for n, writer in enumerate(self._writers):
            if edges[n] < edges[n + 1]:
                writer.write_table(table.slice(edges[n], edges[n + 1] - edges[n]))
        self._pending, self._num_pending = [], 0


def open_writer(path: Path, schema: pa.Schema, stack: ExitStack) -> pa.ipc.RecordBatchStreamWriter:
    """A file of record batches, closed with the stack."""
    file = stack.enter_context(arrow_file(path, "wb"))
    return stack.enter_context(pa.ipc.new_stream(file, schema))


def decide(source: Path, target: Path, mode: Mode, num_buckets: int) -> int:
    """Writes the duplicates among the candidates of one bucket, as they came, and removes the bucket.

    Args:
        source: the bucket.
        target: its duplicates.
        mode: as for `pipelines.dedup.resolve.resolve`.
        num_buckets: of which all are read at once afterwards.

    Returns:
        How many candidates repeat an earlier key.
    """
    with arrow_file(source, "rb") as file, pa.ipc.open_stream(file) as reader:
        table = reader.read_all().combine_chunks()
    source.unlink()
    order, starts = _groups(table["high"].to_numpy(), table["low"].to_numpy())
    lengths = np.diff(starts, append=len(order))
    group = np.repeat(np.arange(len(starts)), lengths)
    occurrence = np.arange(len(order)) - starts[group] + 1
    is_masked = occurrence > 1 if mode == "mask_later" else lengths[group] > 1
    at = np.flatnonzero(is_masked)
    at = at[np.argsort(order[at])]  # as they came
    masked, firsts = table.take(order[at]), table.take(order[starts[group[at]]])
    names = pc.binary_join_element_wise(firsts["doc_id"], firsts["sentence_index"].cast(pa.string()), ":")
    columns = [
        masked["partition"],
        masked["row"],
        masked["doc_id"],
        masked["sentence_index"],
        pc.if_else(pa.array(occurrence[at] > 1), names, pa.scalar(None, pa.string())),
        pa.array(occurrence[at], type=pa.uint32()),
    ]
    with ExitStack() as stack:
        found = pa.Table.from_arrays(columns, schema=FOUND.columns)
        # All buckets are merged at once, one batch of each in memory.
        open_writer(target, FOUND.columns, stack).write_table(
            found, max_chunksize=max(256, _MERGED_ROWS // num_buckets)
        )
    return len(order) - len(starts)


def _groups(high: UInt64Array, low: UInt64Array) -> tuple[Int64Array, Int64Array]:
    """Rows by key, those of equal keys in the order in which they come, and where each key starts among them.

    The upper bits of a half of the key share a word with the row, which sorts ten times as fast as keys and rows
    apart. Where two keys agree in those bits, which a bucket sees once in some thousand runs, whole keys are sorted.
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
