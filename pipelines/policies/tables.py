"""The table of the redact stage."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from pipelines.tables import ROW, schema

_SPAN = pa.struct(
    [
        pa.field("start_token", pa.uint32(), nullable=False),
        pa.field("end_token", pa.uint32(), nullable=False),
        pa.field("start", pa.uint32(), nullable=False),
        pa.field("end", pa.uint32(), nullable=False),
        pa.field("label", pa.string(), nullable=False),
        pa.field("policy", pa.string(), nullable=False),
        pa.field("score", pa.float32(), nullable=False),
    ]
)
REDACTED: Final = schema(
    "redacted",
    *ROW,
    ("redacted_text", pa.string()),
    ("spans", pa.list_(_SPAN)),
    ("flagged_by_conservative", pa.bool_()),
    ("num_tokens", pa.uint32()),
    ("num_masked_tokens", pa.uint32()),
    ("is_duplicate", pa.bool_()),
    ("failed_closed", pa.bool_()),
    ("speaker", pa.string(), True),
    ("domain", pa.string(), True),
    ("fold", pa.string()),
    ("label", pa.string(), True),
)
"""``redacted_text`` has one <MASK> per maximal run; the token counts are taken before collapsing."""
