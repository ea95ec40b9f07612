"""The table of synthetic text."""

from __future__ import annotations

from typing import Final

from pipelines.tables import schema

SYNTHETIC: Final = schema(
    "synthetic", "record: uint32, turn: uint32, domain: string?, speaker: string?, text: string, num_tokens: uint32"
)
"""A row a turn. Nothing in it identifies a row of the corpus: records are numbered in the order of the plan."""
