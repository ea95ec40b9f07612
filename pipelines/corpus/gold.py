"""Spans of known secrets, as annotation tools write them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final

from pipelines.corpus.items import GoldSpan

_STARTS: Final = ("start", "start_position", "start_offset", "begin")
_ENDS: Final = ("end", "end_position", "end_offset", "stop")
_FIELDS: Final = ("spans", "entities", "gold", "label", "labels")
_LABELS: Final = ("label", "entity_type", "entity", "type", "tag", "labels")

TAG: Final = re.compile(r"(O|[BIESLU])(?:-(.+))?")
"""Tag of a token: outside, or a prefix (BIOES or BILOU) and the label of an entity."""

FORMS: Final = (
    "a list of {start, end, label} or [start, end, label]: character offsets with 0 <= start < end <= length of the "
    "text, around more than white space, and a label"
)
"""Accepted form of spans, for messages."""


def span_of(value: Any) -> tuple[Any, Any, Any] | None:
    """Returns start, end and label of a span as they are in the file, or None if it has no such parts."""
    if isinstance(value, dict):
        start, end, label = (
            next((value[key] for key in keys if key in value), None) for keys in (_STARTS, _ENDS, _LABELS)
        )
        if isinstance(label, list):  # Label Studio
            label = next(iter(label), None)
        return None if start is None or end is None or label is None else (start, end, label)
    if isinstance(value, list) and len(value) == 3:  # doccano, spaCy
        return value[0], value[1], value[2]
    return None


def is_span(value: Any) -> bool:
    """Checks if a value has the form of a span, whatever its text."""
    found = span_of(value)
    return found is not None and type(found[0]) is int and type(found[1]) is int and isinstance(found[2], str)


def spans_of(value: Any, text: str) -> tuple[GoldSpan, ...]:
    """Returns the checked spans of a text.

    Raises:
        ValueError: the value has another form, or a span is not inside the text. The message quotes nothing of it.
    """
    if isinstance(value, str):  # a table's column
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise ValueError("not JSON") from None
    if not isinstance(value, list):
        raise ValueError("not a list")
    spans: list[GoldSpan] = []
    for item in value:
        found = span_of(item)
        # `type` and not `isinstance`: true and false are integers too.
        if found is None or type(found[0]) is not int or type(found[1]) is not int:
            raise ValueError("a span lacks start, end or label, or its offsets are not whole numbers")
        start, end, label = found
        if not isinstance(label, str) or not label:
            raise ValueError("a span lacks a label")
        if not 0 <= start < end <= len(text) or text[start:end].isspace():
            raise ValueError("a span must lie inside its text, around more than white space")
        spans.append(GoldSpan(start, end, label))
    return tuple(spans)


def annotated(record: Mapping[str, Any]) -> tuple[str, tuple[GoldSpan, ...]]:
    """Returns the text and the spans of a record of an annotation tool.

    Accepts ``text`` (or ``full_text``) with ``spans``, ``entities``, ``gold`` or ``label``, as Prodigy, doccano and
    Presidio write them, and Label Studio's ``data`` with ``annotations``.

    Raises:
        ValueError: the record has another form. The message quotes nothing of it.
    """
    data = record.get("data")
    if isinstance(data, dict) and isinstance(record.get("annotations"), list):
        texts = [value for value in (data.get("text"), *data.values()) if isinstance(value, str)]
        results = [
            result
            for annotation in record["annotations"]
            if isinstance(annotation, dict)
            for result in annotation.get("result") or ()
        ]
        values = [result.get("value") for result in results if isinstance(result, dict)]
        text = next(iter(texts), None)
        value: Any = [v for v in values if isinstance(v, dict) and "labels" in v]
    else:
        text = next((record[name] for name in ("text", "full_text") if name in record), None)
        value = next((record[name] for name in _FIELDS if isinstance(record.get(name), list)), None)
    if not isinstance(text, str) or value is None:
        raise ValueError('a gold record needs "text" and a list "spans" or "entities"')
    try:
        return text, spans_of(value, text)
    except ValueError as error:
        raise ValueError(f"{error}; spans must be {FORMS}") from None


def places_of(words: Sequence[str]) -> list[tuple[int, int]]:
    """Returns the places of words in the text that joins them by spaces."""
    ends = accumulate(len(word) + 1 for word in words)
    return [(end - 1 - len(word), end - 1) for word, end in zip(words, ends, strict=True)]


def tagged(places: Sequence[tuple[int, int]], tags: Iterable[str | None]) -> list[tuple[int, int, str]]:
    """Returns the entities of tags such as ``B-PER``."""
    spans: list[tuple[int, int, str]] = []
    before: str | None = None  # label of an entity that the next token may continue
    for (start, end), tag in zip(places, tags, strict=True):
        parts = TAG.fullmatch(tag or "O")
        prefix, label = (parts[1], parts[2]) if parts else ("O", None)
        if label:
            if prefix in "IEL" and before == label:
                start = spans.pop()[0]
            spans.append((start, end, label))
        before = label if prefix in "BI" else None
    return spans
