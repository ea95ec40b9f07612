"""Surrogates that keep persons together: one name for all mentions in a document, and dates that move together.

The text of a row still depends on this row, the key and the document's name alone. A surrogate is never a word of its
row, so it never repeats a part of a secret of the row.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Sequence
from typing import Final, NamedTuple

from pipelines.mask import MASK
from pipelines.policies import labels
from pipelines.policies.labels import ReviewLabels
from pipelines.policies.protocol import Span
from pipelines.policies.redact import replace_ranges
from pipelines.policies.surrogate_dates import shifted
from pipelines.policies.surrogate_names import around, in_case_of, names, parts_of
from pipelines.policies.surrogates import (
    ATTEMPTS,
    BY_LABEL,
    Draws,
    Replaced,
    Surrogates,
    make_surrogate,
    restored,
    review_label_of,
    runs_of,
)

_IN_CASE: Final = frozenset({labels.PERSON, labels.LOCATION, labels.ORGANISATION})
"""Labels of secrets that are the same in upper and lower case."""

_LETTERS: Final = "ABCDEFGHJKLMNOPQRSTUVWXYZ"


class _Unit(NamedTuple):
    """A piece of text with a surrogate of its own.

    Attributes:
        start, end: half-open characters of the text.
        label, own: label of reviews, and of the policy.
        kind: list of names that the surrogate is drawn from; None for other secrets.
        key: text that decides on the surrogate.
        before, after: text beside the main word of a name.
    """

    start: int
    end: int
    label: str
    own: str
    kind: str | None
    key: str
    before: str = ""
    after: str = ""


class LinkedSurrogates(Surrogates):
    """Writes surrogates for masked text, word by word for names.

    Args:
        key, names, consistent: as for `Surrogates`.
        persons: ``neutral``, ``gendered``, or ``apart`` if each mention of a person has a surrogate of its own.
        shift_dates: greatest number of days by which the dates of a document are shifted; 0 draws other dates.
        day_first: true if 3/5/2020 is in May.
    """

    def __init__(
        self,
        key: bytes,
        names: ReviewLabels,
        consistent: str = "document",
        *,
        persons: str = "neutral",
        shift_dates: int = 0,
        day_first: bool = False,
    ) -> None:
        super().__init__(key, names, consistent)
        self._persons, self._shift_dates, self._day_first = persons, shift_dates, day_first

    def text(
        self, document: str, text: str, starts: Sequence[int], ends: Sequence[int], spans: Sequence[Span]
    ) -> tuple[str, list[Replaced]]:
        """Returns the text with surrogates, and the text that each one replaces (`Surrogates.text`)."""
        units: list[_Unit] = []
        masks: list[tuple[int, int, str]] = []
        runs = list(runs_of(text, starts, ends, spans))
        for start, end, inside, is_unnamed in runs:
            if is_unnamed:
                masks.append((start, end, MASK))
            else:
                units += self._units(text, start, end, *review_label_of(inside, self._names))
        table: dict[str, Replaced] = {}
        originals: dict[str, str] = {}
        pieces = list(masks)
        present = text.casefold()
        for unit in units:
            original = text[unit.start : unit.end]
            found = self._surrogate(document, unit, original, present, table, originals)
            if found is None:
                break
            pieces.append((unit.start, unit.end, found))
            table[found] = Replaced(found, original, unit.label)
        else:
            written = replace_ranges(text, sorted(pieces))
            if restored(written, table.values(), any_case=True) == replace_ranges(text, masks):
                return written, list(table.values())
        return replace_ranges(text, [(start, end, MASK) for start, end, *_ in runs]), []

    def _units(self, text: str, start: int, end: int, label: str, own: str) -> list[_Unit]:
        original = text[start:end]
        is_name = label == labels.PERSON and own not in BY_LABEL and self._persons != "apart"
        parts = parts_of(original, gendered=self._persons == "gendered") if is_name else None
        if parts is None:
            key = " ".join(original.casefold().split()) if label in _IN_CASE else original
            return [_Unit(start, end, label, own, None, key)]
        return [_Unit(start + p.start, start + p.end, label, own, p.kind, p.word, p.before, p.after) for p in parts]

    def _surrogate(
        self,
        document: str,
        unit: _Unit,
        original: str,
        present: str,
        table: dict[str, Replaced],
        originals: dict[str, str],
    ) -> str | None:
        """Returns the first draw that is no text of the row and stands for one secret; None without one."""
        if unit.label == labels.DATE and (moved := self._moved(document, original)) is not None:
            known = table.get(moved)
            if known is None or known.original == original:
                return moved
        for attempt in range(ATTEMPTS):
            draws = self._draws(document, unit.label, unit.kind or unit.own, unit.key, attempt)
            if unit.kind is None:
                made = make_surrogate(unit.label, unit.own, draws)
                made = in_case_of(made, original) if unit.label in _IN_CASE and unit.own not in BY_LABEL else made
            else:
                letters = iter(draws.some(_LETTERS, 2 * len(original)))
                main = draws.one(names(unit.kind))
                rest = original[len(unit.before) : len(original) - len(unit.after)]
                made = around(unit.before, letters) + in_case_of(main, rest) + around(unit.after, letters)
            known = table.get(made)
            if made.casefold() in present or (known is not None and known.original != original):
                continue
            folded = original.casefold()
            if originals.setdefault(made.casefold(), folded) == folded:
                return made
        return None

    def _draws(self, document: str, label: str, kind: str, key: str, attempt: int) -> Draws:
        scope = document if self._consistent == "document" else None
        message = json.dumps(["linked", scope, label, kind, key, attempt])
        return Draws(hmac.digest(self._key, message.encode(), "sha256"))

    def _moved(self, document: str, date: str) -> str | None:
        """Returns a date shifted by the document's number of weeks, which is not zero; None if it is no such date."""
        most = self._shift_dates // 7
        if not most:
            return None
        drawn = self._draws(document, labels.DATE, "weeks", "", 0).below(2 * most)
        weeks = drawn - most if drawn < most else drawn - most + 1
        return shifted(date, weeks, day_first=self._day_first)
