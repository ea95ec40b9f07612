"""The results of reading: documents, and rows that cannot be used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

Reason = Literal[
    "undecodable", "nul", "over_long", "bad_json", "not_an_object", "missing_text", "wrong_type", "bad_fold",
    "bad_spans", "empty", "bad_columns", "no_turns", "damaged", "not_a_file",
    "reader_failed", "other_language", "bad_mail", "bad_markup", "bad_file",
    "no_owner", "several_owners",
]  # fmt: skip

EMPTY: Final = "empty"
"""Reason of rows without text, such as empty cells. They are counted apart from rejected rows."""


@dataclass(frozen=True)
class GoldSpan:
    """A secret marked by hand or by a simulator: half-open character offsets in the document's text."""

    start: int
    end: int
    label: str


class Turn(NamedTuple):
    """A turn of a dialogue: half-open character offsets in the document's text, and the speaker's name in the file."""

    start: int
    end: int
    speaker: str | None


@dataclass(frozen=True, kw_only=True)
class Document:
    """A document of the corpus.

    Attributes:
        name: name of the file
        row: 1-based position of the document's row in the file
        text: text, not empty
        source_id: the document's own id
        domain, fold, label: values from the corpus
        gold: gold spans; None if the row has no gold field, possibly empty if it has one
        left_out: kinds of parts that are not text, such as attachments, with their counts
        num_rows: number of rows in the document that can be rejected separately, such as lines of a conversation
        layout: layout for splitting, if the format gives one: ``turns`` of a dialogue, or ``whole`` for one row
        turns: turns of a dialogue, in order, if the format gives them apart from their text
        names: names that the file gives for people who are mentioned, or whose turns have a role as speaker
        owners: ids of the people whose text it is, as the file writes them (`pipelines.corpus.owners`): secrets. None
            if the format does not tell.
    """

    name: str
    row: int
    text: str
    source_id: str | None = None
    domain: str | None = None
    fold: str | None = None
    label: str | None = None
    gold: tuple[GoldSpan, ...] | None = None
    left_out: tuple[tuple[str, int], ...] = ()
    num_rows: int = 1
    layout: Literal["turns", "whole"] | None = None
    turns: tuple[Turn, ...] | None = None
    names: tuple[str, ...] = ()
    owners: tuple[str, ...] | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class Rejected:
    """A row, or a line of a row, that cannot be used. ``detail`` says what to do and never quotes the text."""

    name: str
    row: int
    reason: Reason
    detail: str
    num_bytes: int

    def row_values(self) -> dict[str, Any]:
        """Returns the row of the ``rejected`` table."""
        return {
            "source_file": self.name,
            "source_row": self.row,
            "reason": self.reason,
            "detail": self.detail,
            "num_bytes": self.num_bytes,
        }


class BadRow(Exception):
    """A reason why a row cannot be used. The reader turns it into a `Rejected`; it is never shown."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(reason)
        self.reason: Reason = reason
        self.detail = detail


@contextmanager
def as_bad_row(reason: Reason, detail: str) -> Iterator[None]:
    """Turns any exception of a library that parses a row into a `BadRow`.

    The exception's message is dropped, because it may quote the row.

    Args:
        reason: reason of the rejected row
        detail: description of the fault and of what to do; ``{}`` stands for the exception's class

    Raises:
        BadRow: the block failed.
    """
    try:
        yield
    except (BadRow, MemoryError):
        raise
    except Exception as error:  # libraries raise various errors for damaged text
        raise BadRow(reason, detail.format(type(error).__name__)) from None


def held_back(document: Document, language: str) -> Rejected:
    """Rejects a document because of its language."""
    detail = f'plainly in another language ({language}) than split.languages. split.other_languages = "name" keeps it.'
    return rejected_document(document, "other_language", detail)


def rejected_document(document: Document, reason: Reason, detail: str) -> Rejected:
    """Rejects a document that was read."""
    size = len(document.text.encode("utf-8"))
    return Rejected(name=document.name, row=document.row, reason=reason, detail=detail, num_bytes=size)
