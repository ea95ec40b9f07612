"""The sentences of a file with annotations in columns, in bounded memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, Final, Literal

from pipelines.corpus.items import BadRow

_LINE_BYTES: Final = 1 << 20
COMMENT: Final = re.compile(r"#\s*([^=]*?)\s*(?:=\s*(.*))?")
"""A comment such as ``# newdoc id = 7``, with its name and its value."""

DOCUMENT_LINES: Final = ("-DOCSTART-", "#begin document")
"""Beginnings of lines that separate documents in CoNLL-2003 and CoNLL-2012."""

Mark = Literal["document", "paragraph", "sentence"]


@dataclass
class Sentence:
    """The lines between two blank ones, or after the line that begins a document.

    Attributes:
        lines: lines without their ends; empty if the sentence is unusable
        first_line: number of the first line in the file
        mark: largest unit that begins with the sentence
        num_bytes: size
        bad: reason why the sentence is unusable
    """

    first_line: int
    lines: list[str] = field(default_factory=list)
    mark: Mark = "sentence"
    num_bytes: int = 0
    bad: BadRow | None = None

    def add(self, data: bytes, limit: int) -> None:
        """Adds a line."""
        self.num_bytes += len(data)
        if data.startswith((b"#", b"-DOCSTART-")) and self.mark != "document":
            self.mark = _mark(data[:200].decode("utf-8", "replace"), self.mark)
        if self.bad is None and self.num_bytes > limit:
            self.bad = BadRow("over_long", "longer than corpus.max_document_chars allows. Split it.")
        if self.bad is None:
            try:
                self.lines.append(data.decode("utf-8").rstrip("\r\n"))
            except UnicodeDecodeError:
                self.bad = BadRow("undecodable", "not UTF-8. Set corpus.encoding to the character set of the file.")
        if self.bad is not None:
            self.lines.clear()


def _mark(line: str, before: Mark) -> Mark:
    if line.startswith(DOCUMENT_LINES):
        return "document"
    comment = COMMENT.fullmatch(line.strip())
    name = comment[1].partition(" ")[0] if comment else ""
    return {"newdoc": "document", "newpar": "paragraph"}.get(name, before)  # type: ignore[return-value]


def sentences(file: BinaryIO, limit: int) -> Iterator[Sentence]:
    """Yields the sentences of a file. One of more than ``limit`` bytes comes without its lines."""
    number = 0
    current: Sentence | None = None
    at_line_start = True
    while data := file.readline(_LINE_BYTES):
        number += at_line_start
        if number == 1 and at_line_start:
            data = data.removeprefix(b"\xef\xbb\xbf")
        is_break = at_line_start and (not data.strip() or data.startswith((b"-DOCSTART-", b"#begin document")))
        if is_break and current is not None:
            yield current
            current = None
        if data.strip():
            current = current or Sentence(number)
            current.add(data, limit if at_line_start else 0)
        at_line_start = data.endswith(b"\n")
    if current is not None:
        yield current
