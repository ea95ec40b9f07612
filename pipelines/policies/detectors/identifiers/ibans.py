"""Finds bank account numbers (IBAN, ISO 13616), also grouped, in lower case, or with too many or too few digits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pipelines.policies.detectors.finds import Find
from pipelines.policies.english.word_lists import word_lists

_LENGTHS: Final = {entry[:2].upper(): int(entry[2:]) for entry in word_lists("identifiers")["iban_lengths"]}
"""Number of letters and digits, by country."""

_HEAD: Final = re.compile(r"(?<![A-Za-z0-9])([A-Za-z]{2})[ ]?\d{2}(?=[ -]{0,2}[A-Za-z0-9])")
_GROUP: Final = re.compile(r"[ .-]{0,2}([A-Za-z0-9]+)")
_SLACK: Final = 3
_MOST: Final = 36
_COUNTRY: Final = 2
_BANK_CODE: Final = 4
_BANK: Final = 8


def find_ibans(text: str) -> Iterator[Find]:
    """Yields IBANs with a correct check sum, and strings that differ from the form of one by a few characters."""
    for head in _HEAD.finditer(text):
        wanted = _LENGTHS.get(head[1].upper())
        if wanted is None:
            continue
        ends = _ends_of_groups(text, head.start())
        exact = [end for end, length in ends if length == wanted]
        if exact and passes_mod_97(text[head.start() : exact[0]]):
            yield head.start(), exact[0], "IBAN_CODE"
            continue
        near = [end for end, length in ends if abs(length - wanted) <= _SLACK]
        written = text[head.start() : near[-1]] if near else ""
        num_digits = sum(map(str.isdigit, written))
        if near and num_digits * 2 > sum(map(str.isalnum, written)):
            yield head.start(), near[-1], "IBAN_CODE"


def _ends_of_groups(text: str, start: int) -> list[tuple[int, int]]:
    """Returns the ends of the groups after a head, each with the number of letters and digits before it.

    A word ends the groups.
    """
    ends = []
    at, length = start, 0
    while length <= _MOST and (group := _GROUP.match(text, at)) is not None:
        written = group[1][: _MOST + 1 - length]
        is_word = written.isalpha() and (length >= _BANK or len(written) != _BANK_CODE)
        if at > start and is_word and not (length == 0 and len(written) == _COUNTRY):
            break
        at, length = group.start(1) + len(written), length + len(written)
        ends.append((at, length))
    return ends


def passes_mod_97(written: str) -> bool:
    """Computes the check of ISO 7064, MOD 97-10."""
    plain = "".join(filter(str.isalnum, written)).upper()
    return int("".join(str(int(c, 36)) for c in plain[4:] + plain[:4])) % 97 == 1
