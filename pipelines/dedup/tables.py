"""The tables of the steps of dedup."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from pipelines.tables import ROW, schema

KEYS: Final = schema(
    "keys",
    *ROW,
    ("key_high", pa.uint64()),
    ("key_low", pa.uint64()),
    ("in_scope", pa.bool_()),
    # Keys of the text alone, to look up in another corpus; absent where none is given.
    ("text_key_high", pa.uint64(), True),
    ("text_key_low", pa.uint64(), True),
    hashes=("key_high", "key_low", "text_key_high", "text_key_low"),
)
"""128-bit keys of the normalised sentences, in corpus order."""

DUPLICATES: Final = schema(
    "duplicates",
    ("row", pa.uint64()),
    *ROW,
    ("duplicate_of", pa.string(), True),
    ("occurrence", pa.uint32()),
    plain=("row", "duplicate_of"),
)
"""The masked rows of one partition; ``row`` counts its sentences from 0."""

DECISIONS: Final = schema(
    "decisions",
    *ROW,
    ("is_duplicate", pa.bool_()),
    ("duplicate_of", pa.string(), True),
    ("occurrence", pa.uint32()),
    plain=("duplicate_of",),
)
MASKED: Final = schema("masked", *ROW, ("is_duplicate", pa.bool_()))
"""What redaction reads of the decisions, by itself: most changes of the corpus move only the numbers beside it."""
