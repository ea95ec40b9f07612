"""The tables of the gate. Private, all of them."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from pipelines.tables import schema

GATE_STRINGS: Final = schema("gate_strings", ("string", pa.string()), ("label", pa.string()), ("count", pa.uint64()))
"""The distinct strings that were masked in one partition, as they are compared."""

GATE_INDEX: Final = schema(
    "gate_index", ("string", pa.string()), ("label", pa.string()), ("is_part_of_public_word", pa.bool_())
)
"""What the gate searched for, for the stages that publish."""

GATE_HITS: Final = schema(
    "gate_hits",
    ("file", pa.string()),
    ("string", pa.string()),
    ("label", pa.string()),
    ("text", pa.string()),
    ("doc_id", pa.string(), True),
    ("sentence_index", pa.uint32(), True),
)
"""Where a masked string was about to be published; for people, in the folder of failures only."""
