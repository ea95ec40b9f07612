"""Finds names by the names that a row holds already: their further mentions, their open parts, and the rest of a list.

Rules, of which each asks for a name that some policy has found:

* A *part* of the name of a person, or of a mail address, is masked wherever else it stands in the row.
* A word with a capital and of no dictionary, directly beside a found name, belongs to it. So does an initial, or a word
  such as "van", between two parts of a name, and a family name in capitals before a comma.
* The items of a list in which other items are names are names, if they have the form of one.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pipelines.policies.detectors.identifiers.places import EVERYDAY, WORD_NAMES, is_listed
from pipelines.policies.english.common_words import FUNCTION_WORDS
from pipelines.policies.english.known_words import WORDS
from pipelines.policies.english.word_lists import word_lists
from pipelines.policies.protocol import PLACEHOLDER, Sentence, Span

_PERSONS: Final = frozenset({"PERSON", "NAME"})
_NAMED: Final = _PERSONS | {"ORG", "ORGANIZATION", "GPE", "LOC", "LOCATION", "NORP", "NRP"}
_OPEN: Final = 0
_HIDDEN: Final = 1
_NAME: Final = 2
_PERSON: Final = 3
_LETTER: Final = "(?:[^\\W\\d_]|[\u0300-\u036f])"
_WORD: Final = re.compile(rf"[^\W\d_]{_LETTER}{{0,40}}(?:['’-][^\W\d_]{_LETTER}{{0,40}}){{0,3}}")
_REPEATED: Final = re.compile(r"(?<!\w)([^\W\d_]{2,40}+), \1(?!\w)", re.I)
_CAPITAL: Final = re.compile(
    rf"[^\W\d_a-zß-öø-ÿ](?<![^\W\d_][^\W\d_]){_LETTER}{{0,40}}(?:['’-][^\W\d_]{_LETTER}{{0,40}}){{0,3}}"
)
"""A word with a capital. The pattern begins with the capital, because Python finds such a pattern faster."""

_SEPARATOR: Final = re.compile(r"[,;+&\n\[\]()|:/<>{}\"]|[ ](?:and|or)[ ]")
_LEAD: Final = re.compile(r"[ \t>]{0,8}(?:[-*•–][ \t]{1,3}|\d{1,2}[.)]?[ \t]{1,2})?")
_ITEM: Final = re.compile(
    rf"{_LETTER}[\w\u0300-\u036f'’.-]{{0,30}}(?:[ ]{_LETTER}[\w\u0300-\u036f'’.-]{{0,30}}){{0,2}}"
)
_AT: Final = re.compile(r"@|＠|[ (\[]at[ )\]]")
_LINKS: Final = frozenset({",", ";", "+", "&", "/", " and ", " or "})
_GAPS: Final = frozenset({" ", ". "})
_JOINTS: Final = word_lists("places")["particles"] - {"do", "la", "le", "das"}
_TRIMMED: Final = " \t.!?'’"
_MODALS: Final = frozenset({"will", "may"})
_KNOWN: Final = (
    WORDS
    | EVERYDAY
    | frozenset().union(*word_lists("known").values())
    | word_lists("ordinary")["technical"]
    | word_lists("ordinary")["abbreviations"]
)
_SHORTEST: Final = 3
_LONG: Final = 4
_FEW: Final = 2
_SEVERAL: Final = 3
_ROUNDS: Final = 3


@functools.lru_cache(maxsize=65_536)
def is_unknown(lower: str) -> bool:
    """Returns true for a word in small letters that no list and no dictionary knows, or only as a name."""
    if len(lower) < _SHORTEST or lower == PLACEHOLDER.lower() or lower in _KNOWN:
        return False
    stems = (lower.removesuffix(end) for end in ("s", "es", "d", "ed", "ing", "er", "ly", "'s", "’s", "n't", "nt"))
    return is_listed(lower) or not any(stem in _KNOWN for stem in stems)


def find_beside(sentence: Sentence, finds: Sequence[Span], policy: str) -> list[Span]:
    """Returns spans for the names that stand beside found ones, in a list with them, or are parts of them."""
    if not _may_add(sentence, finds):
        return []
    row = _Row(sentence, finds)
    if _OPEN not in row.kinds:
        return []
    mail = dict.fromkeys(_parts_of_mail(sentence, finds), False)
    for _ in range(_ROUNDS):
        before = len(row.added)
        row.grow()
        row.fill_lists()
        row.repeat({**row.parts(), **mail})
        if len(row.added) == before:
            break
    return [Span(*tokens, "PERSON", policy) for tokens in row.added]


def _may_add(sentence: Sentence, finds: Sequence[Span]) -> bool:
    """Returns false, at little cost, if no word outside the finds can be added."""
    text = sentence.text
    labels = {find.label for find in finds}
    if "EMAIL_ADDRESS" in labels:
        return True
    if _NAMED.isdisjoint(labels):
        return False
    if ", " in text and _REPEATED.search(text):
        return True
    ranges = sorted({(sentence.starts[find.start_token], sentence.ends[find.end_token - 1]) for find in finds})
    counts: Counter[str] = Counter()
    for start, end in ranges:
        following = _WORD.match(text, end + 1)
        if following is not None and (len(following[0]) == 1 or following[0].lower() in _JOINTS):
            return True
        for word in _WORD.findall(text[start:end].lower()):
            if _may_stand_alone(word):
                counts = counts or Counter(_WORD.findall(text.lower()))
                if counts[word] > 1:
                    return True
    at, end = 0, 0
    for match in _CAPITAL.finditer(text):
        while at < len(ranges) and ranges[at][0] <= match.start():
            end = max(end, ranges[at][1])
            at += 1
        if match.end() > end and _may_be_added(match[0]):
            return True
    return False


@functools.lru_cache(maxsize=65_536)
def _may_stand_alone(lower: str) -> bool:
    return is_unknown(lower) or lower in WORD_NAMES or (len(lower) == _FEW and lower not in FUNCTION_WORDS)


@functools.lru_cache(maxsize=65_536)
def _may_be_added(word: str) -> bool:
    lower = word.lower()
    if not word[0].isupper() or lower in FUNCTION_WORDS:
        return False
    return len(lower) == 1 or _may_stand_alone(lower) or (word.isupper() and lower not in WORDS)


def _parts_of_mail(sentence: Sentence, finds: Sequence[Span]) -> Iterator[str]:
    """Yields the words before the "@" of mail addresses."""
    for find in finds:
        if find.label == "EMAIL_ADDRESS":
            mail = sentence.text[sentence.starts[find.start_token] : sentence.ends[find.end_token - 1]].lower()
            local = _AT.split(mail, maxsplit=1)[0]
            yield from (part for part in re.split(r"[^a-z]|dot", local) if len(part) > _LONG and is_unknown(part))


class _Row:
    """The words of a row, and which of them are masked.

    Attributes:
        kinds: state of each word: `_OPEN`, `_HIDDEN`, `_NAME` or `_PERSON`.
        added: half-open ranges of tokens that are found beside others.
    """

    def __init__(self, sentence: Sentence, finds: Sequence[Span]) -> None:
        self._sentence, self._text = sentence, sentence.text
        self._words = list(_WORD.finditer(sentence.text))
        self._lower = [word[0].lower() for word in self._words]
        ranges: dict[int, list[tuple[int, int]]] = {_HIDDEN: [], _NAME: [], _PERSON: []}
        for find in finds:
            kind = _PERSON if find.label in _PERSONS else _NAME if find.label in _NAMED else _HIDDEN
            ranges[kind].append((sentence.starts[find.start_token], sentence.ends[find.end_token - 1]))
        of_characters = bytearray(len(self._text))
        for kind, found in ranges.items():  # the largest kind last
            for start, end in found:
                of_characters[start:end] = bytes([kind]) * (end - start)
        self.kinds = [min(of_characters[slice(*word.span())]) for word in self._words]
        self.added: list[tuple[int, int]] = []

    def _add(self, word: int) -> None:
        run = self._sentence.widen(*self._words[word].span())
        if self.kinds[word] < _NAME and run is not None:
            if self.kinds[word] == _OPEN:
                self.added.append(run)
            self.kinds[word] = _PERSON

    def _gap(self, word: int) -> str:
        """Returns what stands between a word and the next one."""
        if not 0 <= word < len(self._words) - 1:
            return "\n"
        return self._text[self._words[word].end() : self._words[word + 1].start()]

    def _is_capital(self, word: int) -> bool:
        return self._words[word][0][0].isupper()

    def _is_part(self, word: int) -> bool:
        """Returns true for an open word with a capital that may be a part of a name."""
        lower = self._lower[word]
        return self.kinds[word] == _OPEN and self._is_capital(word) and is_unknown(lower)

    def parts(self) -> dict[str, bool]:
        """Returns parts of names of persons that may stand elsewhere alone, and if they are written with a capital.

        A name of one word counts if it is of no dictionary, and no abbreviation.
        """
        found: dict[str, bool] = {}
        for at, (kind, lower) in enumerate(zip(self.kinds, self._lower, strict=True)):
            if kind == _PERSON:
                in_name = any(
                    self._gap(min(at, other)) == " " and 0 <= other < len(self.kinds) and self.kinds[other] >= _NAME
                    for other in (at - 1, at + 1)
                )
                is_lone = len(lower) > _SHORTEST and self._is_capital(at) and not self._words[at][0].isupper()
                is_short = self._words[at][0].isupper() and len(lower) <= _LONG and not self._text.isupper()
                if (is_unknown(lower) and not is_short and (in_name or is_lone)) or (
                    in_name and self._is_capital(at) and (lower in WORD_NAMES or len(lower) == _FEW)
                ):
                    found[lower] = found.get(lower, True) and self._is_capital(at)
        return found

    def repeat(self, parts: Mapping[str, bool]) -> None:
        """Adds the other mentions of parts of names, in small letters only if the part is, or is a listed name.

        A part that is also a word counts with a capital inside a sentence, or alone in its line.
        """
        for at, lower in enumerate(self._lower):
            if self.kinds[at] != _OPEN:
                continue
            is_capital = self._is_capital(at)
            follows = self._gap(at) == ", " and at + 1 < len(self.kinds) and lower == self._lower[at + 1]
            if follows and self.kinds[at + 1] == _PERSON:  # Bond, James Bond
                self._add(at)
            elif lower in parts and is_unknown(lower):
                if is_capital or not parts[lower] or is_listed(lower):
                    self._add(at)
            elif lower in parts and is_capital:
                is_inside = at > 0 and self._gap(at - 1) in (" ", ", ") and len(lower) > _FEW
                if is_inside or (self._gap(at - 1).endswith("\n") and self._gap(at).lstrip(" ,.").startswith("\n")):
                    self._add(at)

    def grow(self) -> None:
        """Adds the words beside found names that belong to them."""
        last = len(self._words) - 1
        for order in (range(last + 1), range(last, -1, -1)):
            step = order.step
            for at in order:
                if self.kinds[at] < _NAME or not self._is_capital(at) or self._lower[at] == PLACEHOLDER.lower():
                    continue
                beside, beyond = at + step, at + 2 * step
                if not 0 <= beside <= last or self.kinds[beside] != _OPEN:
                    continue
                gap = self._gap(min(at, beside))
                if gap == ", " and step < 0 and self._is_surname_before(beside, at):
                    self._add(beside)
                if gap not in _GAPS:
                    continue
                if self.kinds[at] == _NAME and not self._is_lone(at):
                    continue
                is_name = gap == " " and (self._is_part(beside) or self._is_first_name(beside, step))
                if is_name or self._is_initial_of(beside, at):
                    self._add(beside)
                elif 0 <= beyond <= last and self._gap(min(beside, beyond)) in _GAPS and self._is_joint(beside):
                    is_name = self.kinds[beyond] >= _NAME and self._is_capital(beyond)
                    if is_name or self._is_part(beyond) or self._is_first_name(beyond, step):
                        self._add(beside)
                        self._add(beyond)

    def _is_lone(self, word: int) -> bool:
        """Returns true for the only word of a find that need not be a person: "Nwosu" as an organisation."""
        written = self._words[word][0]
        return (written.istitle() or (written.isupper() and len(written) > _LONG)) and not any(
            0 <= other < len(self.kinds) and self.kinds[other] >= _NAME and self._gap(min(word, other)) in _GAPS
            for other in (word - 1, word + 1)
        )

    def _is_initial_of(self, word: int, name: int) -> bool:
        """Returns true for a letter beside a name of a person: "P K RAMAN". "A" and "I" are too often words."""
        is_letter = len(self._lower[word]) == 1 and self._is_capital(word) and self._lower[word] not in "ai"
        return is_letter and self.kinds[name] == _PERSON

    def _is_joint(self, word: int) -> bool:
        """Returns true for an initial, and for a word such as "van"."""
        return (len(self._lower[word]) == 1 and self._is_capital(word)) or self._lower[word] in _JOINTS

    def _is_first_name(self, word: int, step: int) -> bool:
        lower = self._lower[word]
        is_name = lower in WORD_NAMES and lower not in _MODALS
        return step < 0 and self.kinds[word] == _OPEN and self._is_capital(word) and is_name

    def _is_surname_before(self, word: int, given: int) -> bool:
        """Returns true for a name in capitals before a comma and a found name in capitals, in other text."""
        in_capitals = self._words[word][0].isupper() and self._words[given][0].isupper() and not self._text.isupper()
        return in_capitals and self.kinds[given] == _PERSON and self._lower[word] not in WORDS

    def fill_lists(self) -> None:
        """Adds the items of lists that have the form of a name, if other items are names of persons."""
        chain: list[range] = []
        bullets: list[range] = []
        is_bracketed = False
        for words, separator, is_bullet in self._items():
            if separator not in _LINKS or not words:
                self._fill(chain, _FEW if is_bracketed else _SEVERAL)
                chain = []
                is_bracketed = separator == "["
            if words:
                chain.append(words)
                if is_bullet:
                    bullets.append(words)
        self._fill(chain, _FEW if is_bracketed else _SEVERAL)
        self._fill(bullets, _FEW)

    def _fill(self, chain: Sequence[range], shortest: int) -> None:
        persons = [all(self.kinds[word] == _PERSON for word in words) for words in chain]
        if len(chain) < shortest or not any(persons):
            return
        for words in chain:
            is_new = any(is_unknown(self._lower[word]) for word in words)
            if is_new or sum(persons) >= _FEW:
                for word in words:
                    self._add(word)

    def _items(self) -> Iterator[tuple[range, str, bool]]:
        """Yields the words of each part of the text between marks, the mark before it, and if a bullet begins it.

        There are no words if the part has not the form of a name.
        """
        text = self._text
        if not any(mark in text for mark in (", ", "; ", "\n", " + ", "/")):
            return
        at, word, separator = 0, 0, ""
        for match in [*_SEPARATOR.finditer(text), None]:
            end = match.start() if match is not None else len(text)
            lead = _LEAD.match(text, at, end)
            start = lead.end() if lead is not None else at
            first = word
            while word < len(self._words) and self._words[word].start() < end:
                first += self._words[word].start() < start
                word += 1
            content = text[start:end].strip(_TRIMMED)
            if content or separator not in _LINKS:
                words = range(first, word) if _ITEM.fullmatch(content) else range(0)
                is_bullet = separator in ("", "\n") and lead is not None and lead[0].strip() != ""
                yield words if all(map(self._may_be_item, words)) else range(0), separator, is_bullet
                separator = ""
            if match is not None:
                separator = match[0] if not separator or separator in _LINKS else separator
                at = match.end()

    def _may_be_item(self, word: int) -> bool:
        lower = self._lower[word]
        if self.kinds[word] == _PERSON or lower in _JOINTS:
            return True
        if lower in FUNCTION_WORDS:
            return False
        is_initial = len(lower.replace("-", "")) <= _FEW and self._words[word][0].isupper()
        return self._is_capital(word) and (is_unknown(lower) or lower in WORD_NAMES or is_initial or len(lower) == _FEW)
