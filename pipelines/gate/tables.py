"""The tables of the gate. Private, all of them."""

from __future__ import annotations

from typing import Final

from pipelines.tables import schema

GATE_STRINGS: Final = schema("gate_strings", "string: string, label: string, count: uint64")
"""The distinct strings that were masked in one partition, as they are compared."""

GATE_INDEX: Final = schema("gate_index", "string: string, label: string, is_part_of_public_word: bool")
"""What the gate searched for, for the stages that publish."""

GATE_HITS: Final = schema(
    "gate_hits", "file: string, string: string, label: string, text: string, doc_id: string?, sentence_index: uint32?"
)
"""Where a masked string was about to be published; for people, in the folder of failures only."""
