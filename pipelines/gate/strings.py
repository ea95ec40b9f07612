"""Which masked strings are searched for, and the form in which text is compared."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

DESCRIPTIVE_LABELS: Final = frozenset(
    {
        *("CARDINAL", "DATE", "EVENT", "FAC", "GPE", "LANGUAGE", "LAW", "LOC", "MONEY", "NORP", "ORDINAL", "ORG"),
        *("PERCENT", "PRODUCT", "QUANTITY", "TIME", "WORK_OF_ART"),  # spaCy; PERSON is left
        *("DATE_TIME", "LOCATION", "NRP", "URL", "ORGANIZATION"),  # Presidio
        *("FAILED_CLOSED", "LITERAL_MASK"),  # whole sentences, and the mask token itself
    }
)
"""Labels of strings that describe and do not identify: "two", "Monday" and "France" are masked in one sentence and
harmless in the next. Every other label is searched by default, also those of plug-ins and of ``redact.patterns``."""

_CJK: Final = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_TOKEN: Final = re.compile(rf"[^\W_{_CJK}]+|[{_CJK}]")
_NOT: Final = re.compile(
    r"\b((?:ai|are|ca|could|did|does|do|had|has|have|is|might|must|need|sha|should|was|were|wo|would)n)['’](t)\b", re.I
)
"""Of "don't" no part is taken for a name."""
MAX_PIECES: Final = 8
"""Groups of digits that one number may be written in."""


def words_of(text: str, *, case_sensitive: bool = False) -> list[str]:
    """Returns the words of a text as they are compared: runs of letters and digits, without accents.

    Case counts only if you ask for it. Punctuation and white space only separate, so ``(555) 123-4567`` and
    ``555 123 4567`` are equal, and ``O'Brien's`` begins with ``O'Brien``. But "don't" is one word. In scripts without
    spaces every character is a word.
    """
    if "'" in text or "’" in text:
        text = _NOT.sub(r"\1\2", text)
    if not case_sensitive:
        text = text.lower() if text.isascii() else text.casefold()
    if not text.isascii():
        text = "".join(c for c in unicodedata.normalize("NFKD", text) if unicodedata.category(c)[0] != "M")
        if not case_sensitive:
            text = text.casefold()  # compatibility forms may bring capitals back
    return _TOKEN.findall(text)


def places_of_words(text: str, *, case_sensitive: bool = False) -> list[tuple[str, int, int]]:
    """Returns the words of `words_of`, each with the half-open range of characters that it stands for."""
    joined = {match.start(2) - 1 for match in _NOT.finditer(text)}
    folded, origin = [], []
    for at, character in enumerate(text):
        new = "" if at in joined else _folded(character, case_sensitive)
        folded.append(new)
        origin += [at] * len(new)
    places = []
    for match in _TOKEN.finditer("".join(folded)):
        start, end = origin[match.start()], origin[match.end() - 1] + 1
        while end < len(text) and unicodedata.category(text[end])[0] == "M":
            end += 1  # an accent of its own
        places.append((match[0], start, end))
    return places


def _folded(character: str, case_sensitive: bool) -> str:
    folded = character if case_sensitive else character.casefold()
    if folded.isascii():
        return folded
    folded = "".join(c for c in unicodedata.normalize("NFKD", folded) if unicodedata.category(c)[0] != "M")
    return folded if case_sensitive else folded.casefold()


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A choice of what is searched for.

    Attributes:
        labels: searched labels; empty means all but `DESCRIPTIVE_LABELS`.
        min_characters: shorter strings (letters and digits counted) are left out.
        case_sensitive: flag that case must agree.
        ignore: strings that are no secret although they were masked. They may quote private text.
        is_everyday: function that tells by words, without case, and label if a string is not searched for because it is
            everyday English (`pipelines.gate.common_words`); None: all are searched for.
    """

    labels: frozenset[str] = frozenset()
    min_characters: int = 1
    case_sensitive: bool = False
    ignore: tuple[str, ...] = field(default=(), repr=False)
    is_everyday: Callable[[Sequence[str], str], bool] | None = None

    def has_label(self, label: str) -> bool:
        """Tells if strings of this label are searched for."""
        return label in self.labels if self.labels else label not in DESCRIPTIVE_LABELS

    def words(self, text: str) -> list[str]:
        """`words_of` with or without case, as chosen."""
        return words_of(text, case_sensitive=self.case_sensitive)

    def normalise(self, text: str) -> str:
        """Returns the compared form of a string: its words, one space between them."""
        return " ".join(self.words(text))

    @cached_property
    def _ignored(self) -> frozenset[str]:
        return frozenset(self.normalise(text) for text in self.ignore)

    def reason_against(self, string: str, label: str) -> str | None:
        """Why a normalised string is not searched for: ``too_short``, ``everyday``, ``ignored``; None if it is.

        Args:
            label: under which it was masked, and which is searched (`has_label`).
        """
        if len(string) - string.count(" ") < self.min_characters:
            return "too_short"
        if self.is_everyday is not None and self.is_everyday(string.lower().split(" "), label):
            return "everyday"
        return "ignored" if string in self._ignored else None


@dataclass(frozen=True)
class MaskedString:
    """A string that was masked under a label, as it is compared: how often, and in which row first."""

    string: str
    label: str
    count: int
    doc_id: str
    sentence_index: int


def masked_strings(rows: Iterable[Mapping[str, Any]], choice: Choice) -> list[MaskedString]:
    """Returns the distinct masked strings of some sentences, sorted.

    Args:
        rows: a sentence's ``doc_id`` and ``sentence_index``, its original ``text``, and its ``spans`` with ``start``,
            ``end`` and ``label``.
    """
    counts: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, str], tuple[str, int]] = {}
    for row in rows:
        for span in row["spans"]:
            written = row["text"][span["start"] : span["end"]]
            if choice.has_label(span["label"]) and (string := choice.normalise(written)):
                counts[(string, span["label"])] += 1
                first.setdefault((string, span["label"]), (row["doc_id"], row["sentence_index"]))
    return [MaskedString(*found, count, *first[found]) for found, count in sorted(counts.items())]


class StringIndex:
    """Finds many strings at once, aligned to words, in one look at each word and each pair of neighbours.

    Numbers are also found where they are grouped otherwise: a string of digits alone matches any run of neighbouring
    numbers that give the same digits (``5551234567`` and ``555-123-4567``).

    Args:
        strings: normalised string to the labels under which it was masked.
    """

    def __init__(self, strings: Mapping[str, str]) -> None:
        self.labels = strings
        self.singles: set[str] = set()
        self._lengths: dict[tuple[str, str], set[int]] = {}
        self._digits: dict[str, str] = {}
        for string in strings:
            words = string.split(" ")
            if len(words) == 1:
                self.singles.add(string)
            else:
                self._lengths.setdefault((words[0], words[1]), set()).add(len(words))
            if (joined := joined_digits(string)) is not None:
                self._digits[joined] = min(string, self._digits.get(joined, string))
        self._pairs = frozenset(self._lengths)

    def find(self, words: Sequence[str]) -> set[str]:
        """Returns the strings that stand in a text, given as the words of `words_of`."""
        found = self.singles.intersection(words)
        if self._pairs and not self._pairs.isdisjoint(pairwise(words)):
            for at, pair in enumerate(pairwise(words)):
                for length in self._lengths.get(pair, ()):
                    string = " ".join(words[at : at + length])
                    if string in self.labels:
                        found.add(string)
        if self._digits:
            found.update(string for _, _, string in self._runs_of_digits(words))
        return found

    def places(self, words: Sequence[str]) -> set[tuple[int, int]]:
        """Returns every half-open range of words in which a string of `find` stands."""
        found = {(at, at + 1) for at, word in enumerate(words) if word in self.singles}
        for at, pair in enumerate(pairwise(words)):
            for length in self._lengths.get(pair, ()):
                if at + length <= len(words) and " ".join(words[at : at + length]) in self.labels:
                    found.add((at, at + length))
        return found | {(start, stop) for start, stop, _ in self._runs_of_digits(words)}

    def _runs_of_digits(self, words: Sequence[str]) -> Iterator[tuple[int, int, str]]:
        for start, stop, joined in runs_of_digits(words):
            if joined in self._digits:
                yield start, stop, self._digits[joined]

    def parts_of(self, words: Iterable[str]) -> set[str]:
        """`fragments` of the strings of one word."""
        return fragments(self.singles, words)


def joined_digits(string: str) -> str | None:
    """The digits of a normalised string of nothing else, without spaces; None for any other."""
    joined = string.replace(" ", "")
    return joined if joined.isdigit() else None


def runs_of_digits(words: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Neighbouring words of digits alone, at most eight of them: half-open ranges of words, and the digits together."""
    for start, word in enumerate(words):
        if not word[0].isdigit():
            continue
        joined = ""
        for stop, piece in enumerate(words[start : start + MAX_PIECES], start=start + 1):
            if not piece.isdigit():
                break
            joined += piece
            yield start, stop, joined


def fragments(singles: set[str], words: Iterable[str]) -> set[str]:
    """Returns the strings of ``singles`` that are a part of one of ``words``.

    A learnt vocabulary holds parts of the words that it was learnt from. One that equals a masked string says nothing
    if a public word contains it ("mann" in "manner"), and gives a leak away otherwise.
    """
    lengths = sorted({len(single) for single in singles})
    return {
        part
        for word in words
        for length in lengths
        if length <= len(word)
        for at in range(len(word) - length + 1)
        if (part := word[at : at + length]) in singles
    }
