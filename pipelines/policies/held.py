"""Rows that the gate holds back because they would publish a string that is masked in other rows.

A held row moves to the private side, with the string masked, because methods that read redacted text without noise must
not read it either.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from pipelines.mask import MASK
from pipelines.policies.redact import replace_ranges
from pipelines.tables import ROW, Table, fields, schema

HELD: Final = schema("held", f"{ROW}, ranges: range[]", range=pa.struct(fields("start: uint32, end: uint32")))
"""Rows of the training fold that would be public and hold a string that is masked elsewhere. The ranges are half-open,
and give the characters of that string without overlaps. A table covers one partition or all."""

Place = tuple[str, int]
"""``doc_id`` and ``sentence_index``."""
Range = tuple[int, int]
"""A half-open range of characters."""


def masked_text(text: str, ranges: Iterable[Range]) -> str:
    """Returns the text with a mask in place of each range. The ranges are in order and do not overlap."""
    return replace_ranges(text, ((start, end, MASK) for start, end in ranges))


def held_rows(tables: Iterable[Table]) -> dict[Place, list[Range]]:
    """Returns the rows of tables `HELD`, with their ranges."""
    return {
        (row["doc_id"], row["sentence_index"]): [(pair["start"], pair["end"]) for pair in row["ranges"]]
        for table in tables
        for row in table.rows()
    }


def table_of_held(rows: Mapping[Place, Sequence[Range]]) -> Iterator[dict[str, Any]]:
    """Yields the rows of a table `HELD`. This is the inverse of `held_rows`."""
    for (doc_id, sentence_index), ranges in rows.items():
        pairs = [{"start": start, "end": end} for start, end in ranges]
        yield dict(zip(HELD.names, (doc_id, sentence_index, pairs), strict=True))


def digest_of_held(rows: Mapping[Place, Sequence[Range]]) -> str:
    """Returns a digest that identifies the held rows of a partition. It is private."""
    return hashlib.sha256(json.dumps([[*place, *ranges] for place, ranges in rows.items()]).encode()).hexdigest()
