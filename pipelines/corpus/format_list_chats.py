"""The formats of chats, tickets and call transcripts."""

from __future__ import annotations

from typing import Final

from pipelines.corpus.format_spec import FormatSpec

FORMATS_OF_CHATS: Final[tuple[FormatSpec, ...]] = ()
