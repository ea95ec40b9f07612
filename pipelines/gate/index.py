"""What the gate searched for, kept for the stages that publish: written once, and asked of each of their folders."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from typing import Any, Final

from pipelines.gate import masked_strings
from pipelines.gate.hash_filter import HashedStrings, key_of
from pipelines.gate.strings import StringIndex
from pipelines.tables import Table, TableWriter

_KEPT: Final = 8
"""Groups of hashes that a process keeps while it publishes: 400 million strings, in 3.2 GB."""


def write_index(
    writer: TableWriter,
    chunks: Iterable[masked_strings.Chunk],
    parts: Set[str] = frozenset(),
    dismissed: Set[str] = frozenset(),
) -> int:
    """Writes what was searched for. Returns the number of strings.

    Args:
        writer: writer of the table ``gate_index``.
        chunks: strings with their labels, no string twice.
        parts: those of them, and others, that are a part of some public word.
        dismissed: those of them that are no secrets, and left out.
    """
    for strings in chunks:
        for string in sorted(strings.keys() - dismissed):
            writer.append(string=string, label=strings[string], is_part_of_public_word=string in parts)
    return writer.num_rows


def indexes_to_search(
    table: Table, texts: Callable[[], Iterable[Sequence[str]]]
) -> Iterator[tuple[StringIndex, set[str]]]:
    """Yields at least one index; together they hold every string of the table that stands in some texts.

    Args:
        table: table that `write_index` filled.
        texts: function that gives the texts, anew each time, as the words of `pipelines.gate.strings.words_of`.

    Yields:
        An index, and those of its strings that are a part of some public word.
    """
    if table.num_rows <= masked_strings.CHUNK_STRINGS:
        yield _only_index(table, table.path.stat().st_mtime_ns)
        return
    named = set[str]()
    for hashed in _hashed_strings(table):
        named |= hashed.named_in(texts())
    rows = table.rows() if named else ()
    yield _index_of([row for row in rows if row["string"] in named or key_of(row["string"]) in named])


@functools.lru_cache(maxsize=1)
def _only_index(table: Table, mtime_ns: int) -> tuple[StringIndex, set[str]]:
    """Partitions are published one after the other by the same process."""
    return _index_of(list(table.rows()))


def _index_of(rows: list[dict[str, Any]]) -> tuple[StringIndex, set[str]]:
    index = StringIndex({row["string"]: row["label"] for row in rows})
    return index, {row["string"] for row in rows if row["is_part_of_public_word"]}


def _hashed_strings(table: Table) -> Iterable[HashedStrings]:
    if table.num_rows > _KEPT * masked_strings.HASHED_STRINGS:
        return _groups_of(table)
    return _kept_groups(table, table.path.stat().st_mtime_ns)


@functools.lru_cache(maxsize=1)
def _kept_groups(table: Table, mtime_ns: int) -> tuple[HashedStrings, ...]:
    """To read the strings anew for each partition would take the square of the time."""
    return tuple(_groups_of(table))


def _groups_of(table: Table) -> Iterator[HashedStrings]:
    strings = (string for batch in table.batches(("string",)) for string in batch.column(0).to_pylist())
    return map(HashedStrings, masked_strings.groups_of(strings, masked_strings.HASHED_STRINGS))
