"""The tables that pass between the steps of dedup: keys by bucket, and the duplicates of each bucket."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pipelines.tables import ROW, schema

KEYS: Final = replace(
    schema(
        "keys",
        f"prefix: uint16, row: uint64, {ROW}, key_high: uint64, key_low: uint64, in_scope: bool,"
        " text_key_high: uint64?, text_key_low: uint64?",
        hashes=("key_high", "key_low", "text_key_high", "text_key_low"),
        plain=("row",),
    ),
    version=2,  # 1 was in corpus order, and had neither prefix nor row
)
"""128-bit keys of the normalised sentences of a partition, sorted by prefix (`pipelines.dedup.hash_ranges`) and then by
row, which counts its sentences from 0. Keys of the text alone serve to look up another corpus. They are absent if no
other corpus is given."""

FOUND: Final = schema(
    "found",
    f"partition: uint32, row: uint64, {ROW}, duplicate_of: string?, occurrence: uint32",
    plain=("row", "duplicate_of"),
)
"""The masked rows of one bucket, sorted by partition, which counts from 0, and then by row."""
