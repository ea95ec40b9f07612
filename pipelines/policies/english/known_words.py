"""Words with a capital that a model takes for names: words of the dictionary, and things that everybody knows.

"Sutures", "Netflix" and "The Great Wall of China" identify nobody in a row that tells of nobody. A row with another
find keeps them masked, because there they may belong to the person.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_left
from typing import Final, NamedTuple

from pipelines.policies.english.common_words import AMBIGUOUS_WORDS, COMMON_WORDS, FUNCTION_WORDS, NUMBER_WORDS, UNITS
from pipelines.policies.english.name_lists import personal_names
from pipelines.policies.english.word_lists import word_lists
from pipelines.policies.protocol import PLACEHOLDER

_LISTS: Final = word_lists("known")
_TERMS: Final = word_lists("ordinary")
_NAME_LABELS: Final = frozenset(
    {"PERSON", "ORG", "ORGANIZATION", "GPE", "LOC", "LOCATION", "PRODUCT", "WORK_OF_ART", "FAC", "EVENT", "LAW"}
)
_LABELS: Final = _NAME_LABELS | {"NORP", "NRP", "LANGUAGE", "DATE", "DATE_TIME", "URL", "USERNAME", "CODE", "ADDRESS"}
WORDS: Final = COMMON_WORDS | FUNCTION_WORDS | NUMBER_WORDS | UNITS | word_lists("ordinary_words")["words"]
"""Words of the dictionary in lower case. Some are names, too."""

_NAMES: Final = _LISTS["nicknames"] | AMBIGUOUS_WORDS | word_lists("places")["word_names"]
_PLAIN: Final = COMMON_WORDS | UNITS | _TERMS["plain"]
_TECHNICAL: Final = _TERMS["technical"] | _TERMS["drugs"] | _TERMS["numbered"]
_KNOWN: Final = _LISTS["products"] | _LISTS["titles"] | _TERMS["technical"]
_PREMISES: Final = _LISTS["premises"]
_WORD: Final = re.compile(r"[^\W\d_]+")
_REST: Final = re.compile(r"[\s'’.,:&/()|-]*(?:[0-9]{1,3}[\s.,:]*)?")
_NAMED: Final = re.compile(
    r"(?:[@#_-]\Z|@\s|(?<!\w)(?:named|called|call|name|user|login|mr\.?|mrs\.?|ms\.?|dr\.?|miss|dear|hi|hello|truly,|regards,"
    r"|sincerely,|best,|love,|cheers,|thanks,))\s?$",
    re.I,
)
_LONGEST_CUE: Final = 13
"""Characters before a find in which a match of the pattern above lies, with the one before it."""

_ONE: Final = re.compile(r"(?<!\w)an? $", re.I)
_PLACED: Final = re.compile(r"(?<!\w)(?:in|at|from|with|for|by|to|near|into|via) (?:the )?$", re.I)
_WHERE: Final = re.compile(
    r"(?<!\w)(?:in|of|from|to|across|around|throughout|over) (?:the )?"
    r"(?:[A-Z][a-z]+(?: [A-Z][a-z]+)?(?:, (?:and )?| and | or ))?$",
    re.I,
)
_PERSONAL: Final = word_lists("rows")["person"] | word_lists("rows")["personal"] | {PLACEHOLDER.lower()}
_ARTICLES: Final = frozenset({"the", "a", "an"})
_VERSION: Final = re.compile(r"[ -]?(?:v?[0-9]{1,2}(?:\.[0-9]{1,2})?(?: ?(?:pro|max|mini))?)$", re.I)
_MODEL: Final = re.compile(r"[0-9]{1,3}[a-z]?")
_ENDS: Final = re.compile(r"(?:\A|[.!?] ?)\Z")
_BEGINS: Final = re.compile(r" ?(?:[.!?]|\Z)")
_TITLES: Final = re.compile(
    r"(?<!\w)(?:" + "|".join(sorted(t.replace("_", " ") for t in _LISTS["titles"] if "_" in t)) + r")(?!\w)", re.I
)
_TITLE_WORDS: Final = frozenset(max(re.split("[_']", title), key=len) for title in _LISTS["titles"] if "_" in title)
"""A word of each name of several words."""

_INDEX: Final = re.compile(r"\[i\]|(?<!\w)for \(?(?:let |int |var )?i |(?<!\w)i(?:\+\+| ?[+<=-]=? ?\w)|[\"']I[\"']")
_VARIABLE: Final = re.compile(r"(?<!\w)my [$@%][a-z_]")
"""A variable of Perl."""

_PRONOUN: Final = re.compile(r"(?<![\w\"'.(\[])i(?:['’]| (?!in |of )[a-z]{2})", re.I)
_RUN: Final = re.compile(r"\w+")
_CASES: Final = str.maketrans("İıſK", "iisk")
"""The letters that patterns which ignore case take for other ones, beside those that small letters make equal."""

_FEW: Final = 3
_SENTENCE: Final = 5
"""Words of a row below which it may be a line of an address."""

_YEAR: Final = re.compile(
    r"(?:the )?(?:(?:first|second|third|fourth|last|early|late|mid)[ -](?:quarter|half|months?) of )?"
    r"(?:1[0-9]|20)[0-9]{2}s?|(?:early |late |mid-?)?(?:january|february|march|april|may|june|july|august|september"
    r"|october|november|december)",
    re.I,
)
_IN_YEAR: Final = re.compile(r"(?<!\w)(?:in|since|by|until|till|during|before|after|from|around) $", re.I)
_AFTER_PLACEHOLDER: Final = re.compile(rf"(?<!\w){PLACEHOLDER}\W{{0,3}}\Z")
_BEFORE_PLACEHOLDER: Final = re.compile(rf"\W{{0,3}}{PLACEHOLDER}(?!\w)")


class Row(NamedTuple):
    """Facts about a row.

    Attributes:
        is_personal: flag that it has a pronoun or a word of somebody's life, or a placeholder.
        num_words: number of its words, if it has fewer than five. Else five.
        has_capitals: flag that it begins with a capital, so that its writer also capitalises names. A placeholder has
            none.
    """

    is_personal: bool
    num_words: int
    has_capitals: bool


def continues_placeholder(find: str, before: str, after: str, text: str) -> bool:
    """Returns true for words in small letters that a model joins with a placeholder: "John quarterback".

    The model has found its own placeholder there. In a row without capitals the words may be a family name.

    Args:
        find: text of the find, without placeholders at its ends.
        before, after: text next to it.
        text: text of the row.
    """
    if not (find.islower() and _has_capitals(text)):
        return False
    if not (_AFTER_PLACEHOLDER.search(before) or _BEFORE_PLACEHOLDER.match(after)):
        return False
    return all(map(is_plain, find.replace("'s", "").split()))


def is_made_of_words(find: str, label: str, before: str, after: str, row: Row) -> bool:
    """Returns true if a find of a model is a word of the dictionary, or several that end no name of a business.

    Args:
        find: text of the find.
        label: its label.
        before, after: text next to it.
        row: facts about the row.
    """
    if label not in _NAME_LABELS or _REST.fullmatch(_WORD.sub("", find)) is None:
        return False
    words = _WORD.findall(find.removesuffix("'s").removesuffix("’s"))
    if not words or PLACEHOLDER in words or _NAMED.search(before[-_LONGEST_CUE:]) or words[-1].lower() in _PREMISES:
        return False
    if all(word.lower() in _TECHNICAL for word in words):
        return not is_alone(before, after)
    if (find in WORDS or find in _NAMES) and _ONE.search(before):
        return True
    is_somebody = label == "PERSON" and before.endswith(" the ")  # "to the Buyer"
    if (_PLACED.search(before) and not is_somebody) or row.num_words < _FEW:
        return False
    if label != "PERSON" and find.islower() and row.has_capitals and not row.is_personal:
        return True
    if len(words) > 1 and (row.is_personal or (before.strip() and words[0].istitle())):
        return False
    return all(map(is_word, words))


@functools.lru_cache(maxsize=16)
def runs_of(text: str) -> frozenset[str]:
    """Returns the runs of letters, digits and ``_`` of a text in small letters.

    A word stands between characters of other kinds in a text, in any case of its letters, if and only if it is one of
    these. So one set answers what else a pattern would search for.
    """
    return frozenset(_RUN.findall((text if text.isascii() else text.translate(_CASES)).lower()))


def without_index(text: str) -> frozenset[str]:
    """Returns the runs of a text. The index ``i`` of code is left out, because it is no pronoun."""
    runs = runs_of(text)
    is_index = "i" in runs and _INDEX.search(text) is not None and _PRONOUN.search(text) is None
    runs = runs - {"i"} if is_index else runs
    return runs - {"my"} if "my" in runs and _VARIABLE.search(text) is not None else runs


@functools.lru_cache(maxsize=16)
def facts_of(text: str) -> Row:
    """Returns what the rules must know about a whole row."""
    return Row(
        not _PERSONAL.isdisjoint(without_index(text)),
        min(len(_WORD.findall(text)), _SENTENCE),
        _has_capitals(text),
    )


def _has_capitals(text: str) -> bool:
    return text[:1].isupper() and not _BEFORE_PLACEHOLDER.match(text)


def is_title(text: str, start: int, end: int) -> bool:
    """Returns true if a find stands inside the name of a work, an event or a sight of several words."""
    titles = _titles(text)
    at = bisect_left(titles, (start + 1,))
    return at > 0 and end <= titles[at - 1][1]


@functools.lru_cache(maxsize=16)
def _titles(text: str) -> list[tuple[int, ...]]:
    """Returns the characters of the names of several words, in order."""
    return [] if _TITLE_WORDS.isdisjoint(runs_of(text)) else [match.span() for match in _TITLES.finditer(text)]


def is_alone(before: str, after: str) -> bool:
    """Returns true for a find that is a sentence of its own, such as an answer."""
    return _ENDS.search(before) is not None and _BEGINS.match(after) is not None


def is_known(find: str, label: str, before: str, after: str, row: Row) -> bool:
    """Returns true if everybody knows a thing: a brand, a work, a feast, or in a row about nobody a country or year.

    Args:
        find: text of the find.
        label: its label.
        before, after: text next to it.
        row: facts about the row.
    """
    if label not in _LABELS or _NAMED.search(before[-_LONGEST_CUE:]) or is_alone(before, after):
        return False
    bare = find.removesuffix("'s").removesuffix("’s").strip(" .,!?").lower().replace("’", "'")
    article, space, rest = bare.partition(" ")
    bare = rest if space and article in _ARTICLES else bare
    key = bare.replace(" ", "_")
    words = _WORD.findall(find)
    has_digit = any(map(str.isdigit, find))
    if (
        words
        and not has_digit
        and words[0].isupper()
        and all(w.lower() in (_TECHNICAL if w.isupper() else COMMON_WORDS) for w in words)
    ):
        return True
    if key in _KNOWN or _is_variant(bare) or (has_digit and _VERSION.sub("", bare).replace(" ", "_") in _KNOWN):
        return True
    if key in _LISTS["peoples"]:
        following = re.match(r" ([^\W\d_]+)", after)
        if following is None or not following[1].islower():
            return False
        return following[1] in WORDS and following[1] not in _LISTS["persons"]
    if row.is_personal or row.num_words < _SENTENCE:
        return False
    if key in _LISTS["places"]:
        return _WHERE.search(before) is not None or bare != find.lower()
    if key in _LISTS["companies"]:
        return not find.islower()
    return _YEAR.fullmatch(find) is not None and _IN_YEAR.search(before) is not None


def _is_variant(bare: str) -> bool:
    """Returns true for a known product and what tells its variants apart: "ipad mini 2"."""
    first, *rest = bare.split(" ")
    return (
        bool(rest)
        and first in _LISTS["products"]
        and any(word in _TERMS["variants"] for word in rest)
        and all(word in _TERMS["variants"] or _MODEL.fullmatch(word) for word in rest)
    )


def is_plain(word: str) -> bool:
    """Returns true for an everyday word in small letters that is no name."""
    if word in FUNCTION_WORDS:
        return True
    return word in _PLAIN and word not in _NAMES and word not in personal_names()


def is_word(word: str) -> bool:
    """Returns true for a word of the dictionary or a term that is no name."""
    lower = word.lower()
    if lower in _TECHNICAL:
        return True
    stem = lower if lower in WORDS else lower[:-1] if lower.endswith("s") else ""
    if stem not in WORDS or lower in _NAMES:
        return False
    return stem in COMMON_WORDS or not {stem, lower} & personal_names()
