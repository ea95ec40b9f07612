"""The tables of the split stage. A row of sentences (or dialogue turn) is "the original"."""

from __future__ import annotations

from typing import Final

from pipelines.tables import ROW, schema

SENTENCES: Final = schema(
    "sentences",
    f"{ROW}, text: string, token_starts: uint32[], token_ends: uint32[], char_start: uint32, is_overlong_piece: bool, "
    "speaker: string?, domain: string?, fold: string, label: string?",
)
"""``char_start`` is the offset in the document's text."""

DOCUMENTS: Final = schema(
    "documents",
    "doc_id: string, source_file: string, source_row: uint64, source_id: string?, num_sentences: uint32, "
    "num_tokens: uint64, num_chars: uint64, fold: string, has_gold: bool",
)
"""Maps a doc_id back to where it came from. Private."""

REJECTED: Final = schema(
    "rejected", "source_file: string, source_row: uint64, reason: string, detail: string, num_bytes: uint64"
)
"""What was not used, and why. Holds no text. Private, because file names are secrets."""

GOLD: Final = schema(
    "gold",
    f"{ROW}, start: uint32, end: uint32, start_token: uint32, end_token: uint32, label: string, secret_id: uint32",
)
"""Gold secret spans mapped to sentences; only where the corpus brings them. Tokens half-open."""
