"""Words of names and of text, compared without case, accents, joiners and variants of a character."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final, NamedTuple

_ALONE: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Scripts without spaces between words, or with endings behind names. Each of their characters is a word."""

_WORD: Final = re.compile(rf"[^\W_{_ALONE}]+|[{_ALONE}]")
_CAMEL: Final = re.compile(r"[^\W\d_][^\W\d_A-Z]*|\d+")
_ACCENTS: Final = frozenset({*range(10, 36), *range(200, 241)})
"""Combining classes of accents, and of vowel points that are often left out (Hebrew, Arabic). In other scripts a vowel
is a mark, too, and distinguishes words."""

_VARIANTS: Final = re.compile("[\ufe00-\ufe0f]")
_JOINERS: Final = "\u00ad\u200c\u200d\u2060"
"""Soft hyphen, the two joiners of letters, and the joiner of words."""

_STROKES: Final = str.maketrans(
    {"ı": "i", "ø": "o", "ł": "l", "đ": "d", "ħ": "h", "ŧ": "t", "æ": "ae", "œ": "oe", "ð": "d", "þ": "th"}
)
"""Letters that no normalisation takes apart."""


class Word(NamedTuple):
    """A word of a text.

    Attributes:
        key: form in which words are compared.
        start, end: half-open range of characters.
        is_alone: flag that it is one character of a script without spaces.
    """

    key: str
    start: int
    end: int
    is_alone: bool = False


def fold(text: str) -> str:
    """Returns the form in which words are compared. Upper and lower case have the same form."""
    if text.isascii():
        return text.lower()
    for _ in range(2):  # a compatibility form may bring back capitals, and case folding may bring back accents
        text = unicodedata.normalize("NFKD", text).casefold()
    text = _VARIANTS.sub("", unicodedata.normalize("NFKD", text))
    kept = "".join(c for c in text if unicodedata.combining(c) not in _ACCENTS and unicodedata.category(c)[0] != "C")
    return unicodedata.normalize("NFC", kept).translate(_STROKES)


def words_of(text: str) -> list[Word]:
    """Returns the words of a text, in order: runs of letters and digits, single signs of some scripts, and emoji.

    Accents and invisible joiners inside a run belong to it.
    """
    found: list[Word] = []
    if text.isascii():
        return [Word(match[0].lower(), *match.span()) for match in _WORD.finditer(text)]
    at = run_end = 0
    for match in _WORD.finditer(text):
        found += _symbols(text, at, match.start())
        start, at = match.span()
        if found and run_end < start and _is_joined(text, found[-1], run_end, match):
            start = found.pop().start
        run_end = at
        while at < len(text) and unicodedata.category(text[at])[0] == "M":
            at += 1  # an accent of its own
        found.append(Word(fold(text[start:at]), start, at, _is_alone(text[start])))
    found += _symbols(text, at, len(text))
    return [word for word in found if word.key]


def _is_joined(text: str, word: Word, end: int, match: re.Match[str]) -> bool:
    """Returns true if a run continues the word before it across characters that are not seen.

    Args:
        text: text of both.
        word: word before the run.
        end: end of the word's last run.
        match: the run.
    """
    between = text[end : match.start()]
    return (
        not word.is_alone
        and not _is_alone(match[0])
        and all(c in _JOINERS or unicodedata.category(c)[0] == "M" for c in between)
    )


def _is_alone(character: str) -> bool:
    return re.match(f"[{_ALONE}]", character) is not None


def _symbols(text: str, start: int, end: int) -> Iterator[Word]:
    for at in range(start, end):
        if unicodedata.category(text[at]) == "So":
            yield Word(fold(text[at]), at, at + 1)


def parts_of(word: str) -> list[str]:
    """Returns the parts of a word as it is written: its parts with a capital each, and those without digits."""
    return [match[0] for match in _CAMEL.finditer(word)]
