"""Reads texts with known secrets, as annotation tools export them: JSON lines, or one JSON array."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from typing import IO, Any, cast

from pipelines.corpus.gold import annotated
from pipelines.corpus.items import BadRow
from pipelines.corpus.json_stream import json_parts
from pipelines.corpus.records import is_unicode
from pipelines.errors import InputError

_LONGEST_BYTES = 64 << 20


def gold_records(file: IO[bytes], name: str) -> Iterator[dict[str, Any]]:
    """Yields the text and the spans ``(start, end, label)`` of each record, under the keys ``text`` and ``gold``.

    Raises:
        InputError: a record is not JSON, or has another form. The message names its number.
    """
    for number, record in enumerate(_records(file), 1):
        try:
            if not isinstance(record, dict):
                raise ValueError("not a JSON object")
            text, spans = annotated(record)
            if not is_unicode(text):
                raise ValueError("holds half of a surrogate pair, which is not a character")
        except ValueError as error:
            raise InputError(f"{name}, record {number}: {error}") from None
        yield {"text": text, "gold": [(span.start, span.end, span.label) for span in spans]}


def _records(file: IO[bytes]) -> Iterator[Any]:
    """Yields the records of a file, and None for what is no JSON."""
    head = cast("Any", file).peek(1 << 12)[: 1 << 12] if hasattr(file, "peek") else b""
    if head.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"["):
        if head.startswith(codecs.BOM_UTF8):
            file.read(len(codecs.BOM_UTF8))
        for _, value in json_parts(cast("Any", file), lambda place: place == "item", limit_bytes=_LONGEST_BYTES):
            yield None if isinstance(value, BadRow) else value
        return
    for line in file:
        if line := line.removeprefix(codecs.BOM_UTF8).strip():
            try:
                yield json.loads(line)
            except (ValueError, RecursionError):
                yield None
