"""Reads text as it looks: one kind of space and digit, and nothing between the digits of a number that is not seen."""

from __future__ import annotations

import functools
import html
import re
import unicodedata
from collections.abc import Iterator
from typing import Final

from pipelines.policies.detectors.finds import Find

_ENTITY: Final = re.compile(
    r"&(?:nbsp|[a-z](?:uml|acute|grave|circ|tilde|cedil|ring|slash|caron|ogon)|szlig|[ao]elig|eth|thorn"
    r"|#1[6-9]\d|#[2-7]\d\d|#x[a-f\d]{2}|#x[12][a-f\d]{2});",
    re.I,
)
"""A space, or a letter with an accent, in HTML."""

_ENCODED: Final = re.compile(r"=\?[\w-]{1,20}(?:\*[\w-]{1,10})?\?[QBqb]\?([^?\s]{1,300})\?=")
_MAX_LINE: Final = 1000
_UNSEEN: Final = frozenset({"Cf", "Mn", "Me"})
_DASHES: Final = frozenset("‐‑‒–—−﹣－")


def as_it_looks(text: str) -> tuple[str, list[int]] | None:
    """Returns the text with plain digits, spaces and marks, and where each of its characters stands in the original.

    Invisible characters are missing, and so are accents that stand alone.

    Returns:
        The text and its offsets, with one more for the end. None if the text looks the same.
    """
    if "&" not in text and (text.isascii() or all(_plain(character) == character for character in set(text))):
        return None
    characters: list[str] = []
    offsets: list[int] = []
    at = 0
    while at < len(text):
        entity = _ENTITY.match(text, at) if text[at] == "&" else None
        character = _plain(text[at] if entity is None else html.unescape(entity[0])[0])
        if character:
            characters.append(character)
            offsets.append(at)
        at = entity.end() if entity is not None else at + 1
    plain = "".join(characters)
    return None if plain == text else (plain, [*offsets, len(text)])


def in_original(finds: list[Find], offsets: list[int]) -> list[Find]:
    """Returns finds with offsets into the original text. Characters that are not seen belong to what is before them."""
    return [(offsets[start], offsets[end], label) for start, end, label in finds]


def find_encoded(text: str) -> Iterator[Find]:
    """Yields the names that headers of mail hold in encoded words (RFC 2047). The subject of a mail holds none."""
    for match in _ENCODED.finditer(text):
        line = text.rfind("\n", max(0, match.start() - _MAX_LINE), match.start()) + 1
        if not text.startswith(("Subject:", "subject:", "SUBJECT:"), line):
            yield match.start(1), match.end(1), "PERSON"


@functools.lru_cache(maxsize=4096)
def _plain(character: str) -> str:
    if character.isascii():
        return character
    category = unicodedata.category(character)
    if category in _UNSEEN:
        return ""
    if category == "Zs":
        return " "
    if category == "Nd":
        return str(unicodedata.decimal(character))
    if character in _DASHES:
        return "-"
    plain = unicodedata.normalize("NFKC", character)
    return plain if len(plain) == 1 and plain.isascii() else character
