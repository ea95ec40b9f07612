"""Spreads a partition's list of duplicates over all of its sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.errors import StoreError


class DecisionColumns(NamedTuple):
    """The decisions about consecutive sentences, as columns of the decisions table, of equal length."""

    is_duplicate: npt.NDArray[np.bool_]
    duplicate_of: pa.Array
    occurrence: npt.NDArray[np.uint32]


def decide_rows(batches: Iterable[pa.RecordBatch], duplicates: pa.Table) -> Iterator[DecisionColumns]:
    """Yields one decision per sentence, in the order of the sentences. A sentence that is not listed is kept.

    Args:
        batches: columns ``doc_id`` and ``sentence_index`` of every sentence of the partition, in batches
        duplicates: table ``duplicates`` of the partition

    Yields:
        A set of columns per batch.

    Raises:
        StoreError: a listed row is out of order, or does not match a sentence of the partition. Continuing would train
            on a duplicate that should be masked.
    """
    listed = duplicates["row"].to_numpy().astype(np.int64)
    if (np.diff(listed) <= 0).any():
        raise _mismatch()
    at = taken = 0
    for batch in batches:
        end = at + batch.num_rows
        until = int(np.searchsorted(listed, end))
        rows = listed[taken:until] - at
        part = duplicates.slice(taken, until - taken).combine_chunks()
        for name in ("doc_id", "sentence_index"):
            if not batch.column(name).take(rows).equals(_one_chunk(part[name])):
                raise _mismatch()
        is_duplicate = np.zeros(batch.num_rows, dtype=np.bool_)
        is_duplicate[rows] = True
        source = np.zeros(batch.num_rows, dtype=np.int64)
        source[rows] = np.arange(len(rows))
        occurrence = np.ones(batch.num_rows, dtype=np.uint32)
        occurrence[rows] = part["occurrence"].to_numpy()
        duplicate_of = _one_chunk(part["duplicate_of"]).take(pa.array(source, mask=~is_duplicate))
        yield DecisionColumns(is_duplicate, duplicate_of, occurrence)
        at, taken = end, until
    if taken < len(listed):
        raise _mismatch()


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _mismatch() -> StoreError:
    return StoreError("the list of duplicates does not match the sentences of its partition; rerun with --force dedup")
