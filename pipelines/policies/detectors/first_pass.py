"""Reads the words of a text once, so that a pattern is tried only on a text with a word that every match needs.

Each word has a set of kinds, which is remembered. A text has the kinds of all its words. A kind is a necessary
condition of a pattern, in small letters. So it leaves out no find. Patterns that ignore case take a few letters outside
ASCII for ASCII ones. So a text with other characters than ASCII has all kinds.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Final

_TOKEN: Final = re.compile(r"[^\W_]+")
_MAX_WORDS: Final = 65_536
EVERY: Final = -1
"""All kinds."""

_MANY: Final = 1 << 30

_kinds: list[Callable[[str], object]] = []
_known: dict[str, int] = {}


def kind(is_of_kind: Callable[[str], object]) -> int:
    """Registers a kind of words.

    Args:
        is_of_kind: function of a run of letters and digits in small letters. Its answer is true if the run is of it.

    Returns:
        The flag of the kind, for `holds` and `count`.
    """
    _kinds.append(is_of_kind)
    _known.clear()
    _words_of.cache_clear()
    return 1 << (len(_kinds) - 1)


def holds(text: str, kind: int) -> bool:
    """Returns true if a text may hold a word of a kind, or of one of several kinds."""
    return _words_of(text)[0] & kind != 0


def count(text: str, kind: int) -> int:
    """Returns the number of words of a kind. It is very large if it is not known."""
    kinds, words = _words_of(text)
    if kinds == EVERY:
        return _MANY
    return sum(of_word & kind != 0 for of_word in words) if kinds & kind else 0


@functools.lru_cache(maxsize=16)
def _words_of(text: str) -> tuple[int, list[int]]:
    """Returns the kinds of a text, and those of each word."""
    if not text.isascii():
        return EVERY, []
    words = []
    kinds = 0
    for word in _TOKEN.findall(text.lower()):
        of_word = _known.get(word)
        if of_word is None:
            if len(_known) >= _MAX_WORDS:
                _known.clear()
            of_word = sum(1 << number for number, is_of_kind in enumerate(_kinds) if is_of_kind(word))
            _known[word] = of_word
        kinds |= of_word
        words.append(of_word)
    return kinds, words


NUMERIC: Final = kind(lambda word: any(map(str.isdigit, word)))
"""A digit, also among letters."""


def last_runs(entries: frozenset[str]) -> frozenset[str]:
    """Returns the last run of letters and digits of each entry of a list, in small letters."""
    return frozenset(runs[-1] for entry in entries if (runs := _TOKEN.findall(entry.lower())))
