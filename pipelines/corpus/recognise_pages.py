"""Recognises pages, dumps, annotated columns and office files by their beginning."""

from __future__ import annotations

import re
from typing import Final

from pipelines.corpus.recognition import Head, Reading, Recogniser

_START_BYTES: Final = 4096
_XML: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:(?:<\?xml[^>]*\?>|<!--.*?-->)\s*)*<([A-Za-z][\w:.-]*)", re.DOTALL)
_HTML: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*\?>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body|title)\b",
    re.DOTALL | re.IGNORECASE,
)
_TAG: Final = re.compile(rb"</(?:p|div|body|html|span|a|h[1-6]|table|ul)>", re.IGNORECASE)
_ROW: Final = re.compile(rb"<row\s+Id=")
_STACK_FILES: Final = frozenset({b"posthistory", b"postlinks", b"users", b"badges", b"votes", b"tags"})
_WORD: Final = re.compile(rb"[0-9]+(?:[-.][0-9]+)?\t[^\t\n]+(?:\t[^\t\n]*){8,}\r?")
_NUMBERED: Final = re.compile(rb"[0-9]+\t[^\t\n]+(?:\t[^\t\n]*)*\t(?:O|[BIESLU]-[^\t\n]+)(?:\t[^\t\n]*)*\r?")
_ZIP: Final = b"PK\x03\x04"
_OLD_OFFICE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ARCHIVES: Final = ((b"7z\xbc\xaf\x27\x1c", "7z"), (b"Rar!\x1a\x07", "RAR"), (b"BZh", "bzip2"), (b"\xfd7zXZ", "xz"))


def stackexchange(head: Head) -> Reading | None:
    """Recognises ``Posts.xml`` and ``Comments.xml``, and the other files of the same dump, which hold no text."""
    root = root_of(head)
    if root is None or not _ROW.search(head.data):
        return None
    if root in (b"posts", b"comments"):
        what = "posts" if root == b"posts" else "comments"
        return Reading("stackexchange", 0.98, f"{what} of a dump of Stack Exchange, one document each")
    if root in _STACK_FILES:
        return Reading(None, 0.98, "a table of a dump of Stack Exchange without texts of its own")
    return None


def mediawiki(head: Head) -> Reading | None:
    """Recognises a dump of Wikipedia or another MediaWiki."""
    if root_of(head) != b"mediawiki":
        return None
    return Reading("mediawiki", 0.98, "articles of a MediaWiki dump, such as Wikipedia")


def html(head: Head) -> Reading | None:
    """Recognises HTML pages by their first tag, or by their suffix and tags."""
    if _HTML.match(head.data[:_START_BYTES]):
        return Reading("html", 0.95, "a page of HTML: its visible text")
    if head.suffix in (".html", ".htm", ".xhtml") and _TAG.search(head.data):
        return Reading("html", 0.9, "a page of HTML: its visible text")
    return None


def markdown(head: Head) -> Reading | None:
    """Recognises Markdown by its suffix."""
    if head.suffix not in (".md", ".markdown") or b"\0" in head.data[:_START_BYTES]:
        return None
    return Reading("markdown", 0.9, "a page of Markdown: its text without marks")


def other_xml(head: Head) -> Reading | None:
    """Recognises XML that no format reads."""
    root = root_of(head)
    if root is None or not head.data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"<?xml", b"<" + root)):
        return None
    if head.suffix != ".xml" and not head.data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<?xml"):
        return None
    return Reading(None, 0.6, "XML of a kind that no format reads")


def conllu(head: Head) -> Reading | None:
    """Recognises CoNLL-U: lines of at least ten columns, the first of them a number."""
    lines = [line for line in _lines(head) if line.strip() and not line.startswith(b"#")]
    if not lines or not all(_WORD.fullmatch(line) for line in lines):
        return None
    return Reading("conllu", 0.97, "words with annotations in ten columns (CoNLL-U): only the text, and known entities")


def conll_documents(head: Head) -> Reading | None:
    """Recognises the columns of CoNLL-2003 and CoNLL-2012 by their lines between documents, or by numbered tokens."""
    start = head.data.removeprefix(b"\xef\xbb\xbf").lstrip()
    what = "tokens with tags of named entities in columns; the tags count as known secrets"
    if start.startswith((b"-DOCSTART-", b"#begin document")):
        return Reading("conll_documents", 0.98, f"documents of {what}")
    lines = [line for line in _lines(head) if line.strip() and not line.startswith(b"#")]
    if len(lines) > 1 and all(_NUMBERED.fullmatch(line) for line in lines):
        return Reading("conll_documents", 0.95, f"numbered {what}")
    return None


def pdf(head: Head) -> Reading | None:
    """Recognises PDF files."""
    if b"%PDF-" not in head.data[:1024]:
        return None
    return Reading("pdf", 0.98, "a PDF file, one document per page")


def office(head: Head) -> Reading | None:
    """Recognises Word files, and office files and archives that no format reads."""
    data = head.data
    if data.startswith(_OLD_OFFICE):
        return Reading(None, 0.98, "an old Office or Outlook file, or one with a password: save it as .docx or .eml")
    if data.startswith(b"{\\rtf"):
        return Reading(None, 0.98, "a Rich Text file: save it as .docx")
    for mark, name in _ARCHIVES:
        if data.startswith(mark):
            return Reading(None, 0.98, f"an archive ({name}): unpack it")
    if not data.startswith(_ZIP):
        return None
    if b"word/document.xml" in data or head.suffix in (".docx", ".docm"):
        return Reading("docx", 0.97, "a Word file")
    if b"mimetypeapplication/epub" in data[:200]:
        return Reading(None, 0.98, "an e-book (EPUB): convert it to HTML")
    if b"mimetypeapplication/vnd.oasis" in data[:200]:
        return Reading(None, 0.98, "an OpenDocument file: save it as .docx")
    if b"xl/workbook" in data or b"ppt/presentation" in data or head.suffix in (".xlsx", ".pptx"):
        return Reading(None, 0.98, "a table or presentation of Office: save it as CSV or PDF")
    return Reading(None, 0.9, "an archive (zip): unpack it")


def root_of(head: Head) -> bytes | None:
    """Returns the name of the first element of XML in lower case; None if the file does not begin with one."""
    match = _XML.match(head.data[:_START_BYTES])
    return match[1].lower() if match else None


def _lines(head: Head) -> list[bytes]:
    """Returns the first lines, without one that the limit may have cut."""
    lines = head.data.removeprefix(b"\xef\xbb\xbf").split(b"\n")[:2000]
    return lines if head.is_whole and len(lines) < 2000 else lines[:-1]


RECOGNISERS: Final[tuple[Recogniser, ...]] = (
    stackexchange, mediawiki, html, markdown, other_xml, conllu, conll_documents, pdf, office,
)  # fmt: skip
