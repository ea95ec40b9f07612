"""Pseudonyms and folds of documents, and the mapping of gold spans to sentences."""

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

    A document with an id keeps its pseudonym if rows before it are added or removed. Any other document is named by its
    file and row. The piece's first row is part of the name, so that an id used in two pieces of a file still names two
    documents. Inside a piece, the row number distinguishes the second one from the first. The fold derives from
    ``base``, which leaves out the piece, so that a change of ``partition_documents`` moves no document to another fold.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._seen: set[str] = set()

    def name(self, document: Document, first_row: int) -> tuple[str, str]:
        """Returns ``(doc_id, base)`` of the next document, given the first row of its piece."""
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
    """Draws the fold of a document without one by a public hash of its pseudonym, so that it never depends on text."""
    share = int.from_bytes(hashlib.sha256(f"fold/{base}".encode()).digest()[:8], "big") / 2**64
    if share < test_fraction:
        return "test"
    return "valid" if share < test_fraction + valid_fraction else "train"


class GoldRow(NamedTuple):
    """The part of a gold span in one sentence, with half-open offsets in the sentence's text and tokens."""

    sentence_index: int
    start: int
    end: int
    start_token: int
    end_token: int
    label: str
    secret_id: int


def map_gold(spans: Sequence[GoldSpan], sentences: Sequence[Sentence]) -> list[GoldRow]:
    """Maps gold spans to rows per sentence, ordered by sentence, then by span.

    A span over several sentences gives a row in each, with one ``secret_id`` (its index in ``spans``). A row covers all
    tokens that the span touches. Characters outside of tokens (white space, a speaker's tag) give no row.
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
