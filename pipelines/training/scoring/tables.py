"""Tables of a finished model's scores and texts on held-out text. Private."""

from __future__ import annotations

from typing import Final

from pipelines.tables import ROW, schema

TOKEN_SCORES: Final = schema(
    "token_scores",
    f"{ROW}, token_starts: uint32[], token_ends: uint32[], token_words: int32[], token_bytes: uint32[], "
    "losses: double[], is_right: bool[], word_is_right: bool[], end_losses: double[], end_is_right: bool[]",
)
"""Scores of tokens: characters, word (-1: none), loss, and true if the model ranks the token first. For each word: true
if all its tokens are ranked first (null: not a target). The last row of a record has the scores of its end."""

GENERATED: Final = schema("generated", "given: string, text: string, references: string[]")
"""Generated texts: inputs of the model, its texts, and references of people. For tasks that generate text."""
