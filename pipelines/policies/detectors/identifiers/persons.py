"""Finds persons by titles, cues and lists of names, in lower case too."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from pipelines.policies.detectors.finds import Find
from pipelines.policies.detectors.first_pass import holds, kind
from pipelines.policies.english.common_words import COMMON_WORDS, FUNCTION_WORDS, NUMBER_WORDS
from pipelines.policies.english.known_words import WORDS
from pipelines.policies.english.name_lists import (
    all_names,
    given_names,
    more_given_names,
    personal_names,
    rare_names_in_small_letters,
)
from pipelines.policies.english.word_lists import word_lists

_LISTS: Final = word_lists("identifiers")
_EVERYDAY: Final = COMMON_WORDS | NUMBER_WORDS | FUNCTION_WORDS | _LISTS["words_too"] | _LISTS["no_value"]
_WORDS: Final = WORDS | _EVERYDAY
_TITLES: Final = _LISTS["titles"]
_CUES: Final = re.compile(
    r"(?<!\w)(?:(?:(?:my|his|her|your|first|last|full|middle|maiden|family|given)[ ]{1,2}){1,2}(?:sur)?name"
    r"(?:['’]?s|[ ]is|[ ]was)?"
    r"|(?:sur)?names?(?:['’]s|[ ]is|[ ]?:)|call[ ]me|nicknamed)[:,]?[ ]{1,3}",
    re.I,
)
_INITIALS: Final = re.compile(r"(?<!\w)[Ii]nitials(?:[ ]are|[ ]is|[ ]?:)?[ ]((?:[A-Z]\.?[ ]?){1,3}[A-Z]\b\.?)")
_GREETED: Final = re.compile(
    r"(?:^|\n)[ \t>]{0,8}(?:from|to|cc|bcc|sender|attn|hi|dear|hello|hey|hallo|good (?:morning|evening|afternoon)"
    r"|thanks|thank you|regards|cheers|best|love|yours)[ ,:\n]{1,3}"
    r"([^\W\d_]{2,20}(?:[ -][^\W\d_]{2,20}){0,2})(?=[ ]{0,2}(?:[,.!<>(:;-]|\n|\Z))",
    re.I,
)
_CUE_WORD: Final = kind(frozenset(["name", "names", "surname", "surnames", "nicknamed", "call"]))
_ARTICLES: Final = frozenset({"a", "an", "the"})
_WORD_NAMES: Final = word_lists("places")["word_names"]
_GAPS: Final = frozenset({" ", "  ", ". ", ".", "-"})
_SHORT: Final = 2
_MIDDLE: Final = 4
_LONG: Final = 6
_MOST: Final = 4
_NO_SEED: Final = frozenset({"john"})
"""The placeholder of finds (`judging.stabilise`), which is a word of this list. The word after it is no surname."""


@functools.cache
def listed_names() -> frozenset[str]:
    """Returns the names of the lists that have no other meaning."""
    return frozenset(name for name in all_names() if len(name) > _SHORT) - _EVERYDAY - _NO_SEED


@functools.cache
def _lone_names() -> frozenset[str]:
    """Returns the names that count in lower case and alone. A short family name is too often a typing error."""
    given = given_names() | more_given_names()
    names = listed_names() & (personal_names() | given)
    lone = frozenset(name for name in names if len(name) >= (_MIDDLE if name in given else _LONG))
    return lone | (listed_names() & rare_names_in_small_letters())


@functools.cache
def _openings() -> frozenset[str]:
    """Returns the words with which a name may begin without a cue."""
    return listed_names() | _TITLES


def find_persons(text: str, words: Sequence[re.Match[str]], lower_words: Sequence[str]) -> Iterator[Find]:
    """Yields names of persons.

    Args:
        text: text to read.
        words: words of the text.
        lower_words: the same words in small letters.
    """
    names, openings = listed_names(), _openings()
    after = 0
    for at in [number for number, lower in enumerate(lower_words) if lower in openings]:
        if at >= after:
            lower = lower_words[at]
            is_title = lower in _TITLES
            last = _run(text, words, at, names, is_title=is_title)
            first = at if is_title else _first(text, words, at)
            is_name = not is_title and (words[at][0][0].isupper() or lower in _lone_names())
            if last > first or (is_name and not _is_thing(text, words, lower_words, at)):
                yield words[first].start(), words[last].end(), "PERSON"
            after = last + 1
    if "-" in text:
        yield from _joined_by_hyphens(words)
    if "initials" in lower_words:
        yield from ((*match.span(1), "PERSON") for match in _INITIALS.finditer(text))
    greeted = _GREETED.match(text)
    for greeting in _GREETED.finditer(text) if "\n" in text else [greeted] if greeted is not None else []:
        if _is_greeted(greeting[1]):
            yield *greeting.span(1), "PERSON"
    if not holds(text, _CUE_WORD):
        return
    by_start = {word.start(): number for number, word in enumerate(words)}
    for cue in _CUES.finditer(text):
        number = by_start.get(cue.end())
        if number is not None and (words[number][0].lower() in names or not _is_everyday(words[number][0])):
            last = _run(text, words, number, names, is_title=True)
            yield words[number].start(), words[last].end(), "PERSON"


def _joined_by_hyphens(words: Sequence[re.Match[str]]) -> Iterator[Find]:
    """Yields a given name and the name after it in a word of small letters and hyphens: "cv-anna-keller.pdf"."""
    for word in words:
        if "-" in word[0] and word[0].islower():
            at = word.start()
            for one, other in pairwise(word[0].split("-")):
                if one in _lone_names() and other in _lone_names() and _is_given(one):
                    yield at, at + len(one) + 1 + len(other), "PERSON"
                at += len(one) + 1


def _is_given(name: str) -> bool:
    return name in given_names() or name in more_given_names()


def _is_thing(text: str, words: Sequence[re.Match[str]], lower_words: Sequence[str], at: int) -> bool:
    """Returns true for a word after an article: a name that is also a word ("a robin"), and capitals ("the VESA")."""
    if not at or lower_words[at - 1] not in _ARTICLES or text[words[at - 1].end() : words[at].start()] != " ":
        return False
    word, article = words[at][0], words[at - 1][0]
    if word.islower():
        return article.lower() != "the" and word in _WORD_NAMES
    return word.isupper() and article != "A" and not text.isupper()


def _run(text: str, words: Sequence[re.Match[str]], at: int, names: frozenset[str], *, is_title: bool) -> int:
    """Returns the last word of a name that begins at a word.

    A name has known names, capitals after a capital, and initials between them. After a title or a cue, one unknown
    word in lower case also counts.
    """
    last = at
    while last + 1 < len(words) and last - at < _MOST:
        gap, following = text[words[last].end() : words[last + 1].start()], words[last + 1][0]
        if len(following) == 1 and last + 2 < len(words) and gap in _GAPS:  # an initial
            after = words[last + 2][0]
            gap_after = text[words[last + 1].end() : words[last + 2].start()]
            if gap_after in _GAPS and _is_part(after, words[at][0], names, False):
                last += 2
                continue
        if gap not in _GAPS or not _is_part(following, words[at][0], names, is_title and last == at):
            break
        last += 1
    return last


def _is_greeted(words: str) -> bool:
    """Returns true if the words between a greeting and a mark are a name. It may also be a word."""
    parts = words.lower().replace("-", " ").split()
    return any(part in personal_names() or part in more_given_names() for part in parts) and not any(
        part in FUNCTION_WORDS or part in COMMON_WORDS for part in parts
    )


def _first(text: str, words: Sequence[re.Match[str]], at: int) -> int:
    """Returns the first word of a name with a known part.

    A word with a capital before it counts if it is a name that is also a word, or in no list of words.
    """
    if at and words[at][0][0].isupper() and words[at - 1][0][0].isupper():
        before = words[at - 1][0].lower()
        gap = text[words[at - 1].end() : words[at].start()]
        if before in personal_names():
            is_name = gap in _GAPS and before not in COMMON_WORDS and before not in FUNCTION_WORDS
        else:
            is_name = gap == " " and words[at - 1][0].istitle() and len(before) > _SHORT and before not in _WORDS
        if is_name:
            return at - 1
    return at


def _is_part(word: str, first: str, names: frozenset[str], unknown: bool) -> bool:
    lower = word.lower()
    if lower in names or (lower.startswith("mc") and len(lower) > _LONG and lower not in _WORDS):
        return True
    if first.islower() and lower in _LISTS["words_too"] and lower in personal_names() and first in given_names():
        return True
    if lower in FUNCTION_WORDS or lower in NUMBER_WORDS:
        return False
    if word[0].isupper() and first[0].isupper() and not (word.isupper() and not first.isupper()):
        return True
    return unknown and not _is_everyday(word)


def _is_everyday(word: str) -> bool:
    return word.lower() in _EVERYDAY
