"""The table of the redact stage."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from pipelines.tables import ROW, fields, schema

_SPAN = (
    "start_token: uint32, end_token: uint32, start: uint32, end: uint32, label: string, policy: string, score: float"
)
REDACTED: Final = schema(
    "redacted",
    f"{ROW}, redacted_text: string, spans: span[], flagged_by_conservative: bool, num_tokens: uint32, "
    "num_masked_tokens: uint32, is_duplicate: bool, failed_closed: bool, speaker: string?, domain: string?, "
    "fold: string, label: string?",
    span=pa.struct(fields(_SPAN)),
)
"""``redacted_text`` has one <MASK> (label, surrogate) per maximal run. Token counts are taken before collapsing."""

SURROGATES: Final = schema("surrogates", f"{ROW}, surrogate: string, original: string, label: string")
"""The original text of surrogates, in the row's order. Written only if ``redact.replacement`` is ``surrogate``."""
