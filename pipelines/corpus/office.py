"""Reads PDF and Word files, by the optional libraries pypdf and python-docx.

Public and non-public: the properties of a file (author, title, comments, history of changes) are not read.
"""

from __future__ import annotations

import io
import logging
import re
import zipfile
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Final

from pipelines.corpus.dialogues import LeftOut
from pipelines.corpus.formats import check_packages
from pipelines.corpus.items import BadRow, as_bad_row
from pipelines.corpus.options import ReadOptions
from pipelines.corpus.pages import bounded
from pipelines.corpus.records import Record

MAX_BYTES: Final = 64 << 20
MAX_UNPACKED_BYTES: Final = 256 << 20
MAX_XML_BYTES: Final = 64 << 20
_MAX_PARTS: Final = 10_000
_MAX_PAGES: Final = 20_000
_DAMAGED: Final = "a damaged {} ({{}}). Save the file again, or leave it out."
_OLD_OFFICE: Final = b"\xd0\xcf\x11\xe0"
_FULL_LINE: Final = 0.75
"""Length of a line that the next one continues, as a share of the longest line near it."""

_ITEM: Final = re.compile(r"\s*(?:[-*•–▪◦·]\s|\(?[0-9a-zA-Z]{1,3}[.)]\s)")
_CUT_WORD: Final = re.compile(r"[^\W\d_]-$")
_LETTERS: Final = {0xAD: "", **dict(enumerate(("ff", "fi", "fl", "ffi", "ffl", "st", "st"), start=0xFB00))}
_W: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_FALLBACK: Final = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"


class Pdf:
    """A reader of PDF files. A document is a page; its row is the page's number, and its id ``page N``.

    Raises:
        ConfigError: pypdf is not installed.
    """

    def __init__(self, options: ReadOptions) -> None:
        check_packages("pdf")
        self._options = options
        logging.getLogger("pypdf").setLevel(logging.CRITICAL + 1)  # its warnings may quote the file

    def read(self, file: BinaryIO) -> Iterator[tuple[int, Record | LeftOut | BadRow]]:
        """Yields the text of each page, and pages without text as parts left out."""
        number = 0
        has_text = False
        try:
            for number, text in enumerate(_pages(file), start=1):
                has_text = has_text or bool(text)
                if isinstance(text, BadRow):
                    yield number, text
                elif text:
                    yield number, {self._options.text_field: text, self._options.id_field: f"page {number}"}
                else:
                    yield number, LeftOut("page without text")
            if not has_text:
                yield (
                    number + 1,
                    BadRow("empty", "no page holds text: a scan? Recognise its text first (OCR), or leave it out."),
                )
        except BadRow as bad:
            yield number + 1, bad


def _pages(file: BinaryIO) -> Iterator[str | BadRow]:
    """Yields the texts of the pages of a PDF file, or the reason why one cannot be used. Raises `BadRow`."""
    import pypdf

    data = bounded(file, MAX_BYTES)
    if b"%PDF-" not in data[:1024]:
        raise BadRow("bad_file", "not a PDF file: it does not begin with %PDF.")
    with as_bad_row("bad_file", _DAMAGED.format("PDF file")):
        reader = pypdf.PdfReader(io.BytesIO(data), strict=False)
        is_open = not reader.is_encrypted or bool(reader.decrypt(""))
        num_pages = len(reader.pages) if is_open else 0
    if not is_open:
        raise BadRow("bad_file", "needs a password. Save it without one.")
    if num_pages > _MAX_PAGES:
        raise BadRow("over_long", f"has more than {_MAX_PAGES:,} pages. Split it.")
    for index in range(num_pages):
        yield _page_text(reader, index)


def _page_text(reader: Any, index: int) -> str | BadRow:
    try:
        with as_bad_row("bad_file", _DAMAGED.format("page")):
            return joined_lines(str(reader.pages[index].extract_text()).split("\n"))
    except BadRow as bad:
        return bad


def joined_lines(lines: Sequence[str]) -> str:
    """Joins the lines of paragraphs on a page.

    A line continues the one before if that one has at least 75 % of the length of the longest of its neighbours (three
    lines on either side), unless it starts a list item. A hyphen after a letter at the end of a line is removed if the
    next line begins with a small letter. Runs of white space become one space, and ligatures their letters.

    Args:
        lines: lines of the page in reading order; blank lines end a paragraph
    """
    stripped = [" ".join(line.translate(_LETTERS).split()) for line in lines]
    parts: list[str] = []
    for at, line in enumerate(stripped):
        before = stripped[at - 1] if at else ""
        if not line:
            continue
        if not before:
            parts += ["\n\n", line] if parts else [line]
        elif _CUT_WORD.search(before) and line[0].islower():
            parts[-1] = parts[-1][:-1]
            parts.append(line)
        elif len(before) < _FULL_LINE * max(map(len, stripped[max(0, at - 4) : at + 3])) or _ITEM.match(line):
            parts += ["\n", line]
        else:
            parts += [" ", line]
    return "".join(parts)


class Docx:
    """A reader of Word files, one document per file.

    Raises:
        ConfigError: python-docx is not installed.
    """

    def __init__(self, options: ReadOptions) -> None:
        check_packages("docx")
        self._options = options

    def read(self, file: BinaryIO) -> Iterator[tuple[int, Record | BadRow]]:
        """Yields the text of the body: paragraphs, tables, text boxes, and insertions that were not accepted yet."""
        try:
            yield 1, {self._options.text_field: _docx_text(bounded(file, MAX_BYTES))}
        except BadRow as bad:
            yield 1, bad


def _docx_text(data: bytes) -> str:
    import docx

    if data.startswith(_OLD_OFFICE):
        raise BadRow("bad_file", "an old Word file (.doc), or one with a password. Save it as .docx without one.")
    with as_bad_row("bad_file", _DAMAGED.format("Word file")):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            _check_parts(archive.infolist())
        body: Any = docx.Document(io.BytesIO(data)).element.body
        text = "\n".join(_blocks(body))
    if not text.strip():
        raise BadRow("empty", "the file holds no text.")
    return text


def _check_parts(parts: Sequence[zipfile.ZipInfo]) -> None:
    """Checks the declared sizes, beyond which zipfile unpacks nothing. Raises `BadRow`."""
    num_bytes = sum(part.file_size for part in parts)
    num_xml = sum(part.file_size for part in parts if part.filename.lower().endswith((".xml", ".rels")))
    if len(parts) > _MAX_PARTS or num_bytes > MAX_UNPACKED_BYTES or num_xml > MAX_XML_BYTES:
        raise BadRow("over_long", "unpacks to more than 64 MiB of text or 256 MiB in all. Split it, or leave it out.")


def _blocks(body: Any) -> Iterator[str]:
    """Yields the paragraphs and the rows of tables, in order. Text boxes follow the paragraph that holds them."""
    for element in body.iter(f"{_W}p", f"{_W}tr"):
        inside = {ancestor.tag for ancestor in element.iterancestors()}
        if _FALLBACK in inside or (f"{_W}tr" in inside and element.tag == f"{_W}tr"):
            continue
        if element.tag == f"{_W}tr":
            own = (cell for cell in element.iter(f"{_W}tc") if next(cell.iterancestors(f"{_W}tr")) is element)
            cells = (" ".join(filter(None, map(_paragraph, cell.iter(f"{_W}p")))) for cell in own)
            line = " | ".join(filter(None, cells))
        elif f"{_W}tr" in inside:
            continue
        else:
            line = _paragraph(element)
        if line:
            yield line


def _paragraph(paragraph: Any) -> str:
    """Returns the text of a paragraph, without paragraphs inside (text boxes) and without deletions."""
    parts: list[str] = []
    stack = list(reversed(paragraph))
    while stack:
        element = stack.pop()
        if element.tag in (f"{_W}p", f"{_W}pPr", f"{_W}del", f"{_W}moveFrom", _FALLBACK):
            continue
        if element.tag == f"{_W}t":
            parts.append(element.text or "")
        elif element.tag in (f"{_W}tab", f"{_W}ptab"):
            parts.append("\t")
        elif element.tag in (f"{_W}br", f"{_W}cr"):
            parts.append("\n")
        elif element.tag == f"{_W}noBreakHyphen":
            parts.append("-")
        else:
            stack.extend(reversed(element))
    return "".join(parts).strip()
