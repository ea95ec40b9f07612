"""Finds as characters of a text, the finds of patterns, and merged ranges."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

Find = tuple[int, int, str]
"""Characters ``start, end`` and a label."""

Range = tuple[int, int]
"""A half-open range of characters."""


def find_all(text: str, label: str, *patterns: re.Pattern[str], group: int = 0) -> Iterator[Find]:
    """Yields the matches of patterns, one pattern after the other."""
    for pattern in patterns:
        for match in pattern.finditer(text):
            yield *match.span(group), label


def any_of(words: Iterable[str]) -> str:
    """Returns a pattern of any of these words, the longest first."""
    return "(?:" + "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True)) + ")"


def merge_ranges(ranges: Iterable[Range]) -> list[Range]:
    """Returns the union of ranges, sorted. Merges ranges that overlap or touch."""
    merged: list[Range] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
