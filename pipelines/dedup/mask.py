"""Spreads a partition's list of duplicates over all of its sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pipelines.errors import StoreError

Row = tuple[str, int]
"""(doc_id, sentence_index)."""


class Decision(NamedTuple):
    """What deduplication decided about one sentence; the fields are those of the decisions table."""

    is_duplicate: bool
    duplicate_of: str | None
    occurrence: int


class DecisionColumns(NamedTuple):
    """`Decision`s of consecutive sentences, as columns of equal length."""

    is_duplicate: list[bool]
    duplicate_of: list[str | None]
    occurrence: list[int]


def decide_rows(
    batches: Iterable[Sequence[Row]], duplicates: Iterable[tuple[Row, Decision]]
) -> Iterator[DecisionColumns]:
    """One decision per sentence, in the order of the sentences; what is not listed is kept.

    Args:
        batches: every row of the partition, in batches.
        duplicates: the listed rows, in the same order.

    Yields:
        One set of columns per batch.

    Raises:
        StoreError: a listed row is no sentence of the partition, or comes out of order. Going on would train on
            a duplicate that should be masked.
    """
    listed = iter(duplicates)
    row, decision = next(listed, (None, None))
    for batch in batches:
        size = len(batch)
        columns = DecisionColumns([False] * size, [None] * size, [1] * size)
        for at, sentence in enumerate(batch):
            if decision is not None and sentence == row:
                columns.is_duplicate[at], columns.duplicate_of[at], columns.occurrence[at] = decision
                row, decision = next(listed, (None, None))
        yield columns
    if row is not None:
        raise StoreError(
            "the list of duplicates does not match the sentences of its partition; rerun with --force dedup"
        )
