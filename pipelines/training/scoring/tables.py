"""Tables of a finished model's scores and texts on held-out text. Private."""

from __future__ import annotations

from typing import Final

from pipelines.tables import ROW, schema

TOKEN_SCORES: Final = schema(
    "token_scores",
    f"{ROW}, token_starts: uint32[], token_ends: uint32[], token_words: int32[], token_bytes: uint32[], "
    "losses: double[], is_right: bool[], word_is_right: bool[], end_losses: double[], end_is_right: bool[]",
)
"""Of each token its characters, its word (-1: none), its loss, and whether the model ranks it first; of each word,
whether all of it (null: not asked); in a record's last row, what ends it."""

GENERATED: Final = schema("generated", "given: string, text: string, references: string[]")
"""What a model wrote for held-out inputs: what it read, what it wrote, and what people did. For such tasks only."""
