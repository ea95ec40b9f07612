"""Dates and numbers of everyday use that identify nobody: "2 pizzas", "on Tuesday", "45 minutes", "9 am to 5 pm".

Such a find consists of numbers of up to three digits, number words, units, days, times and words of grammar. It stays
a find if it touches letters or digits, or stands beside a name, as in an address, or is a part of a dictated number.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from pipelines.policies.english.common_words import COMMON_WORDS, FUNCTION_WORDS, NUMBER_WORDS, UNITS
from pipelines.policies.english.word_lists import word_lists
from pipelines.policies.protocol import PLACEHOLDER

_LISTS: Final = word_lists("ordinary")
_DICTIONARY: Final = frozenset(word for word in word_lists("ordinary_words")["words"] if len(word) > 3)
_EVERYDAY: Final = FUNCTION_WORDS | UNITS | NUMBER_WORDS | _LISTS["measures"] | _LISTS["times"] | _LISTS["counts"]
_NAMES_TOO: Final = word_lists("places")["word_names"]
_MONTH: Final = re.compile(
    r"(?:(?:early|late|mid|next|last|this)[ -])?"
    r"(?:january|february|march|april|may|june|july|august|september|october|november|december)",
    re.I,
)
_CAPITAL_NEXT: Final = re.compile(r",? [A-Z]")
_BEFORE_MONTH: Final = re.compile(
    r"(?<!\w)(?:in|by|since|until|till|during|before|after|from|to|for|and|or|between|through|early|late|mid|last"
    r"|next|this)[ -]$",
    re.I,
)
_PIECE: Final = re.compile(
    r"(?<![\w.,:/-])(?:[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?"
    r"|[0-9]{1,3}(?:\.[0-9]{1,4})?(?:[-–][0-9]{1,3}(?:\.[0-9]{1,2})?)?(?:st|nd|rd|th|s)?)"
    r"(?=[a-z°µ]{1,3}(?![\w./:])|[^\w./:]|\.?\Z)|[^\W\d_]+"
)
_DOTTED: Final = re.compile(r"(?<![^\W\d_])([ap])\.m(?:\.|(?!\w))", re.I)
_MARKS: Final = re.compile(r"[\s$€£¥%°'’.,~<>+()–-]*")
_TOUCHES: Final = re.compile(r"[\w#@/+*_'’-]$|\d[ .,:]$")
_TOUCHING: Final = 5
"""Characters before a find that the pattern above and that of a model read."""

_TOUCHED: Final = re.compile(
    r"[\w#@/+*_]|[.,:]\w|[ ]\d|-(?![a-z]{3})|[°'’\"]{1,2}\d|\) ?\w{0,4}\d"
    r"|,? (?:[^\W\d_]{2,20}[ ,]{1,2}){1,4}\d{5}(?!\d)"
    rf"| (?:to|from) {PLACEHOLDER}(?!\w)"
)
"""What stands behind a part of a code, a place on a map, a telephone number, or an address with a code of five."""

_ANSWER: Final = re.compile(r"(?: ?[^\W\d_]{1,8}){0,2}\W*\Z")
_CODE: Final = re.compile(r"\s*(?:[^\W\d_]{1,2}|\d{1,4})(?: (?:[^\W\d_]{1,2}|\d{1,4})){2,9}\W*\Z")
_CONTRACT: Final = re.compile(
    r" ?(?:[gmt]b )?(?:data |mobile |phone |internet )?(?:plans?|packages?|tariffs?|contracts?|bundles?)(?!\w)"
    r"| ?[gmt]b is enough",
    re.I,
)
_CHOSEN: Final = re.compile(
    r"(?<!\w)(?:go(?:ing)? with|sign(?:ed|ing)? up for|opt(?:ed)? for|subscribed? to) (?:the |a )?$", re.I
)
_APPOINTMENT: Final = re.compile(
    r"(?<!\w)(?:meet (?:me|us|him|her|them)|pick (?:me|us|him|her|them) up|flight|landing|arriving|arrives|appointment"
    r"|appt)(?!\w)[^.!?;]{0,36}(?:at|around|about|for) $|(?:th|st|nd|rd|\w*John), $",
    re.I,
)
"""Words before the time of somebody's appointment, and a date before a time."""

_BEFORE_TIMES: Final = ("at ", "around ", "about ", "for ", ", ")
"""The ends of the matches of the pattern above."""


_MODEL: Final = re.compile(r"(?<=\w )(?:[A-HJ-Z]|[b-hj-wyz]) $")
"""A letter before the number of a model: "A 24", "q 5"."""

_REST_OF_DATE: Final = re.compile(r"(?: of)? \d{4}(?!\d)| the (?:\d|\w+(?:th|first|second|third)(?!\w))", re.I)
_WORD: Final = re.compile(r"[^\W\d_]+")
_LAST_WORD: Final = re.compile(r"([^\W\d_][\w'’-]*)(\.?)[ ]$")
_NEXT_WORD: Final = re.compile(r",?[ ]([^\W\d_][\w'’-]*)")
_SENTENCE: Final = re.compile(r"(?:\A|[.!?:;\n(\"“][ ]?)\Z")
_AGE: Final = re.compile(
    r"(?<!\w)(?:i['’]?m|i am|(?:he|she|they|who|it)(?:['’]?s| is| was| are| were))(?: (?:now|only|just|almost|about|"
    r"nearly))?[ ]$|(?<!\w)(?:kid|son|daughter|mom|mum|mother|dad|father|wife|husband|brother|sister|baby|child|boy"
    r"|girl|patient|pt)(?:['’]?s| is| was)[ ]$|(?-i:[A-Z])[\w'’-]+, $"
    r"|(?:summer|spring|winter|autumn|fall|class|year)[ ]of[ ]['’]?$",
    re.I,
)
STREETS: Final = (
    word_lists("street_words")["strong"] - {"square", "circle", "drive", "court", "route", "trail", "plaza"}
) | {
    *("way", "place", "close", "row", "cottage", "manor", "gardens", "hill", "grove", "building"),
}
_NEXT_WORDS: Final = re.compile(r",?((?: [^\W\d_][\w'’-]*){1,3})")
_FOREIGN: Final = tuple(word_lists("street_words")["foreign_suffix"] - {"ring", "tun", "hof", "hus", "holt", "str"})
_OF_YEAR: Final = re.compile(r"(?:summer|spring|winter|autumn|fall|class) of (?:the )?\w", re.I)
_RANGE: Final = re.compile(r"[0-9.]+[-–][0-9.]+")
_LETTERS: Final = frozenset("LCFVWK")
"""Units that are written as a capital."""

_DIGITS: Final = tuple(_LISTS["digit_words"] - {"o", "oh"})
_FORM: Final = re.compile(
    r"[0-9]{1,4} ?[x×] ?[0-9]{1,4}(?: ?[x×] ?[0-9]{1,4})?(?: ?(?:cm|mm|m|px|ft))?"
    r"|T [0-9]{2}\.[0-9](?: ?[CF])?|[0-9]{1,2}/10|(?:about |roughly |over |nearly |almost )?"
    r"[0-9]{1,3}(?:,[0-9]{3}){1,2} ?(?:km|miles|kg|tons|tonnes|metres|meters|feet)",
    re.I,
)
"""Sizes, temperatures, marks out of ten, and long distances."""

_OPERAND: Final = re.compile(
    r"(?:[=!<>]=|#define \w{1,40}"
    r"|(?<!\w)(?:final|static|const|let|var|int|float|double|long) \w{1,40}(?:: ?\w{1,20})? =) ?$"
)
_LONGEST_OPERAND: Final = 5
_COLOUR: Final = re.compile(r"(?=[0-9]{0,5}[a-f])[0-9a-f]{6}", re.I)
_COUNTED: Final = (UNITS | _LISTS["measures"] | _LISTS["times"]) - NUMBER_WORDS - FUNCTION_WORDS
_TWOFOLD: Final = re.compile(
    rf" (?:double|triple) (?!(?:{'|'.join(sorted(_LISTS['digit_words'] | _LISTS['tens']))})(?!\w))(?=[a-z]{{3}})"
)
"""A word for digits before a thing: "three double rooms"."""

_SHORT: Final = 2
_NEAR_WORDS: Final = 4
_DICTATED: Final = 3
_LONG: Final = 2


def is_size_or_operand(find: str, before: str) -> bool:
    """Returns true for a size, a distance, a number that code compares or defines, and a colour of a style sheet."""
    if before.endswith(": #"):
        return (_COLOUR.fullmatch(find) or _FORM.fullmatch(find)) is not None
    if not any(map(str.isdigit, find)):
        return False
    if _FORM.fullmatch(find):
        return True
    may_be_operand = len(find) <= _LONGEST_OPERAND and find.isdecimal() and ("=" in before or "#define" in before)
    return may_be_operand and _OPERAND.search(before) is not None


def is_everyday(find: str, before: str, after: str) -> bool:
    """Returns true if a find is a date or number of everyday use.

    Args:
        find: text of the find.
        before, after: text next to it.
    """
    if (
        _MONTH.fullmatch(find)
        and not _CAPITAL_NEXT.match(after)
        and (_BEFORE_MONTH.search(before) or " " in find)
        and not may_be_part(find, before, after)
    ):
        return True
    find = _DOTTED.sub(r"\1m", find) if ".m" in find or ".M" in find else find
    pieces = _PIECE.findall(find)
    if _RANGE.fullmatch(find):
        return False
    if not pieces or _MARKS.fullmatch(_PIECE.sub("", find)) is None:
        return False
    words = [piece for piece in pieces if piece[0].isalpha()]
    if not all(map(_is_everyday_word, words)) or _is_of_somebody(find, before, after):
        return False
    if len(words) == len(pieces) and not any(word.lower() in NUMBER_WORDS for word in words):
        return True
    return not (_is_dictated(words, before, after) or _is_part(find, pieces, before, after))


def may_be_part(find: str, before: str, after: str) -> bool:
    """Returns true for a number or date that touches letters or digits, or may be an age, a house, or somebody's.

    Args:
        find: text of the find.
        before, after: text next to it.
    """
    words = _WORD.findall(find)
    return (
        _TOUCHES.search(before) is not None
        or _TOUCHED.match(after) is not None
        or _is_house(after)
        or _is_dictated(words, before, after)
        or (all(len(word) == 1 for word in words) and _AGE.search(before) is not None)
        or _is_of_somebody(find, before, after)
    )


def _is_dictated(words: list[str], before: str, after: str) -> bool:
    """Returns true for a year or a large number in words, and if several words for digits stand near each other."""
    lower = [word.lower() for word in words]
    if "thousand" in lower or sum(word in NUMBER_WORDS for word in lower) > _LONG:
        return True
    following = _NEXT_WORD.match(after)
    spoken = [*lower, following[1].lower()] if following else lower
    if any(a in _LISTS["centuries"] and b in _LISTS["tens"] for a, b in pairwise(spoken)):
        return True
    if (
        lower
        and lower[-1] in _LISTS["tens"]
        and following
        and following[1].lower().startswith(_DIGITS)
        and following[1].lower() not in _EVERYDAY
    ):
        return True
    near = [*_WORD.findall(before)[-_NEAR_WORDS:], *words, *_WORD.findall(_TWOFOLD.sub("", after))[:_NEAR_WORDS]]
    digits = [
        word.lower() in _LISTS["digit_words"] and following.lower() not in _COUNTED
        for word, following in pairwise([*near, ""])
    ]
    return sum(digits) >= _DICTATED or any(first and second for first, second in pairwise(digits))


def _is_part(find: str, pieces: list[str], before: str, after: str) -> bool:
    """Returns true if a number touches letters or digits, stands beside a name, or may be an age or a date."""
    if _TOUCHES.search(before[-_TOUCHING:]) or _TOUCHED.match(after):
        return True
    if _MODEL.search(before[-_TOUCHING:]) and find.isdecimal():
        return True
    if any(piece.lower() in ("may", "march") for piece in pieces):
        return True
    if all(piece[0].isdigit() or piece.lower() in NUMBER_WORDS for piece in pieces) and _AGE.search(before):
        return True
    if _OF_YEAR.search(find):
        return True
    last, following = _LAST_WORD.search(before), _NEXT_WORD.match(after)
    if _is_house(after):
        return True
    is_last = find[-1].isdigit() or pieces[-1].lower() in NUMBER_WORDS
    if following and is_last and _may_be_name(following[1]):
        return True
    return last is not None and not _begins(last, before) and (_may_be_name(last[1]) or _is_unknown(last[1]))


def _is_of_somebody(find: str, before: str, after: str) -> bool:
    """Returns true for an answer without a sentence, what somebody ordered, the time of an appointment, and a date."""
    if find.endswith(" of") and after.startswith(f" {PLACEHOLDER}"):
        return True
    may_be_appointment = before.rstrip("\n").lower().endswith(_BEFORE_TIMES)
    if _REST_OF_DATE.match(after) or (may_be_appointment and _APPOINTMENT.search(before)):
        return True
    if any(map(str.isdigit, find)) and (
        _CONTRACT.match(after) or _CHOSEN.search(before) or _CODE.match(before + find + after)
    ):
        return True
    return not before.strip() and _ANSWER.match(after) is not None


def _is_house(after: str) -> bool:
    """Returns true if the name of a street or house follows a number."""
    following = _NEXT_WORDS.match(after)
    if following is None:
        return False
    words = following[1].lower().split()
    if len(words[0]) > _SHORT and words[0].endswith(_FOREIGN) and words[0] not in COMMON_WORDS:
        return True
    at = next((i for i, word in enumerate(words) if word in STREETS), None)
    return at is not None and not any(word in FUNCTION_WORDS for word in words[:at])


def _is_everyday_word(word: str) -> bool:
    lower = word.lower()
    if word.istitle() and lower in _NAMES_TOO:
        return False
    return lower in _EVERYDAY or (word.islower() and lower in COMMON_WORDS and lower not in _NAMES_TOO)


def _may_be_name(word: str) -> bool:
    """Returns true for a placeholder, and for a word with a capital that is no word of this module."""
    if word == PLACEHOLDER:
        return True
    if word in _LETTERS:
        return False
    is_loud = word.isupper() and len(word) >= _NEAR_WORDS and word.lower() not in COMMON_WORDS
    return (word.istitle() or is_loud) and word.lower() not in _EVERYDAY and not _is_term(word)


def _is_unknown(word: str) -> bool:
    return (
        word.islower()
        and len(word) > _SHORT
        and word not in _EVERYDAY
        and word not in COMMON_WORDS
        and word not in _DICTIONARY
        and not _is_term(word)
    )


def _is_term(word: str) -> bool:
    return any(word.lower() in _LISTS[name] for name in ("numbered", "technical", "drugs", "eponyms"))


def _begins(word: re.Match[str], before: str) -> bool:
    """Returns true for a common word that begins a sentence: "Print 200"."""
    lower = word[1].lower()
    return (
        not word[2]
        and (lower in COMMON_WORDS or lower in _DICTIONARY)
        and _SENTENCE.search(before[: word.start()]) is not None
    )
