"""Reads documents from txt and jsonl files, one at a time, and says of every row that it cannot use why not.

Nothing is dropped in silence and nothing stops the run: a bad row becomes a `Rejected` with file, row, reason and
advice, never with its text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pipelines.context import Piece
from pipelines.corpus.rows import BOM, HashedStream, Row, iter_rows, row_kind
from pipelines.errors import InputError

Reason = Literal[
    "undecodable", "nul", "over_long", "bad_json", "not_an_object", "missing_text", "wrong_type", "bad_fold",
    "bad_spans", "empty",
]  # fmt: skip

FOLDS = {"train": "train", "valid": "valid", "validation": "valid", "dev": "valid", "test": "test"}

# A character takes at most 4 bytes in UTF-8, and 12 as a pair of JSON escapes; a JSON row also holds other fields.
_TXT_BYTES_PER_CHAR = 4
_JSON_BYTES_PER_CHAR = 12
_JSON_OTHER_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How rows become documents; see ``CorpusConfig`` for each field."""

    txt_document: str = "file"
    text_field: str = "text"
    id_field: str = "id"
    domain_field: str = "domain"
    fold_field: str = "fold"
    label_field: str = "label"
    gold_field: str = "spans"
    max_document_chars: int = 1_000_000


@dataclass(frozen=True)
class GoldSpan:
    """A secret marked by hand or by a simulator: half-open character offsets in the document's text."""

    start: int
    end: int
    label: str


@dataclass(frozen=True, kw_only=True)
class Document:
    """One document. ``gold`` is None when the row has no gold field, and may be empty when it has."""

    name: str
    row: int
    text: str
    source_id: str | None = None
    domain: str | None = None
    fold: str | None = None
    label: str | None = None
    gold: tuple[GoldSpan, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Rejected:
    """A row that cannot be used. ``detail`` says what to do and never quotes the text."""

    name: str
    row: int
    reason: Reason
    detail: str
    num_bytes: int

    def row_values(self) -> dict[str, Any]:
        """The row of the ``rejected`` table."""
        return {
            "source_file": self.name,
            "source_row": self.row,
            "reason": self.reason,
            "detail": self.detail,
            "num_bytes": self.num_bytes,
        }


class _BadRow(Exception):
    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(reason)
        self.reason: Reason = reason
        self.detail = detail


def read_documents(piece: Piece, options: ReadOptions) -> Iterator[Document | Rejected]:
    """The documents and rejected rows of one piece, in order. Blank lines are skipped.

    Memory stays below about 12 bytes for each of ``max_document_chars``, however long a row is.

    Raises:
        InputError: the file cannot be read, or no longer holds the bytes that were indexed.
    """
    kind = row_kind(piece.format, options.txt_document)
    limit = options.max_document_chars * _TXT_BYTES_PER_CHAR + len(BOM) + len(b"\r\n")
    if piece.format == "jsonl":
        limit = options.max_document_chars * _JSON_BYTES_PER_CHAR + _JSON_OTHER_BYTES
    try:
        with Path(piece.path).open("rb", buffering=1 << 20) as file:
            file.seek(piece.start_byte)
            stream = HashedStream(file, piece.start_byte, piece.end_byte - piece.start_byte)
            at_file_start = piece.start_byte == 0
            for row in iter_rows(stream, kind, piece.first_row, limit):
                try:
                    document = _document(row, piece, options, at_file_start)
                    if document is not None:
                        yield document
                except _BadRow as bad:
                    yield Rejected(
                        name=piece.name,
                        row=row.number,
                        reason=bad.reason,
                        detail=bad.detail,
                        num_bytes=row.num_bytes,
                    )
                at_file_start = False
    except OSError:
        raise InputError("an input file can no longer be read. Check corpus.inputs, and run again.") from None
    if stream.cut() != piece.digest:
        raise InputError("an input file changed while it was being read. Run again when nothing writes to it.")


def _document(row: Row, piece: Piece, options: ReadOptions, at_file_start: bool) -> Document | None:
    if row.data is None:
        raise _over_long(piece, options)
    data = row.data.removeprefix(BOM) if at_file_start else row.data
    is_whole_file = piece.format == "txt" and options.txt_document == "file"
    if not is_whole_file and not data.strip():
        return None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _BadRow(
            "undecodable", f"not UTF-8 (byte {error.start} of the row). Convert the file, for example with iconv."
        ) from None
    if "\0" in text:
        raise _BadRow("nul", "holds a NUL character: binary data, or UTF-16. Convert the file to UTF-8.")
    if piece.format == "jsonl":
        return _from_json(text, row, piece, options)
    if not is_whole_file:
        text = text.removesuffix("\n").removesuffix("\r")
    if len(text) > options.max_document_chars:
        raise _over_long(piece, options)
    if not text or text.isspace():
        if not is_whole_file:
            return None
        raise _BadRow("empty", "the file holds no text.")
    return Document(name=piece.name, row=row.number, text=text)


def _over_long(piece: Piece, options: ReadOptions) -> _BadRow:
    what = f"longer than corpus.max_document_chars = {options.max_document_chars}."
    if piece.format == "jsonl" or options.txt_document == "paragraph":
        return _BadRow("over_long", f"{what} Split the document, or raise corpus.max_document_chars.")
    return _BadRow(
        "over_long",
        f'{what} Set corpus.txt_document = "paragraph" if the file holds several texts,'
        " or raise corpus.max_document_chars.",
    )


def _from_json(line: str, row: Row, piece: Piece, options: ReadOptions) -> Document:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise _BadRow("bad_json", "not valid JSON. A JSONL file holds one JSON object a line.") from None
    if not isinstance(value, dict):
        raise _BadRow("not_an_object", "not a JSON object. A JSONL file holds one object a line.")
    text = value.get(options.text_field)
    if text is None:
        raise _BadRow("missing_text", "has no text. Set corpus.text_field to the name of the field that holds it.")
    if not isinstance(text, str):
        raise _BadRow("wrong_type", "corpus.text_field names a field that is not a string.")
    if "\0" in text:
        raise _BadRow("nul", "the text holds a NUL character. Remove it.")
    if len(text) > options.max_document_chars:
        raise _over_long(piece, options)
    if not text or text.isspace():
        raise _BadRow("empty", "the text is empty.")
    document = Document(
        name=piece.name,
        row=row.number,
        text=text,
        source_id=_scalar(value.get(options.id_field), "id_field", allow_fraction=False) or None,
        domain=_scalar(value.get(options.domain_field), "domain_field"),
        fold=_fold(value.get(options.fold_field)),
        label=_scalar(value.get(options.label_field), "label_field"),
        gold=_gold(value.get(options.gold_field), text),
    )
    labels = [span.label for span in document.gold or ()]
    try:
        # JSON can escape half a surrogate pair, which no encoding of text can store.
        for field in (text, document.source_id, document.domain, document.label, *labels):
            if field is not None:
                field.encode("utf-8")
    except UnicodeEncodeError:
        raise _BadRow(
            "undecodable", "holds half of a surrogate pair as a JSON escape. Write the character whole."
        ) from None
    return document


def _scalar(value: Any, field: str, allow_fraction: bool = True) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        if allow_fraction:
            return "true" if value else "false"
    elif isinstance(value, int) or (allow_fraction and isinstance(value, float) and math.isfinite(value)):
        return str(value)
    raise _BadRow("wrong_type", f"corpus.{field} names a field that is neither a string nor a number.")


def _fold(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or value not in FOLDS:
        raise _BadRow("bad_fold", 'the fold is none of "train", "valid" and "test".')
    return FOLDS[value]


def _gold(value: Any, text: str) -> tuple[GoldSpan, ...] | None:
    if value is None:
        return None
    detail = (
        "corpus.gold_field must be a list of {start, end, label}: character offsets with 0 <= start < end <= length"
        " of the text, around more than white space, and a label."
    )
    if not isinstance(value, list):
        raise _BadRow("bad_spans", detail)
    spans: list[GoldSpan] = []
    for item in value:
        start, end, label = (item.get(k) for k in ("start", "end", "label")) if isinstance(item, dict) else (0, 0, "")
        # `type` and not `isinstance`: true and false are integers too.
        if type(start) is not int or type(end) is not int or not isinstance(label, str) or not label:
            raise _BadRow("bad_spans", detail)
        if not 0 <= start < end <= len(text) or text[start:end].isspace():
            raise _BadRow("bad_spans", detail)
        spans.append(GoldSpan(start, end, label))
    return tuple(spans)
