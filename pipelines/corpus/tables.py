"""The tables of the split stage. A row of the table ``sentences`` (a sentence or a turn) is "the original"."""

from __future__ import annotations

from typing import Final

from pipelines.tables import ROW, schema

SENTENCES: Final = schema(
    "sentences",
    f"{ROW}, text: string, token_starts: uint32[], token_ends: uint32[], char_start: uint32, is_overlong_piece: bool, "
    "speaker: string?, domain: string?, fold: string, label: string?",
)
"""Sentences and turns. ``char_start`` is the offset in the document's text."""

DOCUMENTS: Final = schema(
    "documents",
    "doc_id: string, source_file: string, source_row: uint64, source_id: string?, num_sentences: uint32, "
    "num_tokens: uint64, num_chars: uint64, fold: string, has_gold: bool",
    optional="owner: string",
)
"""Map from a doc_id to its file and row. Private. With ``corpus.owner_from``, the pseudonym of its owner as well."""

SPEAKERS: Final = schema("speakers", "doc_id: string, tag: string?, name: string")
"""Names of speakers by document, with the tag that replaces them (``SPEAKER_1``). Private. A name without a tag begins
lines of the text, in a form that the split stage takes for no tag."""

REJECTED: Final = schema(
    "rejected", "source_file: string, source_row: uint64, reason: string, detail: string, num_bytes: uint64"
)
"""Rows that were not used, with reasons and without text. Private, because file names are secrets."""

GOLD: Final = schema(
    "gold",
    f"{ROW}, start: uint32, end: uint32, start_token: uint32, end_token: uint32, label: string, secret_id: uint32",
)
"""Gold spans of secrets mapped to sentences, if the corpus has them. Token ranges are half-open."""
