"""Compares documents by their text, independent of its storage and its division into sentences."""

from __future__ import annotations

import hmac
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from pipelines.context import derived_key

if TYPE_CHECKING:
    from pipelines.tables import Table

NAME_BYTES = 8
"""Length of a document's name. Two other documents of n and m share one with probability n·m / 2^64 at most."""
_LABEL = re.compile(r"[A-Za-z0-9_ ]{1,16}:(?=\s|$)")
"""Possible tag of a speaker, which the tables of a dialogue that was read as turns do not hold in the text."""
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def normal_form(rows: Iterable[str]) -> str:
    """Returns the text of a document's sentences in Unicode form NFC, without white space and labels such as ``USR:``.

    Leaving out characters makes documents equal that were read as turns and as lines. But the characters that a label
    takes with it depend on the white space before it, so the text with its labels is compared as well (`forms_of`). If
    no text would be left, labels stay.
    """
    texts = [text if text.isascii() else unicodedata.normalize("NFC", text) for text in rows]
    return _unspaced(_LABEL.sub(" ", text) if ":" in text else text for text in texts) or _unspaced(texts)


def forms_of(rows: Sequence[str]) -> list[str]:
    """Returns the forms by which a document is recognised, each once; none for a document without text.

    Beside `normal_form` there is the visible text with its labels, which is the same however it is spaced, wrapped and
    cut into sentences, and the normal form of that text. So a byte order mark inside a file, a soft hyphen, a
    zero-width space and repeated spaces hide no document.
    """
    visible = [_visible(text) for text in rows]
    forms = (normal_form(rows), _unspaced(visible), normal_form(visible))
    return [form for form in dict.fromkeys(forms) if form]


def _unspaced(texts: Iterable[str]) -> str:
    return "".join("".join(texts).split())


def _visible(text: str) -> str:
    """Returns a text in form NFC, with one space in place of white space, and without characters of no width."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", _NOT_ASCII.sub(_unless_hidden, text))
    return " ".join(text.split())


def _unless_hidden(character: re.Match[str]) -> str:
    return "" if unicodedata.category(character[0]) == "Cf" else character[0]


def document_names(secret: bytes, table: Table) -> Iterator[int]:
    """Names the documents of a table of sentences by their text: 64 bits of an HMAC under the store's secret.

    A document has a name for each of its forms (`forms_of`). Two documents that have one name in common are taken for
    one. A document without text has no name.
    """
    key = derived_key(secret, "text of a document")
    for _, rows in groupby(table.rows(["doc_id", "text"]), itemgetter("doc_id")):
        for text in forms_of([row["text"] for row in rows]):
            yield int.from_bytes(hmac.digest(key, text.encode(), "sha256")[:NAME_BYTES], "little")
