"""The tables of the steps of dedup."""

from __future__ import annotations

from typing import Final

from pipelines.tables import ROW, schema

KEYS: Final = schema(
    "keys",
    f"{ROW}, key_high: uint64, key_low: uint64, in_scope: bool, text_key_high: uint64?, text_key_low: uint64?",
    hashes=("key_high", "key_low", "text_key_high", "text_key_low"),
)
"""128-bit keys of the normalised sentences, in corpus order. Keys of the text alone are for looking up in another
corpus, and absent where none is given."""

DUPLICATES: Final = schema(
    "duplicates", f"row: uint64, {ROW}, duplicate_of: string?, occurrence: uint32", plain=("row", "duplicate_of")
)
"""The masked rows of one partition; ``row`` counts its sentences from 0."""

DECISIONS: Final = schema(
    "decisions", f"{ROW}, is_duplicate: bool, duplicate_of: string?, occurrence: uint32", plain=("duplicate_of",)
)
MASKED: Final = schema("masked", f"{ROW}, is_duplicate: bool")
"""What redaction reads of the decisions, by itself: most changes of the corpus move only the numbers beside it."""
