"""Finds dictated numbers and codes: "five five two oh one", "double seven three", "k x as in xray four", "Kilo two"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_TENS: Final = "twenty|thirty|forty|fourty|fifty|sixty|seventy|eighty|ninety"
_DIGIT: Final = "zero|oh|nought|nil|one|two|three|four|five|six|seven|eight|nine"
_TEEN: Final = "ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen"
_SPELLING: Final = (
    "alpha|alfa|bravo|charlie|delta|echo|foxtrot|golf|hotel|india|juliet|juliett|kilo|lima|mike|november|oscar|papa|quebec"
    "|romeo|sierra|tango|uniform|victor|whisky|whiskey|xray|x-ray|yankee|zulu"
)
_ITEM: Final = (
    rf"(?:{_SPELLING}|{_DIGIT}|{_TEEN}|{_TENS}|double|triple|hundred|thousand|dash|hyphen|underscore"
    r"|[a-z](?:\s+(?:as\s+in|like|for)\s+[a-z]+)?|\d)"
)
_RUN: Final = re.compile(rf"(?<![\w'’]){_ITEM}(?:[\s,.-]{{1,3}}{_ITEM}){{3,}}(?![\w'’])", re.I)
_PIECE: Final = re.compile(r"[^\W_]+")
_LETTER_WORDS: Final = frozenset(_SPELLING.split("|")) | {"ray"}
_GREEK: Final = frozenset({"alpha", "delta"})
_NUMBER: Final = frozenset(f"{_DIGIT}|{_TEEN}|{_TENS}".split("|"))
_PHONE_DIGITS: Final = 7
_WORDS: Final = _NUMBER | {"double", "triple", "hundred", "thousand", "dash", "hyphen", "underscore"}
MIN_ITEMS: Final = 4
"""The number of words in a run that satisfy `is_item`."""


def is_item(word: str) -> bool:
    """Returns true if a word in small letters may be dictated: a digit, a letter, a number, or a mark."""
    return len(word) == 1 or word in _WORDS or word in _LETTER_WORDS


def find_spoken_numbers(text: str) -> Iterator[tuple[int, int, str]]:
    """Yields runs of at least four digits or letters, said one by one. At least three are not "a", "i" or "o".

    Yields:
        The characters ``start, end``, and PHONE for seven digits or more, ORDER for fewer, TRACKING with letters.
    """
    for match in _RUN.finditer(text):
        pieces = [piece[0].lower() for piece in _PIECE.finditer(match[0])]
        num_digits = sum(piece in _NUMBER or piece.isdigit() for piece in pieces)
        spelled = _LETTER_WORDS if not _LETTER_WORDS.isdisjoint(set(pieces) - _GREEK) else frozenset()
        num_letters = sum(
            piece in spelled or (len(piece) == 1 and piece.isalpha() and piece not in "aio") for piece in pieces
        )
        if num_digits + num_letters < 3 or not any(piece.isalpha() for piece in pieces):
            continue
        label = "TRACKING" if num_letters else "PHONE" if num_digits >= _PHONE_DIGITS else "ORDER"
        yield match.start(), match.end(), label
