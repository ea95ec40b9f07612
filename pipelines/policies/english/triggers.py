"""Finds words after triggers: after "my name is" or "works for", any word is a name or a place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from pipelines.policies.english.common_words import COURTESY_WORDS, FUNCTION_WORDS
from pipelines.policies.english.word_lists import word_lists

_LISTS: Final = word_lists("triggers")

_ONE: Final = r"([^ ,.:;!?…]+)"
_NAMING: Final = re.compile(
    r"\b(?:name'?s|name is|named|nicknamed|called|known as|call(?:s|ing)? (?:me|him|her|us|them)|goes by|go by|spelled"
    r"|spelt|(?:find|add|know|follow|registered|listed|posts?|signed(?: in| up)?|logged in) (?:\S+ ){0,3}?as):? " + _ONE
)
_NOT_A_NAME: Final = _LISTS["not_a_name"]
_CREDENTIAL: Final = re.compile(
    r"\b(?:user ?name|pass ?(?:word|code|phrase)|phrase|pin|code|login|log(?:ged)? in with|handle|plate|tag|license"
    rf"|wifi|answer)( is| was|'s|(?=:))?:? {_ONE}"
)
_USED_AS: Final = re.compile(
    rf"(?<!\S){_ONE} as (?:(?:the|a|my|your) )?(?:password|passcode|pin|code|login|username)\b"
    rf"|\buse {_ONE}(?: \S+){{0,3}}? (?:to|for) (?:log|sign|get|login|logging|signing) ?(?:in|on)?\b"
)
_OF_A_CREDENTIAL: Final = _LISTS["of_a_credential"]
"""Words after a credential that do not reveal it."""

_BEHIND_A_CREDENTIAL: Final = FUNCTION_WORDS | COURTESY_WORDS | _OF_A_CREDENTIAL

_TIES: Final = re.compile(
    r"\b(?:(?:work(?:s|ed|ing)?|job|employed|stud(?:y|ies|ied|ying)|graduated|enrolled|train(?:ed|ing)?|intern(?:ed|ing)?)"
    r" (?:for|at|by|in|with)|liv(?:e|es|ed|ing) (?:in|at|on|near)|(?:born|based|located|residing|stay(?:s|ing)?)"
    r" (?:in|at|on|near)|(?:mov(?:e|es|ed|ing)|travel(?:s|ed|ling|ing)?|fly(?:ing)?|flew|going|drive|drove) (?:to|from)"
    r"|(?:come|comes|came|coming|am|i'm|im|is|are) from|married to|owned by|part of"
    r"|(?:job|account|card|policy|loan|contract|insurance|appointment|interview|letter) (?:at|from|with)):? (?:the )?"
    rf"{_ONE}"
)
_NO_PLACE: Final = FUNCTION_WORDS | {"me", "us", "home", "work", "here", "there"}
_TRIGGERS: Final = _LISTS["triggers"]


def find_triggered(words: Sequence[str], gaps: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yields the words after triggers.

    Args:
        words: words of one sentence, in lower case.
        gaps: text before each word: a space, after the last punctuation mark if there is one.

    Yields:
        The position of a word, and NAME_WORD or TIES. A word may occur more than once.
    """
    if _TRIGGERS.isdisjoint(words):
        return
    text, position = "", {}
    for i, (word, gap) in enumerate(zip(words, gaps, strict=True)):
        text += gap
        position[len(text)] = i
        text += word
    for match in _NAMING.finditer(text):
        if match[1] not in _NOT_A_NAME:
            yield position[match.start(1)], "NAME_WORD"
    for match in _CREDENTIAL.finditer(text):
        if match[2] not in (_OF_A_CREDENTIAL if match[1] is not None else _BEHIND_A_CREDENTIAL):
            yield position[match.start(2)], "NAME_WORD"
    for match in _USED_AS.finditer(text):
        yield position[match.start(match.lastindex or 0)], "NAME_WORD"
    for match in _TIES.finditer(text):
        if match[1] not in _NO_PLACE:
            yield position[match.start(1)], "TIES"
