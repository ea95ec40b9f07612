"""Finds as characters of a text, and the finds of patterns."""

from __future__ import annotations

import re
from collections.abc import Iterator

Find = tuple[int, int, str]
"""Characters ``start, end`` and a label."""


def find_all(text: str, label: str, *patterns: re.Pattern[str], group: int = 0) -> Iterator[Find]:
    """Yields the matches of patterns, one pattern after the other."""
    for pattern in patterns:
        for match in pattern.finditer(text):
            yield *match.span(group), label
