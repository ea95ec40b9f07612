"""Reads the words of a text once, so that a pattern is tried only on a text with a word that every match needs.

Each word has a set of kinds, which is remembered. A text has the kinds of all its words. A kind is a necessary
condition of a pattern, in small letters. So it leaves out no find.

A word in Latin letters with accents has its own kinds and those that it has without accents, because some searches read
words without them. Patterns that ignore case take a few letters outside ASCII for ASCII ones, so a word with any other
character has all kinds. A text with a character that may stand inside a word without being seen (a soft hyphen, an
accent that stands alone) has all kinds.
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Final

_TOKEN: Final = re.compile(r"[^\W_]+")
_LATIN: Final = re.compile("[0-9A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u012f\u0132-\u017e\u0180-\u01c3\u01cd-\u024f]+")
"""Letters whose only other case is their own, also for patterns that ignore case, and digits."""

_SEPARATING: Final = re.compile(
    r"[\w\s\x00-\x7f\u00a1-\u00ac\u00ae-\u00bf\u00d7\u00f7\u2010-\u2027\u2030-\u205e\u20a0-\u20bf]*"
)
"""Text whose characters outside words are seen: marks, signs of currencies and spaces."""

_MAX_WORDS: Final = 65_536
EVERY: Final = -1
"""All kinds."""

_MANY: Final = 1 << 30

_kinds: list[tuple[int, Callable[[str], object]]] = []
_listed: dict[str, int] = {}
"""Kinds that are lists of words, by word."""

_numbers = itertools.count()
_known: dict[str, int] = {}


def kind(words: AbstractSet[str] | Callable[[str], object]) -> int:
    """Registers a kind of words.

    Args:
        words: runs of letters and digits in small letters. Or a function of such a run, whose answer is true if the run
            is of the kind.

    Returns:
        The flag of the kind, for `holds` and `count`.
    """
    flag = 1 << next(_numbers)
    if callable(words):
        _kinds.append((flag, words))
    else:
        for word in words:
            _listed[word] = _listed.get(word, 0) | flag
    _known.clear()
    _words_of.cache_clear()
    return flag


def kinds_of(text: str) -> int:
    """Returns the flags of all kinds of which a text may hold a word."""
    return _words_of(text)[0]


def holds(text: str, kind: int) -> bool:
    """Returns true if a text may hold a word of a kind, or of one of several kinds."""
    return kinds_of(text) & kind != 0


def may_hold_capital(text: str) -> bool:
    """Returns false if a text has no capital, and no letter outside ASCII."""
    return not text.isascii() or text != text.lower() or _words_of(text)[0] == EVERY


def count(text: str, kind: int) -> int:
    """Returns the number of words of a kind. It is very large if it is not known."""
    kinds, words = _words_of(text)
    if words is None:
        return _MANY
    return sum([of_word & kind != 0 for of_word in words]) if kinds & kind else 0


def holds_run(text: str, kind: int, length: int) -> bool:
    """Returns true if a text may hold so many words of a kind that follow each other."""
    _, words = _words_of(text)
    if words is None:
        return True
    return len(words) >= length and bytes(length) in bytes([of_word & kind == 0 for of_word in words])


@functools.lru_cache(maxsize=16)
def _words_of(text: str) -> tuple[int, list[int] | None]:
    """Returns the kinds of a text, and those of each word. None if its words are not known."""
    if not text.isascii() and _SEPARATING.fullmatch(text) is None:
        return EVERY, None
    words = [_known[word] if word in _known else _kinds_of(word) for word in _TOKEN.findall(text)]
    kinds = 0
    for of_word in words:
        kinds |= of_word
    return kinds, words


def _kinds_of(word: str) -> int:
    if len(_known) >= _MAX_WORDS:
        _known.clear()
    lower = word.lower()
    if word.isascii():
        kinds = _known[lower] if lower in _known else _kinds_of_form(lower)
    elif _LATIN.fullmatch(word) is not None:
        kinds = _kinds_of_form(lower) | _kinds_of_form(_without_accents(word))
    else:
        kinds = EVERY
    _known[word] = _known[lower] = kinds
    return kinds


def _kinds_of_form(lower: str) -> int:
    kinds = _listed.get(lower, 0)
    for flag, is_of_kind in _kinds:
        if is_of_kind(lower):
            kinds |= flag
    return kinds


def _without_accents(word: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFD", word.casefold()) if not unicodedata.combining(c))


NUMERIC: Final = kind(lambda word: any(map(str.isdigit, word)))
"""A digit, also among letters."""


def last_runs(entries: frozenset[str]) -> frozenset[str]:
    """Returns the last run of letters and digits of each entry of a list, in small letters."""
    return frozenset(runs[-1] for entry in entries if (runs := _TOKEN.findall(entry.lower())))


def longest_runs(entries: frozenset[str]) -> frozenset[str]:
    """Returns the longest run of letters and digits of each entry of a list, in small letters."""
    return frozenset(max(runs, key=len) for entry in entries if (runs := _TOKEN.findall(entry.lower())))
