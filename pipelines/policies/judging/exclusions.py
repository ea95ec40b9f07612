"""Finds that stay unmasked: phrases and labels of the settings, and the names of fields."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from typing import Final

from pipelines.policies.detectors.finds import Range
from pipelines.policies.detectors.phrases import pieces
from pipelines.policies.judging.failing import FAILED_LABEL
from pipelines.policies.protocol import Sentence, Span
from pipelines.policies.redact import LITERAL_POLICY

_ENTITIES: Final = frozenset({
    "CARDINAL", "DATE", "DATE_TIME", "EVENT", "FAC", "GPE", "LANGUAGE", "LAW", "LOC", "LOCATION", "MONEY", "NORP",
    "NRP", "ORDINAL", "ORG", "ORGANIZATION", "PERCENT", "PERSON", "PRODUCT", "QUANTITY", "TIME", "WORK_OF_ART",
})  # fmt: skip
"""Labels of entities that a model finds. All other labels are those of patterns."""
_HANDLE: Final = ("USERNAME", "identifiers")
"""Label and policy of words in the form of a handle, as most names of fields are."""


class Exclusions:
    """Finds of policies that stay unmasked.

    Args:
        phrases: phrases to leave unmasked, in any letter case. A find with more words is still masked.
        labels: labels of finds to leave unmasked.
    """

    def __init__(
        self,
        phrases: Iterable[str] = (),
        labels: Iterable[str] = (),
    ) -> None:
        self._phrases = frozenset(pieces(phrase) for phrase in phrases) - {()}
        self._labels = frozenset(labels)
        self._names_in: Callable[[str], Sequence[Range]] | None = None
        self._models: frozenset[str] = frozenset()

    def with_names(self, names_in: Callable[[str], Sequence[Range]] | None, models: Iterable[str]) -> Exclusions:
        """Returns these exclusions and those of the names of fields.

        Args:
            names_in: function that returns the sorted ranges of a text that name a field. Finds end at such names. An
                entity that a model finds in such names alone stays unmasked, and so does a handle. Any other find
                stays masked.
            models: names of the policies that find entities with a model.
        """
        made = copy(self)
        made._names_in, made._models = names_in, frozenset(models)
        return made

    def kept(self, spans: Iterable[Span], sentence: Sentence) -> list[Span]:
        """Returns the spans that no exclusion covers. A failed row, and a mask in the original text, stay masked."""
        spans = list(spans)
        names = self._names_in(sentence.text) if self._names_in is not None and spans else ()
        if not (names or self._labels or self._phrases):
            return spans
        return [
            span
            for s in spans
            if (span := s if _must_stay(s) else self._without_names(s, sentence, names)) is not None
            and (_must_stay(s) or not self._drops(span, sentence))
        ]

    def _without_names(self, span: Span, sentence: Sentence, names: Sequence[Range]) -> Span | None:
        """Returns the rest of a find. One of names of fields alone stays, unless a model only guessed it."""
        is_guess = (span.policy in self._models and span.label in _ENTITIES) or (span.label, span.policy) == _HANDLE
        return _trimmed(span, sentence, names) or (None if is_guess else span)

    def _drops(self, span: Span, sentence: Sentence) -> bool:
        if span.label in self._labels:
            return True
        if not self._phrases:
            return False
        text = sentence.text[sentence.starts[span.start_token] : sentence.ends[span.end_token - 1]]
        return pieces(text) in self._phrases


def _must_stay(span: Span) -> bool:
    return span.label == FAILED_LABEL or span.policy == LITERAL_POLICY


def _trimmed(span: Span, sentence: Sentence, names: Sequence[Range]) -> Span | None:
    """Returns a span without the names of fields, and marks beside them, at its ends. None if nothing is left."""
    if not names:
        return span
    first, last = span.start_token, span.end_token

    def is_open(token: int) -> bool:
        start, end = sentence.starts[token], sentence.ends[token]
        return any(low <= start and end <= high for low, high in names)

    while first < last and is_open(first):
        first += 1
    while last > first and is_open(last - 1):
        last -= 1
    return span._replace(start_token=first, end_token=last) if first < last else None


def without_separator(spans: Iterable[Span], sentence: Sentence, separator: str) -> list[Span]:
    """Removes the separator between the two texts of a row from all spans. A span across it becomes two spans.

    Every such row has the separator, so it reveals nothing. An entity model may join a name at the end of one text and
    a name at the start of the next, and a row with a masked separator is no pair. Only the first occurrence counts,
    because readers of the row split it there.
    """
    at = sentence.text.find(separator)
    if at < 0:
        return list(spans)
    low = bisect_right(sentence.ends, at)
    high = bisect_left(sentence.starts, at + len(separator))
    return [
        part
        for span in spans
        for part in (
            span._replace(end_token=min(span.end_token, low)),
            span._replace(start_token=max(span.start_token, high)),
        )
        if part.start_token < part.end_token
    ]
