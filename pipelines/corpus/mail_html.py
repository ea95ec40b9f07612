"""Turns the pages of mails in HTML into text, and marks the quotes and signatures that mail programs mark in them."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any, Final

from pipelines.corpus.items import BadRow
from pipelines.corpus.mail_lines import PageLine
from pipelines.corpus.options import KeepOrDrop

if TYPE_CHECKING:
    from lxml.html import HtmlElement

_SPACES = re.compile(r"\s+")
_BLOCKS = frozenset({"p", "div", "br", "tr", "li", "h1", "h2", "h3", "h4", "h5", "h6", "table", "ul", "ol", "hr"})
_UNSEEN = frozenset({"script", "style", "head", "title"})

_HIDDEN: Final = re.compile(r"display\s*:\s*none|mso-hide\s*:\s*all", re.IGNORECASE)
_INDENT: Final = re.compile(r"border\s*:\s*(?:none|0)", re.IGNORECASE)
_QUOTES: Final = frozenset(
    {"gmail_attr", "moz-cite-prefix", "OutlookMessageHeader", "yahoo_quoted", "protonmail_quote", "zmail_extra"}
)
_SIGNATURES: Final = frozenset(
    {"gmail_signature", "moz-signature", "Signature", "protonmail_signature_block", "ms-outlook-mobile-signature"}
)
_REPLY: Final = frozenset({"divRplyFwdMsg", "mail-editor-reference-message-container"})
"""Classes and ids of quotes, of signatures, and of the element before an answered mail in Outlook, which goes on up to
the end of the page."""
_INLINE: Final = (
    "a",
    "abbr",
    "b",
    "big",
    "code",
    "em",
    "font",
    "i",
    "ins",
    "mark",
    "s",
    "small",
    "span",
    "strong",
    "sub",
    "sup",
    "tt",
    "u",
    "wbr",
)
_QUOTE, _QUOTE_END, _SIGNATURE, _SIGNATURE_END, _LINE = "\ue000", "\ue001", "\ue002", "\ue003", "\ue004"
_NO_MARKS: Final = dict.fromkeys(range(0xE000, 0xE005))
_NO_TEXT: Final = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MAX_SHOWN_DEPTH: Final = 9


def lines_of_page(page: str, signatures: KeepOrDrop, left_out: Counter[str]) -> list[str]:
    """Returns the visible lines of a page, with ``>`` before quotes.

    A quote is a ``blockquote`` that is no mere indentation, and what Gmail, Outlook, Thunderbird, Yahoo and Proton mark
    as one. Their signatures are left out if ``signatures`` is ``drop``. Answers between quotes are text.

    Raises:
        BadRow: the page holds a NUL character.
    """
    import html_text  # imports lxml
    from lxml import etree, html

    if "\0" in page:
        raise BadRow("nul", "its page holds a NUL character. Remove it.")
    parser = html.HTMLParser(encoding="utf-8", huge_tree=True)
    root = _parsed(page.translate(_NO_MARKS).encode("utf-8", "replace"), parser)
    if root is None:
        return []
    for element in root.iter(etree.Element):
        if _HIDDEN.search(element.get("style", "")):
            element.tag = "script"
    etree.strip_elements(
        root, etree.Comment, etree.ProcessingInstruction, etree.Entity, "template", *_UNSEEN, with_tail=False
    )
    is_plain = False
    for element in [*root.iter(etree.Element)]:
        names = {*element.get("class", "").split(), element.get("id", "")}
        is_plain |= "PlainText" in names  # Exchange made the page of a plain text, whose lines may be wrapped
        if element.getparent() is None:
            continue
        if names & _REPLY:
            _mark(element, element.getparent()[-1], _QUOTE, _QUOTE_END)
        elif names & _QUOTES or (element.tag == "blockquote" and not _INDENT.search(element.get("style", ""))):
            _mark(element, element, _QUOTE, _QUOTE_END)
        elif names & _SIGNATURES:
            _mark(element, element, _SIGNATURE, _SIGNATURE_END)
    etree.strip_tags(root, *_INLINE)  # html-text puts spaces around them, which would cut words in two
    root = _parsed(etree.tostring(root, encoding="utf-8", method="html"), parser)  # joins the texts between tags
    if root is None:
        return []
    for element in [inner for block in root.iter("pre") for inner in block.iter()]:
        element.text = element.text and _NO_TEXT.sub(" ", element.text).replace("\n", _LINE)
        element.tail = element.tail and _NO_TEXT.sub(" ", element.tail).replace("\n", _LINE)
    text = html_text.etree_to_text(root).replace(_LINE, "\n")
    lines = "\n".join(_marked(text, signatures, left_out)).strip("\n").split("\n")
    return lines if is_plain else [*map(PageLine, lines)]


def _parsed(data: bytes, parser: Any) -> HtmlElement | None:
    from lxml import etree

    try:
        root: HtmlElement | None = etree.fromstring(data or b"<p>", parser)
    except etree.XMLSyntaxError:  # no tag and no text
        return None
    if any(error.type_name == "ERR_RESOURCE_LIMIT" for error in parser.error_log):  # the rest was not read
        raise BadRow("bad_mail", "its page is nested too deeply.")
    return root


def _mark(first: Any, last: Any, begin: str, end: str) -> None:
    for mark, add in ((begin, first.addprevious), (end, last.addnext)):
        element = first.makeelement("div")
        element.text = mark
        add(element)


def _marked(text: str, signatures: KeepOrDrop, left_out: Counter[str]) -> list[str]:
    kept: list[str] = []
    depth = in_signature = 0
    for line in text.split("\n"):
        if line in (_QUOTE, _QUOTE_END):
            depth = max(0, depth + (1 if line == _QUOTE else -1))
        elif line in (_SIGNATURE, _SIGNATURE_END):
            in_signature = max(0, in_signature + (1 if line == _SIGNATURE else -1))
            if signatures == "drop" and kept and kept[-1].strip() == "--":
                kept.pop()  # otherwise everything below it would count as the signature
        elif in_signature and not depth and signatures == "drop":
            left_out["signature line"] += bool(line.strip())
        else:
            kept.append(("> " * min(depth, _MAX_SHOWN_DEPTH) + line.strip()).rstrip())
    return kept


class _Visible(HTMLParser):
    """Collects the visible text of a page, with line breaks around blocks and ``>`` before quoted mails."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._unseen = 0
        self._quotes = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._unseen += tag in _UNSEEN
        self._quotes += tag == "blockquote"
        if tag in _BLOCKS or tag == "blockquote":
            self._break()

    def handle_endtag(self, tag: str) -> None:
        self._unseen = max(0, self._unseen - (tag in _UNSEEN))
        self._quotes = max(0, self._quotes - (tag == "blockquote"))
        if tag in _BLOCKS or tag == "blockquote":
            self._break()

    def handle_data(self, data: str) -> None:
        if not self._unseen:
            self.parts.append(_SPACES.sub(" ", data))

    def _break(self) -> None:
        self.parts.append("\n" + "> " * bool(self._quotes))


def basic_text(text: str) -> str:
    """Returns the visible text of a page as Reticent 0.3 did: blocks on lines of their own, quotes behind ``>``."""
    page = _Visible()
    page.feed(text)
    page.close()
    lines = (line.strip() for line in "".join(page.parts).split("\n"))
    return "\n".join(line for line in lines if line not in ("", ">"))
