"""The policy ``identifiers``. It looks for each kind of find only in text that could hold one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from pipelines.policies.detectors.finds import Find
from pipelines.policies.detectors.identifiers.abroad import find_announced_abroad
from pipelines.policies.detectors.identifiers.announced import CUES, find_announced, find_dates_and_ages
from pipelines.policies.detectors.identifiers.beside import find_beside
from pipelines.policies.detectors.identifiers.codes import find_codes, find_letter_codes, find_numbers, find_plates
from pipelines.policies.detectors.identifiers.contacts import find_contacts, find_pages, find_spelled_mail
from pipelines.policies.detectors.identifiers.forms import find_forms
from pipelines.policies.detectors.identifiers.ibans import find_ibans
from pipelines.policies.detectors.identifiers.introduced import find_introduced
from pipelines.policies.detectors.identifiers.keys import (
    SHORTEST_KEY,
    find_announced_keys,
    find_hexadecimal,
    find_keys,
    find_machines,
)
from pipelines.policies.detectors.identifiers.persons import find_persons
from pipelines.policies.detectors.identifiers.places import find_placed
from pipelines.policies.detectors.identifiers.scripts import find_names_in_scripts
from pipelines.policies.detectors.identifiers.small import find_small_names
from pipelines.policies.detectors.identifiers.whole import made_whole
from pipelines.policies.detectors.identifiers.written import as_it_looks, find_encoded, in_original
from pipelines.policies.english.ordinary import without_ordinary
from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import NamedPolicy, Sentence, Span

_RANKED: Final = (
    *("SECRET_KEY", "PASSWORD", "IBAN_CODE", "CREDIT_CARD", "EMAIL_ADDRESS", "IP_ADDRESS", "MAC_ADDRESS"),
    *("DATE_OF_BIRTH", "AGE", "LICENSE_PLATE", "PHONE_NUMBER", "PERSON", "USERNAME", "CODE", "ID_NUMBER"),
)
"""Labels from the most to the least certain. Of several labels for the same characters, the first counts."""

_WORD: Final = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_PARTS: Final = re.compile("['’-]")
_DIGIT: Final = re.compile(r"\d")
_KEY_WORDS: Final = frozenset({"bearer", "authorization", "basic", "key", "apikey", "token", "secret", "api", "client"})
_AT_WORDS: Final = frozenset({"at", "com", "dot"})
_MIN_SPELLED: Final = 4


class IdentifiersPolicy(NamedPolicy):
    """Masks identifiers of one person, account or thing. All finds are by pattern, so every score is 1."""

    def __init__(self, options: PolicyOptions) -> None:
        super().__init__(options)
        self._dates_and_numbers = options.dates_and_numbers

    def find(self, sentence: Sentence) -> list[Span]:
        """Returns all finds, which may overlap, without those that `dates_and_numbers` leaves out."""
        found = sentence.spans(find_identifiers(sentence.text), self._name)
        return without_ordinary(found, sentence, self._dates_and_numbers)

    def complete(self, sentence: Sentence, finds: Sequence[Span]) -> list[Span]:
        """Returns the rest of the numbers and names that finds of any policy cover in part, and names beside them."""
        return [*made_whole(sentence, finds, self._name), *find_beside(sentence, finds, self._name)]


def find_identifiers(text: str) -> list[Find]:
    """Returns the identifiers of a text, sorted. They may overlap, but none lies inside another one."""
    kept: list[Find] = []
    finds = list(_all(text))
    looks = as_it_looks(text)
    if looks is not None:
        finds += in_original(list(_all(looks[0])), looks[1])
    for find in sorted(finds, key=lambda find: (find[0], -find[1], _RANKED.index(find[2]))):
        if not kept or find[1] > kept[-1][1]:
            kept.append(find)
    return kept


def _all(text: str) -> Iterator[Find]:
    words = list(_WORD.finditer(text))
    lower_words = [word[0].lower() for word in words]
    lower = set(lower_words)
    if "'" in text or "’" in text or "-" in text:
        lower.update(part for word in lower_words if not word.isalpha() for part in _PARTS.split(word))
    yield from find_persons(text, words, lower_words)
    yield from find_placed(text, words, lower_words)
    yield from find_names_in_scripts(text)
    yield from find_forms(text)
    yield from find_introduced(text)
    yield from find_small_names(text)
    if "=?" in text:
        yield from find_encoded(text)
    yield from find_letter_codes(text, words)
    yield from find_dates_and_ages(text)
    if not CUES.isdisjoint(lower):
        yield from find_announced(text)
    if not _KEY_WORDS.isdisjoint(lower):
        yield from find_announced_keys(text)
    if "@" in text or "＠" in text or "/u/" in text or "u/" in text:
        yield from find_contacts(text)
    if not _AT_WORDS.isdisjoint(lower) or "com" in text.lower():
        yield from find_spelled_mail(text)
    if "/" in text:
        yield from find_pages(text)
    has_digit = _DIGIT.search(text) is not None
    if has_digit or "_" in text or len(words) >= _MIN_SPELLED:
        yield from find_codes(text)
    if has_digit:
        yield from find_numbers(text)
        yield from find_plates(text)
        yield from find_announced_abroad(text)
        yield from find_ibans(text)
        yield from find_hexadecimal(text)
    if has_digit or ":" in text:
        yield from find_machines(text)
    if "-----BEGIN" in text or max(map(len, text.split()), default=0) >= SHORTEST_KEY:
        yield from find_keys(text)
