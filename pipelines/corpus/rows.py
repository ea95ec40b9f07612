"""Splits a stream of bytes into rows: lines, records, paragraphs, articles, dialogues, or the whole file.

Indexing (`pipelines.corpus.scan`) and reading (`pipelines.corpus.readers`) share this definition, so they never
disagree about the end of a row. Memory stays below the caller's limit however long a row is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple

from pipelines.corpus.format_spec import RowKind
from pipelines.corpus.formats import delimiter, has_header, is_quoted, row_kind
from pipelines.corpus.hashed_stream import SEGMENT_BYTES, HashedStream
from pipelines.corpus.open_input import skip_to
from pipelines.corpus.options import ReadOptions

BOM = b"\xef\xbb\xbf"
END_OF_TEXT = b"<|endoftext|>"

_SEPARATORS = b" \t\r\n,[]"
_JSON_MARKS = re.compile(rb'["{}]')
_STRING_MARKS = re.compile(rb'["\\]')
_IDENTIFIER = re.compile(rb"[0-9A-Za-z_-]{1,64}")
# " = Title = ": sections have more signs on both sides.
_HEADING = re.compile(rb" ?= [^=\s][^\n]* = ?\r?\n?")
_FROM_LINE = re.compile(rb"From \S[^\n]*[0-9]{1,2}:[0-9]{2}")
# Text of XML holds no "<" of its own, so these can only be tags.
_POST = re.compile(rb"[ \t]*<row\s")
_PAGE = re.compile(rb"[ \t]*<page[\s>]")


class Row(NamedTuple):
    """A row of a file.

    Attributes:
        number: 1-based position in the file
        data: bytes of the row, or None if there are more than the limit
        num_bytes: number of bytes
    """

    number: int
    data: bytes | None
    num_bytes: int


class RowReader:
    """Reads the rows of one file that is made of bytes.

    Args:
        file: decompressed bytes, at their start
        name: name of the file
        format: format of the file
        options: options of reading
        side: digest of the side files, which counts in every digest

    Attributes:
        file: decompressed bytes
        header: first line of a table; empty for other files
    """

    def __init__(self, file: BinaryIO, name: str, format: str, options: ReadOptions, side: str = "") -> None:
        self.file = file
        self._side = side.encode()
        self._kind = row_kind(format, name, options)
        self._quoted_after = delimiter(name, format, options).encode() if is_quoted(name, format, options) else None
        self.header = file.readline(SEGMENT_BYTES) if has_header(format, self._kind, options) else b""
        self._position = len(self.header)

    def stream(self, start_byte: int | None = None, num_bytes: int | None = None) -> HashedStream:
        """Opens a range, by default everything after the header. An earlier range must have been read to its end."""
        start = len(self.header) if start_byte is None else start_byte
        skip_to(self.file, start, at=self._position)
        self._position = start if num_bytes is None else start + num_bytes
        return HashedStream(self.file, start, num_bytes, self.header + self._side)

    def close(self) -> None:
        """Closes the file."""
        self.file.close()

    def rows(self, stream: HashedStream, first_row: int = 1, limit_bytes: int = 0) -> Iterator[Row]:
        """Yields the rows of a range; see `iter_rows`."""
        return iter_rows(stream, self._kind, first_row, limit_bytes, quoted_after=self._quoted_after)


def iter_rows(
    stream: HashedStream, kind: RowKind, first_row: int = 1, limit_bytes: int = 0, *, quoted_after: bytes | None = None
) -> Iterator[Row]:
    """Yields the rows of a range, in order.

    When a row is yielded, the stream is right after it, so that `HashedStream.cut` covers whole rows.

    Args:
        stream: range that starts at the start of a row
        kind: row kind. ``file``, and ``whole`` for a plug-in to split: one row, even if it is empty. ``line``: rows
            keep their line feed, and blank lines are rows too. ``paragraph``: rows separated by lines of only ASCII
            white space, which belong to no row. ``record``: a line, or several if a quoted column holds line breaks.
            ``article``: from one WikiText title to the next. ``conversation``: lines with the same first column; a line
            without one belongs to the line before. ``episode``: from one line numbered 1 to the next. ``dialogue``: up
            to a line that starts with `END_OF_TEXT`. ``message``: from one line ``From `` with a time, after a blank
            line, to the next (RFC 4155). ``post``: from a line that starts with ``<row`` to one that ends with ``/>``,
            and the lines between two of them. ``page``: the same from ``<page>`` to ``</page>``. ``element``: an
            element of a JSON array.
        first_row: number of the first row
        limit_bytes: limit above which a row comes without its data; 0 to never keep data
        quoted_after: delimiter of the columns of a ``record``; None if quotes have no meaning

    Raises:
        ValueError: rows of this kind are not made of bytes.
    """
    if kind in ("file", "whole"):
        return _whole(stream, first_row, limit_bytes)
    if kind == "paragraph":
        return _paragraphs(stream, first_row, limit_bytes)
    if kind == "record" and quoted_after is not None:
        return _records(stream, first_row, limit_bytes, quoted_after)
    if kind in ("line", "record"):
        return _lines(stream, first_row, limit_bytes)
    if kind == "element":
        return _elements(stream, first_row, limit_bytes)
    starts = _GROUPS.get(kind)
    if starts is None:
        raise ValueError(f"rows of kind {kind!r} are not made of bytes")
    return _groups(stream, first_row, limit_bytes, starts())


class _Buffer:
    """Collects segments up to the limit, and then only counts their bytes."""

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
    line = _Buffer(limit_bytes)  # white space at the start of a line that may be blank
    line_is_blank = True
    while True:
        at_file_start = stream.position == 0
        data = stream.readline()
        if not data:
            break
        # A byte order mark is not text: it must not turn a blank first line into a paragraph.
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


def _records(stream: HashedStream, number: int, limit_bytes: int, delimiter: bytes) -> Iterator[Row]:
    buffer = _Buffer(limit_bytes)
    quotes = _Quotes(delimiter[0])
    while data := stream.readline():
        buffer.add(data)
        if not quotes.is_open_after(data) and data.endswith(b"\n"):
            yield buffer.row(number)
            number += 1
            quotes = _Quotes(delimiter[0])
    if buffer.num_bytes:
        yield buffer.row(number)


class _Quotes:
    """Tracks if a quoted column is open (RFC 4180). A quote opens only at a column's start; two inside mean one."""

    def __init__(self, delimiter: int) -> None:
        self._delimiter = delimiter
        self._is_open = False
        self._last = delimiter  # a record starts as a column does
        self._quote_pending = False  # a quote inside a quoted column: the end of it, or half of a pair

    def is_open_after(self, data: bytes) -> bool:
        """Reads the next bytes of the record, and checks if a quoted column is open after them."""
        at = 0
        while True:
            found = data.find(b'"', at)
            if self._quote_pending and found != at:
                self._is_open = self._quote_pending = False
            if found < 0:
                break
            before = data[found - 1] if found else self._last
            if self._quote_pending:  # the second of a pair
                self._quote_pending = False
            elif self._is_open:
                self._quote_pending = True
            elif before == self._delimiter:
                self._is_open = True
            at = found + 1
            if at == len(data):
                break
        self._last = data[-1]
        return self._is_open and not self._quote_pending


def _elements(stream: HashedStream, number: int, limit_bytes: int) -> Iterator[Row]:
    """Yields the objects of a JSON array by counting braces outside strings. Text between two objects is a row too."""
    buffer = _Buffer(limit_bytes)
    depth = 0
    in_string = has_content = False
    while data := stream.peek():
        if depth == 0 and not in_string:
            # Up to the next object: separators belong to the row that follows, anything else is a row of its own.
            brace = data.find(b"{")
            between = data if brace < 0 else data[:brace]
            visible = between.removeprefix(BOM) if stream.position == 0 else between
            has_content |= bool(visible.strip(_SEPARATORS))
            if between and (brace < 0 or has_content):
                buffer.add(stream.readline(len(between)))
                continue
            if has_content:
                yield buffer.row(number)
                number += 1
                has_content = False
        at = 0
        while at < len(data):
            match = (_STRING_MARKS if in_string else _JSON_MARKS).search(data, at)
            if match is None:
                break
            at = match.end()
            mark = match[0]
            if mark == b"\\":
                at += 1
            elif mark == b'"':
                in_string = not in_string
            else:
                depth += 1 if mark == b"{" else -1
                if depth == 0:
                    break
        is_complete = depth == 0 and not in_string
        buffer.add(stream.readline(at if is_complete else len(data)))
        if at > len(data) and stream.peek():  # an escape across segments: its second half is not a mark
            buffer.add(stream.readline(1))
        if is_complete:
            yield buffer.row(number)
            number += 1
    if has_content or depth or in_string:
        yield buffer.row(number)


Starts = Callable[[HashedStream, bool], bool]
"""Function that checks if a row starts at the stream's next line. The flag is true if the line before was blank."""


def _groups(stream: HashedStream, number: int, limit_bytes: int, starts: Starts) -> Iterator[Row]:
    """Yields runs of whole lines. Lines of white space before the first other line belong to the first row."""
    buffer = _Buffer(limit_bytes)
    has_content = False
    at_line_start = line_is_blank = True
    while data := stream.peek():
        if at_line_start:
            if starts(stream, line_is_blank) and has_content:
                yield buffer.row(number)
                number += 1
                has_content = False
            line_is_blank = True
        if data.strip():
            has_content, line_is_blank = True, False
        at_line_start = data.endswith(b"\n")
        buffer.add(stream.readline())
    if has_content:
        yield buffer.row(number)


def _article_starts(stream: HashedStream, after_blank: bool) -> bool:
    # Only a title has a blank line on both sides. A formula such as " = 1 rad / s = " is inside running text.
    return after_blank and _HEADING.fullmatch(stream.peek()) is not None and not stream.peek(1).strip()


def _conversation_starts() -> Starts:
    current: list[bytes] = [b""]

    def starts(stream: HashedStream, after_blank: bool) -> bool:
        first, _, _ = stream.peek().partition(b"\t")
        # The second half of a broken line has words in its first column, and few columns.
        if first == current[0] or stream.peek().count(b"\t") < 3 or not _IDENTIFIER.fullmatch(first):
            return False
        current[0] = first
        return True

    return starts


def _episode_starts(stream: HashedStream, after_blank: bool) -> bool:
    return stream.peek().startswith(b"1 ")


def _dialogue_starts(stream: HashedStream, after_blank: bool) -> bool:
    return stream.peek().startswith(END_OF_TEXT)


def _message_starts(stream: HashedStream, after_blank: bool) -> bool:
    return after_blank and _FROM_LINE.match(stream.peek()) is not None


def _element_starts(start: re.Pattern[bytes], end: bytes) -> Starts:
    is_after_end = [True]

    def starts(stream: HashedStream, after_blank: bool) -> bool:
        is_start = is_after_end[0] or start.match(stream.peek()) is not None
        is_after_end[0] = stream.peek().rstrip().endswith(end)
        return is_start

    return starts


_GROUPS: dict[str, Callable[[], Starts]] = {
    "article": lambda: _article_starts,
    "conversation": _conversation_starts,
    "episode": lambda: _episode_starts,
    "dialogue": lambda: _dialogue_starts,
    "message": lambda: _message_starts,
    "post": lambda: _element_starts(_POST, b"/>"),
    "page": lambda: _element_starts(_PAGE, b"</page>"),
}
