"""The tables of the sample and of what is measured on it. Private."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from pipelines.tables import ROW, schema

SAMPLE: Final = schema(
    "sample",
    *ROW,
    ("partition", pa.string()),
    ("replicate", pa.uint32()),
    ("inclusion_probability", pa.float64()),
)
"""Which sentences to review, one row per (replicate, sentence)."""

CHOSEN: Final = schema("chosen", *ROW)
"""The sampled sentences of one partition, each once, in corpus order."""

STABILITY: Final = schema(
    "stability",
    *ROW,
    ("start_token", pa.uint32()),
    ("end_token", pa.uint32()),
    ("is_stable", pa.bool_()),
    ("is_stable_together", pa.bool_()),
    ("reason", pa.string()),
)
"""Whether masking a caught secret by hand leaves all else as it was; tokens half-open."""
