"""The tables of what a finished model says on held-out text. Private."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from pipelines.tables import ROW, schema

TOKEN_SCORES: Final = schema(
    "token_scores",
    *ROW,
    ("token_starts", pa.list_(pa.uint32())),
    ("token_ends", pa.list_(pa.uint32())),
    ("token_words", pa.list_(pa.int32())),
    ("token_bytes", pa.list_(pa.uint32())),
    ("losses", pa.list_(pa.float64())),
    ("is_right", pa.list_(pa.bool_())),
    ("word_is_right", pa.list_(pa.bool_())),
    ("end_losses", pa.list_(pa.float64())),
    ("end_is_right", pa.list_(pa.bool_())),
)
"""Of each token its characters, its word (-1: none), its loss, and whether the model ranks it first; of each word,
whether all of it (null: not asked); in a record's last row, what ends it."""

GENERATED: Final = schema(
    "generated",
    ("given", pa.string()),
    ("text", pa.string()),
    ("references", pa.list_(pa.string())),
)
"""What a model wrote for held-out inputs: what it read, what it wrote, and what people did. For such tasks only."""
