"""A policy that masks the names of a document's speakers in all of its rows.

Speakers' tags are no part of a row's text, but people address each other: "thanks arlie", "@arlie", "Mrs Keller". The
names come from the table ``speakers``. A name is looked up as a whole, without titles, written as one word, and by its
words and parts (``dark_lord99``: "lord99", "lord"). Case, accents and punctuation do not count.

Everyday words, and words of one or two letters, are masked only if their sentence shows that somebody is addressed or
named. Words of grammar are masked only after ``@``. Roles and titles are never masked.

This couples the rows of a document, because a speaker's other rows decide whether a word of a row is masked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from pipelines.corpus.speakers import ROLE
from pipelines.policies.detectors.name_words import Word, fold, parts_of, words_of
from pipelines.policies.english.addressing import (
    ASKED,
    GREETED,
    MONTHS,
    OF_TIME,
    PARTICLES,
    does_something,
    everyday_words,
    grammar_words,
    is_role,
    rare_words,
)
from pipelines.policies.english.common_words import FUNCTION_WORDS
from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import NamedPolicy, Sentence, Span

AT, ADDRESSED, NAMED, ANYWHERE = 1, 2, 3, 4
"""Where a form of a name is masked: after ``@``; if addressed; also if its sentence names somebody; everywhere."""

LABEL: Final = "SPEAKER"
_MAX_CHARS: Final = 200
_MAX_WORDS: Final = 12
_MAX_PARTS: Final = 6
_MAX_GAP_CHARS: Final = 3
_MAX_BEFORE: Final = 40
_FEWEST_DIGITS: Final = 7
"""Digits of a number that is compared by its last digits, because a country's code may be left out."""

_FEWEST_DIGITS_ALONE: Final = 5
_FEWEST_WORDS: Final = 3
"""Words of a name that are hardly side by side by chance, even if each is an everyday word."""

_TWO_LETTERS: Final = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "å": "aa", "ø": "oe"}
)
_MAIL: Final = re.compile(r"(\S+)@\S+\.\w+")
_STARTS_ROW: Final = re.compile(
    r"(?:^|[\n\r])[\s\"'“„«*_>~(\[-]*(?:(?:oh|ok|okay|yes|yeah|yep|no|lol|haha|hmm|well|so|but|and|gg)[\s,.!]+)?$",
    re.IGNORECASE,
)
_CALLS: Final = re.compile(r"\s*(?:[,:，：](?!\S)|[!?！？])")
_ENDS: Final = re.compile(r"\s*(?:$|[^\w\s,;:'’-])")
_IN_SENTENCE: Final = re.compile(r"[^\s.!?…:\n\r\"'“”„«»(\[*>-]\s+$")
_POSSESSIVE: Final = re.compile(r"['’]s\b", re.IGNORECASE)


class NameTable:
    """The forms of the names of a document's speakers, in one tree of words. A lookup is linear in the text.

    Args:
        names: names as the document's file writes them.
        language: language code of the text, for its words of grammar.
    """

    def __init__(self, names: Sequence[str], language: str = "en") -> None:
        self._everyday, self._rare = everyday_words(), rare_words()
        self._grammar = grammar_words(language)
        self._tree: dict[str, Any] = {}
        self._numbers: dict[str, set[str]] = {}
        for name in names:
            if not ROLE.fullmatch(name):
                self._add(name[:_MAX_CHARS])

    def _add(self, name: str) -> None:
        mail = _MAIL.fullmatch(name.strip())
        words = words_of(name)[:_MAX_WORDS]
        own = [word for word in (words_of(mail[1]) if mail else words) if not is_role(word.key)]
        if not own:
            return
        keys = tuple(word.key for word in own)
        if all(key.isdigit() for key in keys) and len("".join(keys)) >= _FEWEST_DIGITS:
            digits = "".join(keys).lstrip("0")
            self._numbers.setdefault(digits[-_FEWEST_DIGITS:], set()).add(digits)
        self._put(tuple(word.key for word in words), is_whole=True)
        self._put_runs([(word.key,) for word in own])
        written = [name[word.start : word.end] for word in own]
        if mail is None:
            self._put_runs([tuple(fold(part) for part in parts_of(word)) or (fold(word),) for word in written])
        if not name.isascii():
            self._put_runs([(fold(word.translate(_TWO_LETTERS)),) for word in written])

    def _put_runs(self, words: Sequence[tuple[str, ...]]) -> None:
        """Adds runs of neighbouring parts of a name, in several words and in one."""
        parts = [part for word in words for part in word]
        for start in range(len(parts)):
            for stop in range(start + 1, min(len(parts), start + _MAX_PARTS) + 1):
                is_whole = stop - start == len(parts)
                run = tuple(parts[start:stop])
                if len(run) > 1 and not is_whole and (self._is_grammar(run[0]) or self._is_grammar(run[-1])):
                    continue
                if len(run) > 1 or is_whole or len(words) > 1 or not (run[0].isdigit() or len(run[0]) < 3):
                    self._put(run, is_whole=is_whole)
                if len(run) > 1:
                    self._put(("".join(run),), is_whole=is_whole)

    def _put(self, phrase: tuple[str, ...], *, is_whole: bool) -> None:
        level = self._level(phrase, is_whole=is_whole)
        if not level or not all(phrase):
            return
        node = self._tree
        for word in phrase:
            node = node.setdefault(word, {})
        node[""] = max(level, node.get("", 0))

    def _is_grammar(self, word: str) -> bool:
        return word in self._grammar and (word not in PARTICLES or word in FUNCTION_WORDS)

    def _level(self, phrase: tuple[str, ...], *, is_whole: bool = False) -> int:
        """Returns where a form is masked; 0 for nowhere."""
        if all(map(is_role, phrase)):
            return 0
        if all(map(self._is_grammar, phrase)):
            return AT
        if len(phrase) > 1:
            level = max(self._level((word,), is_whole=False) for word in phrase)
            return ANYWHERE if len(phrase) >= _FEWEST_WORDS and is_whole else max(level, NAMED)
        word = phrase[0]
        if word.isdigit():
            return ANYWHERE if len(word) >= _FEWEST_DIGITS_ALONE else AT
        if len(word) == 1:
            return ADDRESSED if is_whole else AT
        if word in self._everyday:
            return NAMED
        return NAMED if len(word) == 2 or (word in self._rare and not is_whole) else ANYWHERE

    def find(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Yields the characters of every mention of a name, with the label."""
        words, is_shouted = words_of(text), text.isupper()
        at = 0
        while at < len(words):
            last = self._longest(text, words, at, is_shouted)
            if last is None:
                last = self._number(text, words, at)
            if last is None:
                at += 1
                continue
            start, end = words[at].start, words[last].end
            while start and text[start - 1] in "@＠_":
                start -= 1
            while end < len(text) and text[end] == "_":
                end += 1
            yield start, end, LABEL
            at = last + 1

    def _longest(self, text: str, words: Sequence[Word], first: int, is_shouted: bool) -> int | None:
        """Returns the last word of the longest name that begins at a word and may be masked there."""
        node, ends = self._tree, list[tuple[int, int]]()
        for last in range(first, len(words)):
            if last > first and not _are_neighbours(words[last - 1], words[last]):
                break
            if (following := node.get(words[last].key)) is None:
                break
            node = following
            if "" in node:
                ends.append((last, node[""]))
        for last, level in reversed(ends):
            is_one = not any(c.isspace() for c in text[words[first].start : words[last].end]) and last > first
            if level == ANYWHERE or is_one or self._is_meant(text, words[first], words[last].end, level, is_shouted):
                return last
        return None

    def _is_meant(self, text: str, word: Word, end: int, level: int, is_shouted: bool) -> bool:
        """Returns true if a sentence shows that a word is a name in it."""
        start = word.start
        before, behind = text[max(0, start - _MAX_BEFORE) : start], text[end : end + _MAX_BEFORE]
        if before.endswith(("@", "＠")):
            return True
        if level == AT:
            return False
        is_capital = all(text[s].isupper() for s in _starts_of_words(text, start, end))
        is_first = _STARTS_ROW.search(before) is not None and (start < _MAX_BEFORE or "\n" in before)
        is_grammar = word.key in FUNCTION_WORDS
        if is_first and (_CALLS.match(behind) or (not is_grammar and ASKED.match(behind))):
            return True
        if is_first and end > word.end and does_something(behind):
            return True
        is_end = _ENDS.match(behind) is not None
        if GREETED.search(before):
            return is_capital or is_end or behind.startswith(",") or not is_grammar
        if before.rstrip(" ").endswith(",") and is_end:
            return True
        if level < NAMED or not is_capital or is_shouted:
            return False
        if word.key in MONTHS and OF_TIME.search(before):
            return False
        if " " in text[start:end] or word.key not in self._everyday:
            return True
        return bool(_IN_SENTENCE.search(before) or _POSSESSIVE.match(behind)) or does_something(behind)

    def _number(self, text: str, words: Sequence[Word], first: int) -> int | None:
        """Returns the last word of a telephone number that is a name, with or without its country's code."""
        if not self._numbers or not words[first].key.isdigit():
            return None
        if first and words[first - 1].key.isdigit() and words[first].start - words[first - 1].end <= _MAX_GAP_CHARS:
            return None
        joined, found = "", None
        for last in range(first, min(len(words), first + _MAX_WORDS)):
            gap = words[last].start - words[last - 1].end if last > first else 0
            if not words[last].key.isdigit() or gap > _MAX_GAP_CHARS:
                break
            joined += words[last].key
            digits = joined.lstrip("0")
            for name in self._numbers.get(digits[-_FEWEST_DIGITS:], ()):
                if name.endswith(digits) or digits.endswith(name):
                    found = last
        return found


def _are_neighbours(word: Word, following: Word) -> bool:
    gap = following.start - word.end
    return gap <= (0 if word.is_alone and following.is_alone else _MAX_GAP_CHARS)


def _starts_of_words(text: str, start: int, end: int) -> Iterator[int]:
    yield start
    yield from (at + 1 for at in range(start, end - 1) if text[at].isspace() and text[at + 1].isalpha())


class SpeakersPolicy(NamedPolicy):
    """Masks the names of a document's speakers, and parts of them, in all of its rows."""

    def __init__(self, options: PolicyOptions) -> None:
        super().__init__(options)
        self._language = options.language

    def find(self, sentence: Sentence) -> list[Span]:
        """Returns no spans, because the policy needs the names."""
        return []

    def find_in_document(self, sentences: Sequence[Sentence], found: Sequence[Sequence[Span]]) -> list[list[Span]]:
        """Returns no further spans, because `find_names` returns all of them."""
        return [[] for _ in sentences]

    def find_names(self, sentences: Sequence[Sentence], names: Sequence[str]) -> list[list[Span]]:
        """Returns all mentions of the names in each sentence."""
        table = NameTable(names, self._language)
        return [sentence.spans(table.find(sentence.text), self._name) for sentence in sentences]
