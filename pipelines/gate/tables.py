"""The tables of the gate. Private, all of them."""

from __future__ import annotations

from typing import Final

from pipelines.tables import ROW, schema

GATE_STRINGS: Final = schema("gate_strings", "string: string, label: string, count: uint64")
"""The distinct strings that were masked in one partition, as they are compared."""

GATE_PLACES: Final = schema("gate_places", f"string: string, {ROW}")
"""The first row of a partition in which each of them was masked."""

GATE_INDEX: Final = schema("gate_index", "string: string, label: string, is_part_of_public_word: bool")
"""What the gate searched for, for the stages that publish."""

GATE_HITS: Final = schema(
    "gate_hits",
    "file: string, string: string, label: string, text: string, doc_id: string?, sentence_index: uint32?, "
    "masked_doc_id: string?, masked_sentence_index: uint32?",
)
"""Which masked string stands unmasked where, and the first row where it is masked. For people."""
