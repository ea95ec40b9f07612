"""Schemas of the tables of the sample and of its measurements. Private."""

from __future__ import annotations

from typing import Final

from pipelines.tables import ROW, schema

SAMPLE: Final = schema("sample", f"{ROW}, partition: string, replicate: uint32, inclusion_probability: double")
"""Sentences to review, one row per (replicate, sentence)."""

CHOSEN: Final = schema("chosen", ROW)
"""Sampled sentences of one partition, each once, in corpus order."""

STABILITY: Final = schema(
    "stability",
    f"{ROW}, start_token: uint32, end_token: uint32, is_stable: bool, is_stable_together: bool, reason: string",
)
"""Verdicts: true if masking a caught secret by hand leaves all else unchanged; half-open token ranges."""
