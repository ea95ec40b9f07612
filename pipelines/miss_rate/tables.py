"""The tables of the sample and of what is measured on it. Private."""

from __future__ import annotations

from typing import Final

from pipelines.tables import ROW, schema

SAMPLE: Final = schema("sample", f"{ROW}, partition: string, replicate: uint32, inclusion_probability: double")
"""Which sentences to review, one row per (replicate, sentence)."""

CHOSEN: Final = schema("chosen", ROW)
"""The sampled sentences of one partition, each once, in corpus order."""

STABILITY: Final = schema(
    "stability",
    f"{ROW}, start_token: uint32, end_token: uint32, is_stable: bool, is_stable_together: bool, reason: string",
)
"""Whether masking a caught secret by hand leaves all else as it was; tokens half-open."""
