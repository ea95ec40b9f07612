"""Reads documents from input files, one row at a time, and gives a reason for every row that it cannot use.

No row is dropped silently, and no bad row stops the run: a bad row becomes a `Rejected` with file, row, reason and
advice, never with its text.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from pipelines.context import Piece
from pipelines.corpus.datasets import RECORDS, TEXTS, conll, from_record, multidogo
from pipelines.corpus.dialogues import Items, LeftOut
from pipelines.corpus.encodings import UTF8
from pipelines.corpus.formats import (
    COLUMNAR,
    column_names,
    delimiter,
    encoding_of_file,
    file_options,
    format_spec,
    has_header,
    is_plugin,
    is_quoted,
    row_kind,
)
from pipelines.corpus.hashed_stream import SEGMENT_BYTES
from pipelines.corpus.items import BadRow, Document, Rejected
from pipelines.corpus.mail import mail
from pipelines.corpus.open_input import DamagedFile, NotAFile, is_at_end, open_bytes
from pipelines.corpus.options import ReadOptions
from pipelines.corpus.reader_cache import OpenReader, ReaderCache, key_of
from pipelines.corpus.records import Source, over_long, rejected
from pipelines.corpus.rows import BOM, Row, RowReader
from pipelines.corpus.scan import DAMAGED, NOT_A_FILE
from pipelines.corpus.side_files import side_digest, side_files
from pipelines.errors import InputError

_TXT_BYTES_PER_CHAR = 4
_MAIL_BYTES = 64 << 20  # attachments too
MAIL = ("mail", "mbox")
_LARGEST_COLUMN = (1 << 31) - 1  # the limit belongs to the process, so all threads must set the same one

# Any distance pays, because otherwise the file is decompressed from its start.
_BYTES: ReaderCache[RowReader] = ReaderCache(at_most=4, reach=1 << 62)

_CHANGED = "an input file changed while it was being read. Run again when no program writes to it."


def read_documents(piece: Piece, options: ReadOptions) -> Iterator[Document | Rejected | LeftOut]:
    """Yields the documents, the rejected rows and the parts left out of one piece, in order. Skips blank lines.

    Memory stays below about 12 bytes for each of ``max_document_chars``, however long a row is.

    Raises:
        InputError: the file cannot be read, or no longer holds the rows that were indexed.
    """
    options = file_options(piece.name, piece.format, options)
    if piece.digest == DAMAGED:
        advice = "the file ends too early or has another format: the rest is not read. Copy or create it again."
        yield Rejected(name=piece.name, row=piece.first_row, reason="damaged", detail=advice, num_bytes=0)
        return
    if piece.digest == NOT_A_FILE:
        advice = "a pipe, a socket or a device, or a link to one: it is not read. Remove it, or replace it by a file."
        yield Rejected(name=piece.name, row=1, reason="not_a_file", detail=advice, num_bytes=0)
        return
    try:
        kind = row_kind(piece.format, piece.name, options)
        is_by_row = piece.format in RECORDS and kind not in ("whole", "file")
        if is_plugin(piece.format) or (format_spec(piece.format).reader and not is_by_row):
            yield from _from_plugin(piece, options)
        elif kind in COLUMNAR:
            yield from _from_columns(piece, options)
        else:
            yield from _from_bytes(piece, options)
    except (DamagedFile, NotAFile):
        raise InputError(_CHANGED) from None
    except OSError:
        raise InputError("an input file can no longer be read. Check corpus.inputs, and run again.") from None


def _from_bytes(piece: Piece, options: ReadOptions) -> Iterator[Document | Rejected | LeftOut]:
    kind = row_kind(piece.format, piece.name, options)
    is_text = kind in ("file", "line", "paragraph") and piece.format == "txt"
    limit = options.max_document_chars * _TXT_BYTES_PER_CHAR + len(BOM) + len(b"\r\n")
    if not is_text:
        limit = options.json_bytes
    if piece.format in MAIL:
        limit = max(limit, _MAIL_BYTES)
    path = Path(piece.path)
    with ExitStack() as stack:
        key = key_of(path, (piece.format, options))
        opened = _BYTES.take(key, piece.start_byte)
        if opened is None:
            file = stack.enter_context(open_bytes(path, encoding_of_file(piece.format, piece.name, options)))
            reader = RowReader(file, piece.name, piece.format, options)
        else:
            reader = stack.enter_context(closing(opened.reader))
        columns = _Columns(reader.header, piece, options)
        stream = reader.stream(piece.start_byte, piece.end_byte - piece.start_byte)
        at_file_start = piece.start_byte == 0
        for row in reader.rows(stream, piece.first_row, limit):
            source = Source(piece.name, piece.format, row.number, options, piece.draws_fold)
            try:
                yield from _items(row, source, columns, at_file_start)
            except BadRow as bad:
                yield rejected(source, bad.reason, bad.detail, row.num_bytes)
            at_file_start = False
        if stream.cut() != piece.digest:
            raise InputError(_CHANGED)
        if not reader.file.seekable() and not is_at_end(reader.file):
            stack.pop_all()
            _BYTES.keep(key, OpenReader(reader, piece.end_byte))


def _from_plugin(piece: Piece, options: ReadOptions) -> Iterator[Document | Rejected | LeftOut]:
    from pipelines.corpus.plugin import read_rows

    path = Path(piece.path)
    side = side_digest(path, piece.name, piece.format)
    with open_bytes(path, encoding_of_file(piece.format, piece.name, options)) as file:
        reader = RowReader(file, piece.name, piece.format, options, side)
        stream = reader.stream(piece.start_byte, piece.end_byte - piece.start_byte)
        source = Source(piece.name, piece.format, piece.first_row, options, piece.draws_fold)
        for items in read_rows(stream, source, side_files(path, piece.name, piece.format)):
            yield from items
        if stream.cut() != piece.digest or side_digest(path, piece.name, piece.format) != side:
            raise InputError(_CHANGED)


def _from_columns(piece: Piece, options: ReadOptions) -> Iterator[Document | Rejected | LeftOut]:
    from pipelines.corpus.columnar import RowHash, take_rows

    hashed = RowHash()
    kind = row_kind(piece.format, piece.name, options)
    rows = take_rows(Path(piece.path), kind, options, piece.start_byte, piece.end_byte)
    for number, values in enumerate(rows, start=piece.first_row):
        hashed.add(values)
        source = Source(piece.name, piece.format, number, options, piece.draws_fold)
        try:
            yield from from_record(source, values)
        except BadRow as bad:
            text = values.get(options.text_field)
            size = len(text.encode("utf-8", "replace")) if isinstance(text, str) else 0
            yield rejected(source, bad.reason, bad.detail, len(text) if isinstance(text, bytes) else size)
    if hashed.cut() != piece.digest:
        raise InputError(_CHANGED)


def cells_of(text: str, delimiter: str, *, is_quoted: bool) -> list[str]:
    """Splits a row of a text table into columns. Blanks around a separator of several characters belong to none.

    Raises:
        BadRow: the quotes are wrong.
    """
    text = text.removesuffix("\n").removesuffix("\r")
    if not is_quoted:
        cells = text.split(delimiter)
        return cells if len(delimiter) == 1 else [cell.strip(" \t") for cell in cells]
    csv.field_size_limit(_LARGEST_COLUMN)
    try:
        # Strict: a quote that opens a column by mistake must not join all rows up to the next quote.
        (cells,) = csv.reader([text], delimiter=delimiter, strict=True)
    except (csv.Error, ValueError):
        num_lines = text.count("\n") + 1
        extent = f" The row runs on over {num_lines} lines." if num_lines > 1 else ""
        raise BadRow(
            "bad_columns",
            "a quoted column does not end, or continues after its closing quote, or a carriage return is outside of"
            f' quotes.{extent} Correct the row, or set corpus.quoting = "none" if quotes have no meaning here.',
        ) from None
    return cells


class _Columns:
    """Splits the rows of a text table into columns; see `csv` for the quotes.

    Args:
        header: line that names the columns; empty for other files
        piece: piece of the file
        options: options of reading
    """

    def __init__(self, header: bytes, piece: Piece, options: ReadOptions) -> None:
        self.kind = row_kind(piece.format, piece.name, options)
        self._delimiter = delimiter(piece.name, piece.format, options)
        self._is_quoted = is_quoted(piece.name, piece.format, options)
        self.names = list(column_names(piece.format, options))
        self._namer = "corpus.column_names" if self.names else "the first line of the file"
        if has_header(piece.format, self.kind, options):
            try:
                line = header.removeprefix(BOM).decode("utf-8", "replace")
                self.names = self.cut(line) if len(header) < SEGMENT_BYTES else [line]
            except BadRow:
                self.names = [line]  # every row is rejected, because its columns do not match

    def cut(self, text: str) -> list[str]:
        """Splits a row into columns. Raises `BadRow`."""
        return cells_of(text, self._delimiter, is_quoted=self._is_quoted)

    def record(self, text: str) -> dict[str, Any]:
        """Returns a row's values by column name. Raises `BadRow`."""
        cells = self.cut(text)
        if len(cells) != len(self.names):
            raise BadRow("bad_columns", f"has {len(cells)} columns, {self._namer} has {len(self.names)}.")
        return dict(zip(self.names, cells, strict=True))


def _items(row: Row, source: Source, columns: _Columns, at_file_start: bool) -> Items:
    kind = columns.kind
    if row.data is None:
        raise _over_long(source, kind)
    data = row.data.removeprefix(BOM) if at_file_start else row.data
    if source.format in MAIL:
        return [*mail(source, data)]
    if kind != "file" and not data.strip():
        return []
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _undecodable(error.start, source.options) from None
    if "\0" in text:
        raise BadRow("nul", 'holds a NUL character: binary data, or UTF-16. Set corpus.encoding = "utf-16" for UTF-16.')
    if source.format == "txt":
        return _text(text, source, kind == "file")
    if kind == "record":
        return from_record(source, columns.record(text))
    if source.format == "conll":
        return conll(source, text)
    if kind == "conversation":
        return multidogo(source, text, columns.names)
    if kind in TEXTS:
        return TEXTS[kind](source, text)
    return _json(text, source, kind)


def _undecodable(at_byte: int, options: ReadOptions) -> BadRow:
    found = "corpus.encoding" if options.encoding != UTF8 else f"UTF-8 (byte {at_byte} of the row)"
    return BadRow("undecodable", f'not in {found}. Set corpus.encoding to that of the file, such as "windows-1252".')


def _text(text: str, source: Source, is_whole_file: bool) -> Items:
    options = source.options
    if not is_whole_file:
        text = text.removesuffix("\n").removesuffix("\r")
    if len(text) > options.max_document_chars:
        raise _over_long(source, options.txt_document)
    if not text or text.isspace():
        if not is_whole_file:
            return []
        raise BadRow("empty", "the file holds no text.")
    return [Document(name=source.name, row=source.row, text=text)]


def _over_long(source: Source, kind: str) -> BadRow:
    if source.format == "txt" and kind != "paragraph":
        return over_long(
            source.options,
            'Set corpus.txt_document = "paragraph" if the file holds several texts,'
            " or raise corpus.max_document_chars.",
        )
    if kind == "record":
        return over_long(
            source.options,
            'Raise corpus.max_document_chars, or set corpus.quoting = "none" if a quote in the text opened a column.',
        )
    return over_long(source.options)


def _json(text: str, source: Source, kind: str) -> Items:
    advice = "A JSONL file holds one JSON object per line, a JSON file an array of objects."
    if kind == "element" or source.format == "dart":
        text = text.strip(" \t\r\n,[]")
        if not text:
            return []
    try:
        value: Sequence[Any] | dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError):
        raise BadRow("bad_json", f"not valid JSON. {advice}") from None
    if isinstance(value, list) and "turns_field" in format_spec(source.format).settings:
        value = {"": value}  # a line that is a list of turns
    if not isinstance(value, dict):
        raise BadRow("not_an_object", f"not a JSON object. {advice}")
    return from_record(source, value)
