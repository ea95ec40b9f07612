"""The formats of pages and office documents."""

from __future__ import annotations

from typing import Final

from pipelines.corpus.format_spec import FormatSpec

FORMATS_OF_PAGES: Final[tuple[FormatSpec, ...]] = ()
