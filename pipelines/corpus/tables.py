"""The tables of the split stage. A row of sentences (or dialogue turn) is "the original"."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from pipelines.tables import ROW, schema

SENTENCES: Final = schema(
    "sentences",
    *ROW,
    ("text", pa.string()),
    ("token_starts", pa.list_(pa.uint32())),
    ("token_ends", pa.list_(pa.uint32())),
    ("char_start", pa.uint32()),  # in the document's text
    ("is_overlong_piece", pa.bool_()),
    ("speaker", pa.string(), True),
    ("domain", pa.string(), True),
    ("fold", pa.string()),
    ("label", pa.string(), True),
)
DOCUMENTS: Final = schema(
    "documents",
    ("doc_id", pa.string()),
    ("source_file", pa.string()),
    ("source_row", pa.uint64()),
    ("source_id", pa.string(), True),
    ("num_sentences", pa.uint32()),
    ("num_tokens", pa.uint64()),
    ("num_chars", pa.uint64()),
    ("fold", pa.string()),
    ("has_gold", pa.bool_()),
)
"""Maps a doc_id back to where it came from. Private."""

REJECTED: Final = schema(
    "rejected",
    ("source_file", pa.string()),
    ("source_row", pa.uint64()),
    ("reason", pa.string()),
    ("detail", pa.string()),
    ("num_bytes", pa.uint64()),
)
"""What was not used, and why. Holds no text. Private, because file names are secrets."""

GOLD: Final = schema(
    "gold",
    *ROW,
    ("start", pa.uint32()),
    ("end", pa.uint32()),
    ("start_token", pa.uint32()),
    ("end_token", pa.uint32()),
    ("label", pa.string()),
    ("secret_id", pa.uint32()),
)
"""Gold secret spans mapped to sentences; only where the corpus brings them. Tokens half-open."""
