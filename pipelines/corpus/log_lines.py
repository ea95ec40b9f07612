"""The lines of a chat log or transcript, and the entries that they begin and continue."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import BinaryIO, Final, NamedTuple

from pipelines.corpus.items import BadRow
from pipelines.corpus.rows import BOM

_HEAD_LINES: Final = 2_000
_HEAD_CHARS: Final = 1 << 20
_KEPT_CHARS: Final = 1_000  # of a line that is too long: enough for its time and speaker
_SKIPPED_BYTES: Final = 1 << 16


class Line(NamedTuple):
    """A line without its end.

    Attributes:
        text: text of the line; bytes that cannot be read are replaced by U+FFFD
        is_blank: flag that it holds only white space
        fault: name of the reason why the line cannot be used; "" if it can
    """

    text: str
    is_blank: bool = False
    fault: str = ""


class Start(NamedTuple):
    """The beginning of an entry.

    Attributes:
        speaker: name of the speaker; None if unknown
        text: text in the line
        time: seconds since any fixed moment; None if unknown
        left_out: kind of the part if it is no text of a speaker; "" for a message
        thread: name of the thread, if the file has several
    """

    speaker: str | None
    text: str
    time: float | None = None
    left_out: str = ""
    thread: str | None = None


class Entry(NamedTuple):
    """A message or another part of a log, with all its lines.

    Attributes:
        row: 1-based position among the entries of the file
        start: speaker, time and kind
        text: text of all lines
        fault: reason why it cannot be used
    """

    row: int
    start: Start
    text: str
    fault: BadRow | None


def read_lines(file: BinaryIO, max_chars: int) -> Iterator[Line]:
    """Yields the lines of a file. Memory holds one line of at most ``max_chars`` characters."""
    limit = 4 * max_chars + _KEPT_CHARS
    data = file.readline(limit + 1).removeprefix(BOM)
    while data:
        fault = ""
        if len(data) > limit and not data.endswith(b"\n"):
            fault, data = "over_long", data[:_KEPT_CHARS]
            while (rest := file.readline(_SKIPPED_BYTES)) and not rest.endswith(b"\n"):
                pass
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            text = data.decode("utf-8", "replace")
            if not fault and error.reason == "unexpected end of data":  # the file ends inside of a character
                text = data[: error.start].decode("utf-8")
            else:
                fault = fault or "undecodable"
        if "\0" in text:
            text, fault = text.replace("\0", "\ufffd"), fault or "nul"
        text = text.removesuffix("\n").removesuffix("\r")
        yield Line(text, not text or text.isspace(), fault)
        data = file.readline(limit + 1)


def with_head(lines: Iterator[Line]) -> tuple[list[str], Iterator[Line]]:
    """Returns the texts of the first lines, which determine the layout, and an iterator over all lines."""
    head: list[Line] = []
    num_chars = 0
    for line in lines:
        head.append(line)
        num_chars += len(line.text) + 1
        if len(head) >= _HEAD_LINES or num_chars >= _HEAD_CHARS:
            break
    return [line.text for line in head], chain(head, lines)


def head_texts(data: bytes, *, is_whole: bool) -> list[str]:
    """Returns the first lines in the first bytes of a file, without the last one if it may be cut off."""
    text = data.removeprefix(BOM).decode("utf-8", "replace")
    lines = [line.removesuffix("\r") for line in text.split("\n", _HEAD_LINES)]
    return lines[:_HEAD_LINES] if is_whole else lines[:-1]


def bad_row(fault: str) -> BadRow:
    """Makes the error for a message with an unusable line."""
    if fault == "over_long":
        return BadRow("over_long", "longer than corpus.max_document_chars. Raise it, or shorten the message.")
    if fault == "nul":
        return BadRow("nul", "holds a NUL character: binary data, or UTF-16. Convert the file to UTF-8.")
    return BadRow("undecodable", "a line of it is not UTF-8. Set corpus.encoding to the character set of the file.")


def entries(lines: Iterable[Line], start_of: Callable[[str], Start | None], max_chars: int) -> Iterator[Entry]:
    """Yields the entries of a log. A line that begins no entry continues the entry before it.

    Lines before the first entry are entries of the kind ``other``. An entry with an unusable line, or with more than
    ``max_chars`` characters, has a fault; its neighbours stay usable.

    Args:
        lines: lines of the file
        start_of: function that returns the beginning of an entry, or None for a line that begins no entry
        max_chars: largest number of characters in an entry
    """
    row = num_chars = 0
    start: Start | None = None
    parts: list[str] = []
    fault = ""

    def entry(start: Start) -> Entry:
        return Entry(row, start, "\n".join(parts).rstrip(), bad_row(fault) if fault else None)

    for line in lines:
        begun = start_of(line.text)
        if begun is None and start is not None:
            num_chars += len(line.text) + 1
            fault = fault or line.fault
            if num_chars > max_chars:
                fault = fault or "over_long"
            else:
                parts.append(line.text)
            continue
        if begun is None and line.is_blank:
            continue
        if start is not None:
            yield entry(start)
        row += 1
        start, fault = begun, line.fault
        text = line.text if begun is None else begun.text
        num_chars, parts = len(text), [text]
        if num_chars > max_chars:
            fault, parts = fault or "over_long", []
        if begun is None:
            yield entry(Start(None, "", None, "other"))
    if start is not None:
        yield entry(start)


def seconds(year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0) -> float | None:
    """Returns the seconds from the year 1 to a moment; None for a moment that does not exist."""
    try:
        moment = datetime.datetime(year, month, day, hour, minute, second, tzinfo=datetime.UTC)
    except (ValueError, OverflowError):
        return None
    return (moment - _BEGINNING).total_seconds()


_BEGINNING: Final = datetime.datetime(1, 1, 1, tzinfo=datetime.UTC)
