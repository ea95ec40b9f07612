"""Dates and numbers of everyday use that identify nobody: "2 pizzas", "on Tuesday", "45 minutes", "9 am to 5 pm".

Such a find consists of numbers of up to three digits, number words, units, days, times and words of grammar. It stays
a find if it touches letters or digits, or stands beside a name, as in an address, or is a part of a dictated number.
"""

from __future__ import annotations

import re
from typing import Final

from pipelines.policies.english.common_words import COMMON_WORDS, FUNCTION_WORDS, NUMBER_WORDS, UNITS
from pipelines.policies.english.name_lists import personal_names
from pipelines.policies.english.word_lists import word_lists
from pipelines.policies.protocol import PLACEHOLDER

_LISTS: Final = word_lists("ordinary")
_EVERYDAY: Final = FUNCTION_WORDS | UNITS | NUMBER_WORDS | _LISTS["measures"] | _LISTS["times"] | _LISTS["counts"]
_PIECE: Final = re.compile(
    r"(?<![\w.,:/-])(?:[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?|[0-9]{1,3}(?:\.[0-9]{1,4})?(?:st|nd|rd|th|s)?)"
    r"(?=[a-z°µ]{1,3}(?![\w./:])|[^\w./:]|\.?\Z)|[^\W\d_]+"
)
_MARKS: Final = re.compile(r"[\s$€£¥%°'’.,~<>+()–-]*")
_TOUCHES: Final = re.compile(r"[\w#@/+*_-]$|\d[ .,:]$")
_TOUCHED: Final = re.compile(r"[\w#@/:+*_]|[.,]\w|[ ]\d|-(?![a-z]{3})")
_LAST_WORD: Final = re.compile(r"([^\W\d_][\w'’-]*)(\.?)[ ]$")
_NEXT_WORD: Final = re.compile(r"[ ]([^\W\d_][\w'’-]*)")
_SENTENCE: Final = re.compile(r"(?:\A|[.!?:;\n(\"“][ ]?)\Z")


def is_everyday(find: str, before: str, after: str) -> bool:
    """Returns true if a find is a date or number of everyday use.

    Args:
        find: text of the find.
        before, after: text next to it.
    """
    pieces = _PIECE.findall(find)
    if not pieces or _MARKS.fullmatch(_PIECE.sub("", find)) is None:
        return False
    words = [piece for piece in pieces if piece[0].isalpha()]
    if not all(map(_is_everyday_word, words)):
        return False
    last, following = _LAST_WORD.search(before), _NEXT_WORD.match(after)
    row = (last[1] if last else "", *words, following[1] if following else "")
    digits = [word.lower() in _LISTS["digit_words"] for word in row]
    if any(first and second for first, second in zip(digits, digits[1:], strict=False)):
        return False  # dictated
    if len(words) == len(pieces):
        return True
    if _TOUCHES.search(before) or _TOUCHED.match(after):
        return False
    if following and find[-1].isdigit() and _may_be_name(following[1]):
        return False
    return last is None or not _may_be_name(last[1]) or _begins(last, before)


def _is_everyday_word(word: str) -> bool:
    lower = word.lower()
    return lower in _EVERYDAY or (word.islower() and lower in COMMON_WORDS and lower not in personal_names())


def _may_be_name(word: str) -> bool:
    """Returns true for a placeholder, and for a word with one capital that is no word of this module."""
    if word == PLACEHOLDER:
        return True
    return word.istitle() and word.lower() not in _EVERYDAY and word.lower() not in _LISTS["numbered"]


def _begins(word: re.Match[str], before: str) -> bool:
    """Returns true for a common word that begins a sentence: "Print 200"."""
    return not word[2] and word[1].lower() in COMMON_WORDS and _SENTENCE.search(before[: word.start()]) is not None
