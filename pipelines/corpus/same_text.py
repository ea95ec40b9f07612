"""Compares documents by their text, independent of its storage and its division into sentences."""

from __future__ import annotations

import hmac
import re
import unicodedata
from collections.abc import Iterable, Iterator
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


def normal_form(rows: Iterable[str]) -> str:
    """Returns the text of a document's sentences in Unicode form NFC, without white space and labels such as ``USR:``.

    Leaving out characters makes more documents equal, never fewer. If no text would be left, labels stay.
    """
    texts = [text if text.isascii() else unicodedata.normalize("NFC", text) for text in rows]
    plain = "".join("".join(_LABEL.sub(" ", text) if ":" in text else text for text in texts).split())
    return plain or "".join("".join(texts).split())


def document_names(secret: bytes, table: Table) -> Iterator[int]:
    """Names the documents of a table of sentences by their text: 64 bits of an HMAC under the store's secret.

    A document without text has no name.
    """
    key = derived_key(secret, "text of a document")
    for _, rows in groupby(table.rows(["doc_id", "text"]), itemgetter("doc_id")):
        if text := normal_form(row["text"] for row in rows):
            yield int.from_bytes(hmac.digest(key, text.encode(), "sha256")[:NAME_BYTES], "little")
