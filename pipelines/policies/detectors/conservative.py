"""A simple conservative policy: a sentence is public only if each word is an everyday word that is used as one.

Algorithm 1 of Confidentially Redacted Training needs a policy of nearly perfect recall that decides, for a whole
sentence, whether it may be trained on without noise. This policy does not read meaning. A sentence of everyday words
can still reveal something ("i lost my job"), so the policy protects identifiers and not circumstances. Measure how
often it lets a secret pass (the second bound of the miss rate), and never assume a rate.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pipelines.policies.detectors.finds import Find
from pipelines.policies.english.common_words import (
    COMMON_WORDS,
    COURTESY_WORDS,
    FUNCTION_WORDS,
    NOUNS,
    NUMBER_WORDS,
    SMALL_NUMBERS,
    UNITS,
)
from pipelines.policies.english.everyday_use import name_like
from pipelines.policies.english.triggers import find_triggered
from pipelines.policies.english.word_lists import word_lists
from pipelines.policies.protocol import NamedPolicy, Sentence, Span

_WORD: Final = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*|\S")
PUNCTUATION: Final = frozenset(".,!?;:'\"()’‘“”…")
EMOTICONS: Final = re.compile("[\U0001f600-\U0001f64f\u2764\U0001f44d\ufe0f\U0001f3fb-\U0001f3ff]")
"""Faces, hearts and thumbs, and their modifiers. Unlike other pictures they depict no thing and no place."""

_STRETCHED: Final = re.compile(r"([^\W\d_])\1{2,}")
ENDS_SENTENCE: Final = frozenset(".!?…")
DIVIDES: Final = {**{mark: f"{mark} " for mark in ".,!?;:…"}, "(": ": ", ")": ", "}
"""Marks that divide a sentence, in the form that `find_triggered` reads."""

PRONOUN_I: Final = frozenset({"i", "i'm", "i've", "i'd", "i'll", "ok"})
_HEALTH: Final = word_lists("common_words")["health"]
"""Everyday words in the names of illnesses ("heart failure", "trouble sleeping")."""

MIN_SHOUTED: Final = 3
"""Minimum number of words in capitals that count as a sentence without case, and not as names."""

_BEFORE_A_NUMBER: Final = word_lists("common_words")["before_a_number"]
"""Words before a number that ends a sentence and is an age, the end of a card number or a room."""

_EVERYDAY: Final = (COMMON_WORDS | NUMBER_WORDS | {"u"}) - _HEALTH


class ConservativePolicy(NamedPolicy):
    """Flags a sentence by any find in it. The label of a find is the reason.

    Reasons (the labels):
        CHARACTER: a digit, a symbol such as ``@ / # < -``, or any other character outside words and plain punctuation.
        WORD: a word outside the closed list of everyday words. Every unusual name is such a word, in any case.
        CAPITAL: a capital inside a sentence, or a word in capitals, unless the whole sentence is in capitals.
        NAME_WORD: an everyday word in the position of a name (`everyday_use`), or after a trigger such as
            "my name is" or "the password is" (`triggers`).
        NUMBER_WORDS: two or more number words or single letters, as in a dictated number or spelling; a number above
            three; a small number that counts or numbers something ("two kids", "room two").
        TIES: an employer, a home, an origin or a destination.
        BARE: no function word and no courtesy word, or a single word that is no courtesy, or a piece that begins with
            punctuation. Such a piece is an answer or a fragment and not a sentence ("blue horse").
    """

    def find(self, sentence: Sentence) -> list[Span]:
        """Returns the reasons why the sentence may not be public. Without reasons, it may be."""
        return sentence.spans(_reasons(sentence.text), self._name)


def _reasons(text: str) -> list[Find]:
    reasons: list[Find] = []
    matches = list(_WORD.finditer(text))
    words: list[re.Match[str]] = []
    lower: list[str] = []
    gaps: list[str] = []
    starts_sentence, gap = True, ". "
    has_case = not text.isupper() or len(matches) < MIN_SHOUTED
    for match in matches:
        token = match[0]
        if not token[0].isalpha():
            if token in PUNCTUATION:
                starts_sentence = starts_sentence or token in ENDS_SENTENCE
                gap = DIVIDES.get(token, gap)
            elif EMOTICONS.fullmatch(token) is None:
                reasons.append((*match.span(), "CHARACTER"))
                gap = ", "
            continue
        word = token.lower().replace("’", "'")
        if word not in _EVERYDAY:
            word = unstretched(word)
        if word not in _EVERYDAY:
            reasons.append((*match.span(), "WORD"))
        elif (
            has_case
            and word not in PRONOUN_I
            and not (token.islower() or (starts_sentence and is_capitalised_first(text, match)))
        ):
            reasons.append((*match.span(), "CAPITAL"))
        words.append(match)
        lower.append(word)
        gaps.append(gap)
        starts_sentence, gap = False, " "
    reasons += [(*words[i].span(), "NUMBER_WORDS") for i in number_positions(lower)]
    reasons += [(*words[i].span(), "NAME_WORD") for i in name_like(lower, [gap != " " for gap in gaps])]
    reasons += [(*words[i].span(), label) for i, label in find_triggered(lower, gaps)]
    is_sentence = not COURTESY_WORDS.isdisjoint(lower) or (len(lower) > 1 and not FUNCTION_WORDS.isdisjoint(lower))
    if words and (not is_sentence or matches[0][0] in ",;:.'’)"):
        reasons.append((words[0].start(), words[-1].end(), "BARE"))
    return reasons


def is_capitalised_first(text: str, match: re.Match[str]) -> bool:
    """Returns true if a word has the case of a first word. "A" has it if it is no initial ("A. Day")."""
    return match[0][1:].islower() or (match[0] == "A" and text[match.end() : match.end() + 1].isspace())


def unstretched(word: str) -> str:
    """Shortens letters that are written three or more times, if that gives an everyday word ("pleeease", "sooo")."""
    for kept in (r"\1", r"\1\1"):
        short = _STRETCHED.sub(kept, word)
        if len(short) > 1 and short in _EVERYDAY:
            return short
    return word


def number_positions(words: list[str]) -> Iterator[int]:
    """Yields the positions of number words, and of letters said one by one, that may be a person's number."""
    if NUMBER_WORDS.isdisjoint(words) and all(len(word) > 1 or word in "ai" for word in words):
        return
    num_spelled = sum(word in NUMBER_WORDS or (len(word) == 1 and word not in "ai") for word in words)
    for i, word in enumerate(words):
        if word in NUMBER_WORDS:
            counts = i + 1 < len(words) and words[i + 1] in UNITS and words[i : i + 2] != ["one", "of"]
            is_numbered = i > 0 and (
                words[i - 1] in NOUNS or (i + 1 == len(words) and words[i - 1] in _BEFORE_A_NUMBER)
            )
            if num_spelled > 1 or counts or is_numbered or word not in SMALL_NUMBERS:
                yield i
        elif len(word) == 1 and num_spelled > 1:
            yield i
