"""Finds secrets that words announce ("le mot de passe est …"), and phrases of seed words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pipelines.policies.detectors.fields.keys import NO_VALUE, kinds_of_words, may_end_secret, may_name_secret, plain
from pipelines.policies.detectors.fields.values import is_value
from pipelines.policies.detectors.finds import Find
from pipelines.policies.detectors.first_pass import holds, holds_run, kind
from pipelines.policies.english.common_words import FUNCTION_WORDS, PARTICIPLES
from pipelines.policies.english.word_lists import word_lists

_LISTS: Final = word_lists("fields")
_LINK: Final = re.compile(
    rf"(?<!\w)(?:{'|'.join(sorted(_LISTS['links'], key=len, reverse=True))})(?!\w)[ \t:]{{1,3}}(?=\S)", re.I
)
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_POLISH: Final = "haslo"
_PIECE: Final = re.compile(r"[\w'’-]+|[^\w\s]|\n")
_QUOTED: Final = re.compile(r"[\"“„«'`]([^\"“”„«»'`\n]{1,80})[\"”“»'`]")
_VALUE: Final = re.compile(r"[^\s,;\"“”<>()]{1,80}")
_CLAUSE: Final = re.compile(r"[^\n.,;:!?\"“”<>()]{1,120}")
_SEEDS: Final = re.compile(r"(?<![\w-])[a-z]{3,8}(?:[ ][a-z]{3,8}){11,23}(?![\w-])")
_BEFORE: Final = 64
_CHANGED: Final = re.compile(r"(?<!\w)(?:re)?(?:set|chang|updat|switch)[a-z]{0,4}(?!\w)", re.I)
_FORMED: Final = re.compile(r"(?=[^a-z]{0,79}[a-z])(?=[^\d!@$%&*+#~^]{0,79}[\d!@$%&*+#~^])[^/]{6,80}", re.I)
"""Letters with digits or marks, as the new password in "set the password to …"."""

_ASKED: Final = re.compile(
    r"(?<!\w)(?:(?:security|secret|safe|code|memorable|magic)[ -]?(?:word|phrase|answer|name|place)"
    r"|pass[ -]?(?:word|phrase)|maiden[ ]name)(?:[ ](?:please|for[ ]me|then|now|on[ ]the[ ]account))?"
    r"[ ]?[?.!]?[ ]?\n[^\n:]{1,40}:[ ]{1,2}"
    r"(?:(?:er|um|uh|yes|yeah|sure|ok|okay|it['’]?s|it[ ]is|that['’]?s|that[ ]would[ ]be)[ ,]{1,2}){0,3}"
    r"([^\n,.!?]{3,60})",
    re.I,
)
"""A secret that one speaker asks for, and the turn of the next one."""


_SECRET_WORD: Final = kind(may_end_secret)
_SEED_WORD: Final = kind(lambda word: 3 <= len(word) <= 8 and word.isalpha())
_MIN_SEEDS: Final = 12
_MAX_ANSWER: Final = 4


def find_announced(text: str) -> Iterator[Find]:
    """Yields the values behind the name of a secret and a verb, and seed phrases."""
    for link in _LINK.finditer(text) if holds(text, _SECRET_WORD) else ():
        before = text[max(0, link.start() - _BEFORE) : link.start()]
        words = _PIECE.findall(before)[-5:]
        for at in range(len(words) - 1, -1, -1):
            if not words[at][0].isalnum():
                words = words[at + 1 :]
                break
        if not words or not may_name_secret(words[-1]):
            continue
        kinds, _ = kinds_of_words(words)
        is_change = link[0].strip(" \t:").lower() == "to" and plain(words[-1]) != _POLISH
        if not kinds & {"secret", "phrase"} or (is_change and _CHANGED.search(before) is None):
            continue
        value = _value(text, link.end(), is_phrase="phrase" in kinds and not is_change)
        if value is not None and (not is_change or _FORMED.fullmatch(text, *value[:2])):
            yield value
    for asked in _ASKED.finditer(text) if "\n" in text and holds(text, _SECRET_WORD) else ():
        answer = asked[1].rstrip().split()
        if len(answer) <= _MAX_ANSWER and FUNCTION_WORDS.isdisjoint(map(str.lower, answer)) and is_value(asked[1]):
            yield asked.start(1), asked.start(1) + len(asked[1].rstrip()), "PASSWORD"
    for run in _SEEDS.finditer(text) if holds_run(text, _SEED_WORD, _MIN_SEEDS) else ():
        if _is_seed(run[0].split()):
            yield *run.span(), "PASSWORD"


def _value(text: str, at: int, *, is_phrase: bool) -> Find | None:
    quoted = _QUOTED.match(text, at)
    if quoted is not None:
        return *quoted.span(1), "PASSWORD"
    found = (_CLAUSE if is_phrase else _VALUE).match(text, at)
    if found is None:
        return None
    value = found[0].rstrip(".!?:* ")
    first = plain(value.split()[0]) if value.split() else ""
    if not is_value(value) or first in NO_VALUE:
        return None
    if not is_phrase:
        if (
            first in FUNCTION_WORDS
            or first in PARTICIPLES
            or first.endswith(("ed", "ing"))
            or "’" in value
            or "'" in value
        ):
            return None
        behind = text[at + len(value) : at + len(value) + 2]
        if behind[:1] == " " and value.islower() and value.isalpha() and _goes_on(text, at + len(value)):
            return None
    return at, at + len(value), "PASSWORD"


def _goes_on(text: str, at: int) -> bool:
    """Returns true if a small word of grammar follows, so that the value may be an adjective of a sentence."""
    following = _WORD.match(text, at + 1)
    return following is not None and following[0].lower() in {"to", "for", "of", "than", "that", "by", "when", "if"}


def _is_seed(words: list[str]) -> bool:
    """Returns true if words in small letters hold no word of grammar, as those of BIP-39."""
    return len(words) >= 12 and sum(word in FUNCTION_WORDS for word in words) <= len(words) // 6
