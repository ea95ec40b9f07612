"""Cuts a stream of bytes into rows: lines, paragraphs, or the whole file.

Indexing (`pipelines.corpus.scan`) and reading (`pipelines.corpus.readers`) share this one definition, so they can
never disagree about where a row ends. Memory stays below the caller's limit however long a row is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import BinaryIO, Literal, NamedTuple

RowKind = Literal["file", "line", "paragraph"]

SEGMENT_BYTES = 1 << 16
BOM = b"\xef\xbb\xbf"


class Row(NamedTuple):
    """One row.

    Attributes:
        number: 1-based position in the file.
        data: the bytes, or None when there are more than the limit.
        num_bytes: how many there are.
    """

    number: int
    data: bytes | None
    num_bytes: int


class HashedStream:
    """Reads a range of a binary file line by line and hashes exactly what was handed out.

    Args:
        file: positioned at the first byte of the range.
        start_byte: where in the file that is.
        num_bytes: length of the range; None reads to the end of the file.
    """

    def __init__(self, file: BinaryIO, start_byte: int = 0, num_bytes: int | None = None) -> None:
        self._file = file
        self._left = num_bytes
        self._hash = hashlib.sha256()
        self.position = start_byte

    def readline(self) -> bytes:
        """The rest of the line, at most `SEGMENT_BYTES` of it; empty at the end of the range."""
        size = SEGMENT_BYTES if self._left is None else min(SEGMENT_BYTES, self._left)
        data = self._file.readline(size) if size else b""
        self._hash.update(data)
        self.position += len(data)
        if self._left is not None:
            self._left -= len(data)
        return data

    def cut(self) -> str:
        """SHA-256, hexadecimal, of the bytes since the last cut."""
        digest = self._hash.hexdigest()
        self._hash = hashlib.sha256()
        return digest


def row_kind(format: str, txt_document: str) -> RowKind:
    """What a row is in a file of this format.

    Raises:
        ValueError: the format or the kind of document is unknown.
    """
    if format == "jsonl":
        return "line"
    if format == "txt":
        for kind in ("file", "line", "paragraph"):
            if txt_document == kind:
                return kind
    raise ValueError(f"unknown input format {format!r} with txt_document {txt_document!r}")


def iter_rows(stream: HashedStream, kind: RowKind, first_row: int = 1, limit_bytes: int = 0) -> Iterator[Row]:
    """The rows of a range, in order.

    When a row is yielded, the stream stands right behind it, so that `HashedStream.cut` covers whole rows.

    Args:
        stream: the range; it starts where a row starts.
        kind: ``line`` rows keep their line feed, blank lines are rows too; ``paragraph`` rows are separated by lines
            of ASCII white space only, which belong to no row; ``file`` is a single row, even when it is empty.
        first_row: number of the first row.
        limit_bytes: a longer row comes without its data; 0 never keeps data.
    """
    if kind == "line":
        return _lines(stream, first_row, limit_bytes)
    if kind == "paragraph":
        return _paragraphs(stream, first_row, limit_bytes)
    return _whole(stream, first_row, limit_bytes)


class _Buffer:
    """Collects segments until the limit; from then on it only counts."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._parts: list[bytes] = []
        self.num_bytes = 0

    def add(self, data: bytes) -> None:
        self.num_bytes += len(data)
        if self.num_bytes <= self._limit:
            self._parts.append(data)
        else:
            self._parts.clear()

    def move_to(self, other: _Buffer) -> None:
        if self.num_bytes <= self._limit:
            other.add(b"".join(self._parts))
        else:
            other.num_bytes += self.num_bytes
            other._parts.clear()
        self.clear()

    def row(self, number: int) -> Row:
        data = b"".join(self._parts) if self.num_bytes <= self._limit else None
        row = Row(number, data, self.num_bytes)
        self.clear()
        return row

    def clear(self) -> None:
        self._parts.clear()
        self.num_bytes = 0


def _whole(stream: HashedStream, number: int, limit_bytes: int) -> Iterator[Row]:
    buffer = _Buffer(limit_bytes)
    while data := stream.readline():
        buffer.add(data)
    yield buffer.row(number)


def _lines(stream: HashedStream, number: int, limit_bytes: int) -> Iterator[Row]:
    buffer = _Buffer(limit_bytes)
    while data := stream.readline():
        buffer.add(data)
        if data.endswith(b"\n"):
            yield buffer.row(number)
            number += 1
    if buffer.num_bytes:
        yield buffer.row(number)


def _paragraphs(stream: HashedStream, number: int, limit_bytes: int) -> Iterator[Row]:
    paragraph = _Buffer(limit_bytes)
    line = _Buffer(limit_bytes)  # white space at the start of a line, until we know whether the line is blank
    line_is_blank = True
    while True:
        at_file_start = stream.position == 0
        data = stream.readline()
        if not data:
            break
        # A byte order mark is no text: it must not turn a blank first line into a paragraph.
        visible = data.removeprefix(BOM) if at_file_start else data
        if line_is_blank and visible.strip():
            line_is_blank = False
            line.move_to(paragraph)
        (line if line_is_blank else paragraph).add(data)
        if data.endswith(b"\n"):
            if line_is_blank:
                line.clear()
                if paragraph.num_bytes:
                    yield paragraph.row(number)
                    number += 1
            line_is_blank = True
    if paragraph.num_bytes:
        yield paragraph.row(number)
