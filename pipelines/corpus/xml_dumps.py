"""Reads rows of the XML dumps of Stack Exchange and of MediaWiki (Wikipedia).

Each element is parsed alone, so a damaged one takes no other with it, and no declaration of the file (entities,
external files) reaches the parser.

Public and non-public: the names and numbers of users are left out. The id of a post or page becomes a pseudonym.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

from lxml import etree

from pipelines.corpus.dialogues import LeftOut
from pipelines.corpus.items import BadRow, Document, Rejected, as_bad_row
from pipelines.corpus.pages import read_html
from pipelines.corpus.records import Source, document, rejected
from pipelines.errors import ConfigError

# An attribute holds no "<", so an element without content ends before the next one.
_ROW: Final = re.compile(r"<row\s[^<]*")
_PAGE_START: Final = re.compile(r"<page[\s>]")
_PAGE_END: Final = "</page>"
_FRAME: Final = re.compile(r"(?:\s|<\?[^<>]*\?>|<!DOCTYPE[^<]*>|</?(?:posts|comments|mediawiki)\b[^<>]*>)*")

_AUTHORS: Final = ("OwnerUserId", "UserId", "OwnerDisplayName", "UserDisplayName")
_TEXT_MODELS: Final = (None, "wikitext")
_REDIRECT: Final = re.compile(r"\s*#\s*redirect\b", re.IGNORECASE)
_MAX_MARKS: Final = 20_000
_EXTERNAL: Final = re.compile(r"\[(?:[a-z]{2,9}:|//)")
# Links of these kinds show a picture or a list of other pages, and no text of their own.
_UNSEEN_LINK: Final = re.compile(
    r"\s*(?:file|image|media|category|datei|bild|kategorie|fichier|catégorie|archivo|imagen|categoría|immagine"
    r"|categoria|ficheiro|imagem|bestand|afbeelding|categorie|plik|grafika|kategoria|fil|kategori|файл|изображение"
    r"|категория|ファイル|画像|カテゴリ|文件|图像|分类|[a-z]{2,3})\s*:\S",
    re.IGNORECASE,
)
_MAGIC_WORD: Final = re.compile(r"__[A-Z]{3,25}__")
_LINE: Final = re.compile(r"[ \t\xa0]*\n[ \t\xa0]*")


def posts(source: Source, text: str) -> list[Document | Rejected | LeftOut]:
    """Reads the posts or comments in some lines of ``Posts.xml`` or ``Comments.xml``.

    A document is the title, if there is one, and the visible text of the body. Blocks of code (``pre``) are left out
    and counted. Code inside a sentence is kept. A post without text counts as a part left out.

    Args:
        source: place of the lines; further elements in one line count as the rows behind it
        text: lines with elements ``<row …/>``
    """
    found = _ROW.findall(text)
    if not found:
        _check_frame(text, "<row …>: Posts.xml or Comments.xml of Stack Exchange")
    return _read(source, found, _post)


def _read(
    source: Source, elements: Iterable[str], read: Callable[[Source, str], list[Document | LeftOut]]
) -> list[Document | Rejected | LeftOut]:
    """Reads the elements of some lines, each alone."""
    items: list[Document | Rejected | LeftOut] = []
    for number, element in enumerate(elements):
        place = source._replace(row=source.row + number)
        try:
            items += _named(read(place, element), source.row, number)
        except BadRow as bad:
            items.append(rejected(place, bad.reason, bad.detail, len(element.encode("utf-8", "replace"))))
    return items


def _post(source: Source, element: str) -> list[Document | LeftOut]:
    end = element.rfind(">")
    row = parsed(f"{element[:end].removesuffix('/')}/>" if end >= 0 else element)
    body, comment = row.get("Body"), row.get("Text")
    num_blocks = 0
    if body is not None:
        text, num_blocks = read_html(body, drop_code=True)
    elif comment is not None and row.get("PostId") and row.get("PostHistoryTypeId") is None:
        text = comment
    else:
        raise BadRow(
            "missing_text",
            "holds neither the Body of a post nor the Text of a comment. Leave out the files other than Posts.xml and "
            "Comments.xml.",
        )
    text = "\n\n".join(part for part in ((row.get("Title") or "").strip(), text.strip()) if part)
    left_out = (("block of code", num_blocks),) if num_blocks else ()
    if not text:
        return [LeftOut("post without text"), *[LeftOut("block of code")] * num_blocks]
    made = document(source, text, {}, source_id=row.get("Id") or None, left_out=left_out)
    return [replace(made, owners=_author(row)) if source.options.owner_from == "sender" else made]


def _author(row: Any) -> tuple[str, ...]:
    """Returns the author of a post or a comment: a number, or the name of one who has left."""
    return tuple(name for key in _AUTHORS if (name := row.get(key)))[:1]


def _named(items: Sequence[Document | LeftOut], row: int, number: int) -> list[Document | LeftOut]:
    """Gives further elements of a line an id of their own, because rows behind the line have their numbers too."""
    if number == 0:
        return list(items)
    return [
        replace(item, source_id=f"{row}.{number}") if isinstance(item, Document) and item.source_id is None else item
        for item in items
    ]


def wiki_pages(source: Source, text: str) -> list[Document | Rejected | LeftOut]:
    """Reads the articles in some lines of a MediaWiki dump.

    A document is the title and the text of the last revision in the file. Redirects, pages of other namespaces (talk,
    users, files, templates) and pages that are no wikitext are left out and counted.

    Args:
        source: place of the lines; further pages in one line count as the rows behind it
        text: lines with elements ``<page>…</page>``

    Raises:
        ConfigError: mwparserfromhell is not installed.
    """
    starts = [match.start() for match in _PAGE_START.finditer(text)]
    if not starts:
        _check_frame(text, "<page>: a dump such as pages-articles.xml")
    elements = (text[start:end] for start, end in pairwise([*starts, len(text)]))
    return _read(source, elements, lambda place, element: [_page(place, element)])


def _page(source: Source, element: str) -> Document | LeftOut:
    before, end, _ = element.partition(_PAGE_END)
    page = parsed(before + end)
    if (page.findtext("ns") or "0").strip() != "0":
        return LeftOut("page that is no article")
    if page.find("redirect") is not None:
        return LeftOut("redirect")
    revisions = page.findall("revision")
    if not revisions:
        raise BadRow("missing_text", "a page without a revision. Use a dump with texts, such as pages-articles.xml.")
    last = revisions[-1]
    if last.findtext("model") not in _TEXT_MODELS:
        return LeftOut("page that is no article")
    wikitext = last.findtext("text") or ""
    if _REDIRECT.match(wikitext):
        return LeftOut("redirect")
    text = wiki_text(wikitext)
    if not text:
        return LeftOut("page without text")
    title = (page.findtext("title") or "").strip()
    return document(source, f"{title}\n\n{text}" if title else text, {}, source_id=page.findtext("id"))


def wiki_text(wikitext: str) -> str:
    """Returns the text of a wiki page as readers see it, by mwparserfromhell.

    Templates, tables, references, formulas, pictures, categories and links to other languages are left out.

    Raises:
        BadRow: the page has so much markup that the parser would take minutes.
        ConfigError: mwparserfromhell is not installed.
    """
    try:
        import mwparserfromhell
    except ImportError:
        raise ConfigError(
            "corpus.format: mediawiki needs mwparserfromhell. Install it with: pip install 'reticent[documents]'"
        ) from None
    num_marks = wikitext.count("<") + 4 * (
        len(_EXTERNAL.findall(wikitext)) + wikitext.count("[[") + wikitext.count("{{")
    )
    if num_marks > _MAX_MARKS:
        raise BadRow("bad_markup", f"more than {_MAX_MARKS} tags and links: such a page is not parsed. Leave it out.")
    with as_bad_row("bad_markup", "the parser of wikitext fails ({}). Leave the page out."):
        code: Any = mwparserfromhell.parse(wikitext)
        unseen = [tag for tag in code.ifilter_tags(recursive=False) if str(tag.tag).strip().lower() == "table"]
        unseen += [link for link in code.ifilter_wikilinks() if _UNSEEN_LINK.match(str(link.title))]
        for node in unseen:
            try:
                code.remove(node)
            except ValueError:  # inside another that is removed already
                continue
        text = _MAGIC_WORD.sub("", str(code.strip_code(normalize=True, collapse=True)))
    return re.sub(r"\n{3,}", "\n\n", _LINE.sub("\n", text)).strip()


def parsed(element: str) -> Any:
    """Parses one element, without declarations and entities. Raises `BadRow`."""
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, remove_comments=True, remove_pis=True
    )
    try:
        return etree.fromstring(element, parser)
    except (etree.XMLSyntaxError, ValueError):
        raise BadRow(
            "bad_markup", "not well-formed XML, or cut off. Copy or unpack the file again; the other rows are read."
        ) from None


def _check_frame(text: str, wanted: str) -> None:
    before, _, site = text.partition("<siteinfo>")
    if not _FRAME.fullmatch(before + site.partition("</siteinfo>")[2]):
        raise BadRow("bad_markup", f"no element {wanted}. Set corpus.format to the format of the file.")
