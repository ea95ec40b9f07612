"""Reads pages in files of their own: HTML and Markdown."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import html_text
import lxml.etree
import lxml.html
from charset_normalizer import from_bytes
from markdown_it import MarkdownIt

from pipelines.corpus.dialogues import LeftOut
from pipelines.corpus.encodings import WIDE, encoding_of
from pipelines.corpus.items import BadRow, as_bad_row
from pipelines.corpus.options import ReadOptions
from pipelines.corpus.records import Record

MAX_BYTES: Final = 16 << 20
_MAX_TAGS: Final = 1_000_000
_DETECTED_BYTES: Final = 1 << 18
_HEAD_BYTES: Final = 1 << 14
_DECLARED: Final = re.compile(
    rb"<meta\b[^>]{0,1000}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})|^\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]{1,40})",
    re.IGNORECASE,
)
# Browsers read these names as larger character sets (WHATWG Encoding, section 4.2).
_AS_BROWSERS_READ: Final = {
    "iso8859-1": "cp1252", "ascii": "cp1252", "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932",
    "euc_kr": "cp949", "iso8859-9": "cp1254", "utf-16": "utf-8", "utf-16-le": "utf-8", "utf-16-be": "utf-8",
}  # fmt: skip
_YAML: Final = re.compile(
    r"---[ \t]*\n(?:[ \t]*(?:#[^\n]*)?\n)*[\w\"'][^\n:]{0,100}:(?:[ \t][^\n]*)?\n"
    r"(?:[^\n]*\n)*?(?:---|\.\.\.)[ \t]*(?:\n|\Z)"
)
_TOML: Final = re.compile(r"\+\+\+[ \t]*\n(?:[^\n]*\n)*?\+\+\+[ \t]*(?:\n|\Z)")
_MARKDOWN: Final = MarkdownIt("commonmark").enable("table")


class Html:
    """A reader of HTML pages, one per file."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def read(self, file: BinaryIO) -> Iterator[tuple[int, Record | BadRow]]:
        """Yields the page's visible text, with the title first."""
        try:
            text, _ = read_html(decoded(bounded(file, MAX_BYTES)))
            yield 1, {self._options.text_field: text}
        except BadRow as bad:
            yield 1, bad


class Markdown:
    """A reader of Markdown pages, one per file."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def read(self, file: BinaryIO) -> Iterator[tuple[int, Record | LeftOut | BadRow]]:
        """Yields the page's text, and its front matter as a part left out."""
        try:
            limit = 4 * self._options.max_document_chars + _HEAD_BYTES
            text = decoded(bounded(file, limit), is_html=False).replace("\r\n", "\n").replace("\r", "\n")
            front = _YAML.match(text) or _TOML.match(text)
            if front is not None:
                yield 1, LeftOut("front matter")
                text = text[front.end() :]
            with as_bad_row("bad_markup", "the parser of Markdown fails ({}). Leave the page out."):
                text = markdown_text(text)
            yield 1, {self._options.text_field: text}
        except BadRow as bad:
            yield 1, bad


def bounded(file: BinaryIO, limit_bytes: int) -> bytes:
    """Reads a whole file. Raises `BadRow` if it is longer than the limit."""
    data = file.read(limit_bytes + 1)
    if len(data) > limit_bytes:
        raise BadRow("over_long", f"the file has more than {limit_bytes >> 20} MiB. Split it, or leave it out.")
    return data


def decoded(data: bytes, *, is_html: bool = True) -> str:
    """Decodes a page: as UTF-16 or UTF-32, by its byte order mark, by its declaration, as UTF-8, or as detected.

    Args:
        data: bytes of the page
        is_html: true if the page may declare its character set

    Raises:
        BadRow: no character set fits, or the text holds a NUL character.
    """
    wide = encoding_of(data[:_HEAD_BYTES])
    if wide.startswith(WIDE):
        return _without_nul(_decode(data, wide).removeprefix("\ufeff"))
    if data.startswith(codecs.BOM_UTF8):
        return _without_nul(_decode(data[len(codecs.BOM_UTF8) :], "utf-8"))
    declared = _DECLARED.search(data[:_HEAD_BYTES]) if is_html else None
    for name in (_charset_of(declared) if declared else None, "utf-8"):
        if name is not None:
            try:
                return _without_nul(data.decode(name))
            except (UnicodeError, LookupError):
                continue
    best = from_bytes(data[:_DETECTED_BYTES]).best()
    return _without_nul(_decode(data, best.encoding if best else "utf-8"))


def _charset_of(declared: re.Match[bytes]) -> str | None:
    try:
        name = codecs.lookup((declared[1] or declared[2]).decode("ascii", "replace")).name
    except LookupError:
        return None
    return _AS_BROWSERS_READ.get(name, name)


def _decode(data: bytes, charset: str) -> str:
    try:
        return data.decode(charset)
    except (UnicodeError, LookupError):
        raise BadRow(
            "undecodable", "neither UTF-8 nor in a character set that it declares. Convert it, for example with iconv."
        ) from None


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise BadRow("nul", "holds a NUL character: binary data, or UTF-16 without a mark. Convert the file to UTF-8.")
    return text


def read_html(html: str, *, drop_code: bool = False) -> tuple[str, int]:
    """Returns the visible text of a page by html-text, and the number of blocks of code that were left out.

    Args:
        html: page, or a part of one
        drop_code: true to leave out the elements ``pre``, outermost ones counted

    Raises:
        BadRow: the page is nested so deeply that the parser would lose its rest, or has too many tags.
    """
    if html.count("<") > _MAX_TAGS:
        raise BadRow("bad_markup", f"the page has more than {_MAX_TAGS:,} tags. Split it, or leave it out.")
    if not html.strip():
        return "", 0
    with as_bad_row("bad_markup", "the parser of HTML fails ({}). Leave the page out."):
        parser = lxml.html.HTMLParser(recover=True, encoding="utf-8", huge_tree=True, no_network=True)
        try:
            root: Any = lxml.etree.fromstring(html.encode("utf-8", "replace"), parser=parser)
        except lxml.etree.XMLSyntaxError:  # only comments, for example
            root = None
        if any(entry.type_name == "ERR_RESOURCE_LIMIT" for entry in parser.error_log):
            raise BadRow("bad_markup", "elements are nested more than 2,000 deep. Leave the page out.")
        if root is None:
            return "", 0
        num_blocks = 0
        for block in list(root.iter("pre")) if drop_code else ():
            if block.getparent() is not None:
                num_blocks += not any(True for _ in block.iterancestors("pre"))
                block.drop_tree()
        return str(html_text.extract_text(root)), num_blocks


def markdown_text(text: str) -> str:
    """Returns the text of a Markdown page, by markdown-it: without marks, addresses of links, and HTML.

    Lines of a paragraph are joined. The cells of a row are joined by `` | ``. Blocks of code are kept as they are.
    """
    parts: list[str] = []
    cells: list[str] | None = None
    is_tight = False
    for token in _MARKDOWN.parse(text):
        block: str | None = None
        if token.type == "paragraph_open":
            is_tight = token.hidden
        elif token.type == "tr_open":
            cells = []
        elif token.type == "tr_close":
            block, cells, is_tight = " | ".join(cells or ()), None, True
        elif token.type == "inline":
            line = "".join(_BREAKS.get(child.type, child.content) for child in token.children or ()).strip()
            if cells is None:
                block = line
            else:
                cells.append(line)
        elif token.type in ("fence", "code_block"):
            block, is_tight = token.content.strip("\n"), False
        elif token.type == "html_block":
            block, is_tight = read_html(token.content)[0], False
        if block:
            parts += ["\n" if is_tight else "\n\n", block]
            is_tight = False
    return "".join(parts[1:])


_BREAKS: Final = {"softbreak": " ", "hardbreak": "\n", "html_inline": ""}
