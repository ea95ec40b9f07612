"""What a document is called, which fold it falls into, where its gold spans lie, and when too many were rejected."""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from pipelines.context import pseudonym
from pipelines.corpus.items import Document, GoldSpan
from pipelines.corpus.split import Sentence


class DocumentNames:
    """Gives every document of one partition a pseudonym that is unique in the corpus.

    A document with an id of its own keeps its pseudonym when rows before it come or go; any other is its file and row.
    The piece's first row is part of the name, so that an id used twice in a file, in two pieces, still names two
    documents; inside a piece the row number tells the second one from the first. ``base`` leaves the piece out: the
    fold derives from it, so that a change of ``partition_documents`` moves no document to another fold.

    Args:
        secret: the store's secret.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._seen: set[str] = set()

    def name(self, document: Document, first_row: int) -> tuple[str, str]:
        """``(doc_id, base)`` of the next document; ``first_row`` is that of its piece."""
        if document.source_id is None:
            base = pseudonym(self._secret, "row", document.name, str(document.row))
            return base, base
        base = pseudonym(self._secret, "id", document.name, document.source_id)
        parts = [base, str(first_row)]
        if base in self._seen:
            parts.append(str(document.row))
        self._seen.add(base)
        return pseudonym(self._secret, "document", *parts), base


def fold_of(base: str, valid_fraction: float, test_fraction: float) -> str:
    """The fold of a document without one: a public hash of its pseudonym, so that it never depends on its text."""
    share = int.from_bytes(hashlib.sha256(f"fold/{base}".encode()).digest()[:8], "big") / 2**64
    if share < test_fraction:
        return "test"
    return "valid" if share < test_fraction + valid_fraction else "train"


class GoldRow(NamedTuple):
    """The part of a gold span that lies in one sentence; offsets in its text and its tokens, half-open."""

    sentence_index: int
    start: int
    end: int
    start_token: int
    end_token: int
    label: str
    secret_id: int


def map_gold(spans: Sequence[GoldSpan], sentences: Sequence[Sentence]) -> list[GoldRow]:
    """Gold spans as rows per sentence, ordered by sentence, then by span.

    A span over several sentences gives a row in each, with one ``secret_id`` (its place in ``spans``). A row's tokens
    are all that the span touches. Characters of no token (white space, a speaker's tag) give no row.
    """
    rows: list[GoldRow] = []
    starts = [sentence.char_start for sentence in sentences]
    for secret_id, span in enumerate(spans):
        index = max(bisect_right(starts, span.start) - 1, 0)
        while index < len(sentences) and starts[index] < span.end:
            sentence = sentences[index]
            start = max(span.start - starts[index], 0)
            end = min(span.end - starts[index], len(sentence.text))
            start_token = bisect_right(sentence.token_ends, start)
            end_token = bisect_left(sentence.token_starts, end)
            if start < end and start_token < end_token:
                rows.append(GoldRow(index, start, end, start_token, end_token, span.label, secret_id))
            index += 1
    rows.sort(key=lambda row: (row.sentence_index, row.secret_id))
    return rows
