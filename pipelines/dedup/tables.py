"""The tables of dedup that redaction reads, and the list that they are made from."""

from __future__ import annotations

from typing import Final

from pipelines.tables import ROW, schema

DUPLICATES: Final = schema(
    "duplicates", f"row: uint64, {ROW}, duplicate_of: string?, occurrence: uint32", plain=("row", "duplicate_of")
)
"""The masked rows of one partition. ``row`` counts its sentences from 0."""

DECISIONS: Final = schema(
    "decisions", f"{ROW}, is_duplicate: bool, duplicate_of: string?, occurrence: uint32", plain=("duplicate_of",)
)
MASKED: Final = schema("masked", f"{ROW}, is_duplicate: bool")
"""The part of the decisions that redaction reads. Most changes of the corpus change only the other columns."""
