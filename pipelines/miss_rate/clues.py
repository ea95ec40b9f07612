"""Clues: what a text shows of a person, in one form for documents and for cells of a table.

Words are in small letters and without accents. A date is one clue in whatever form it is written. Long numbers are
compared by their last nine digits, so that a phone number matches with and without its prefix.
"""

from __future__ import annotations

import datetime
import re
import unicodedata
from typing import Final

IDENTIFIER: Final = "#"
"""First character of the clue of a long number, a code or a mail address. Chance does not put one into a text."""

_DIGITS: Final = 9
_MASK: Final = re.compile(r"<[A-Z][A-Z0-9_]*>")
_MAIL: Final = re.compile(r"[^\s@<>\"',;:()]{1,64}@[^\s@<>\"',;:()]{1,255}")
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH: Final = rf"({'|'.join(_MONTHS)})[a-z]{{0,6}}\.?"
_DATES: Final = tuple(
    (re.compile(pattern), order)
    for pattern, order in (
        (r"\b(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})\b", ("ymd",)),
        (r"\b(\d{1,2})[-/.](\d{1,2})[-/.](\d{4})\b", ("dmy", "mdy")),
        (rf"\b(\d{{1,2}})(?:st|nd|rd|th)?(?: of)?[ -]{_MONTH},?[ -](\d{{4}})\b", ("dmy",)),
        (rf"\b{_MONTH} (\d{{1,2}})(?:st|nd|rd|th)?,? (\d{{4}})\b", ("mdy",)),
    )
)
_NUMBER: Final = re.compile(r"\d(?:[ ().\-/]{0,2}\d){5,40}")
_CODE: Final = re.compile(r"\b(?=\w{0,40}\d)(?=\w{0,40}[a-z])\w{5,40}\b")
_DIGIT: Final = re.compile(r"\d")
_WORD: Final = re.compile(r"[^\W_]+")


def clues_of(text: str) -> set[str]:
    """Returns the clues in a text. Masks are none."""
    plain = _MASK.sub(" ", text)
    if not plain.isascii():
        plain = "".join(c for c in unicodedata.normalize("NFKD", plain) if not unicodedata.combining(c))
    plain = plain.casefold()
    found: set[str] = set()
    if _DIGIT.search(plain):
        for pattern, orders in _DATES:
            for match in pattern.finditer(plain):
                found |= {date for order in orders if (date := _date(match.groups(), order))}
            plain = pattern.sub(" ", plain)
        for match in _NUMBER.finditer(plain):
            found.add(IDENTIFIER + "".join(filter(str.isdigit, match.group()))[-_DIGITS:])
        plain = _NUMBER.sub(" ", plain)
        found |= {IDENTIFIER + match.group() for match in _CODE.finditer(plain)}
    if "@" in plain:
        found |= {IDENTIFIER + match.group().strip(".") for match in _MAIL.finditer(plain)}
    return found | {word for word in _WORD.findall(plain) if len(word) > 1}


def _date(parts: tuple[str, ...], order: str) -> str | None:
    named = dict(zip(order, parts, strict=True))
    month = _MONTHS.index(named["m"]) + 1 if named["m"] in _MONTHS else int(named["m"])
    try:
        return f"={datetime.date(int(named['y']), month, int(named['d'])).isoformat()}"
    except ValueError:
        return None
