"""Reads rows of the shards and of the original text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pipelines.errors import StageError
from pipelines.mask import MASK
from pipelines.tables import Table, side_by_side

BATCH_ROWS = 2_048
_SHARD_COLUMNS = ("doc_id", "sentence_index", "redacted_text", "speaker", "domain", "label")
_SENTENCE_COLUMNS = ("doc_id", "sentence_index", "text", "speaker", "domain", "label", "fold")
_REDACTED_COLUMNS = ("doc_id", "sentence_index", "spans", "num_masked_tokens", "is_duplicate", "failed_closed")

Range = tuple[int, int]
"""A half-open range of characters."""


class TrainingRow(NamedTuple):
    """A row to train on or to evaluate.

    Attributes:
        doc_id, sentence_index: place of the row.
        text: redacted or original text.
        speaker, domain, label: metadata of the row.
        private_chars: private ranges of an original text, in order. Empty for redacted text.
    """

    doc_id: str
    sentence_index: int
    text: str
    speaker: str | None
    domain: str | None
    label: str | None
    private_chars: tuple[Range, ...] = ()


def shard_rows(tables: Iterable[Table]) -> Iterator[TrainingRow]:
    """Yields the rows of shards, with redacted text."""
    for table in tables:
        for batch in table.batches(_SHARD_COLUMNS, BATCH_ROWS):
            columns = (batch.column(name).to_pylist() for name in _SHARD_COLUMNS)
            yield from (TrainingRow(*values) for values in zip(*columns, strict=True))


Held = Mapping[tuple[str, int], Sequence[Range]]
"""Ranges that the gate found in rows that it holds, by document and number. They are as private as a policy's finds."""


def original_rows(
    sentences: Sequence[Table], fold: str, redacted: Sequence[Table] | None = None, held: Held | None = None
) -> Iterator[TrainingRow]:
    """Yields the rows of one fold as they were before redaction, including duplicates.

    Args:
        sentences: sentences tables.
        fold: ``train``, ``valid`` or ``test``.
        redacted: redacted tables of the same partitions in the same order, which mark private text. None marks nothing.
        held: further ranges to mark, of the training fold.

    Raises:
        StageError: a redacted table does not hold the same rows in the same order as its sentences.
    """
    if redacted is not None and len(redacted) != len(sentences):
        raise StageError(f"{len(sentences)} sentences tables, {len(redacted)} redacted ones; rerun redact")
    for at, table in enumerate(sentences):
        for rows, marks in _in_lockstep(table, None if redacted is None else redacted[at], held):
            for row, mark in zip(rows, marks, strict=True):
                if row["fold"] == fold:
                    yield TrainingRow(
                        row["doc_id"],
                        row["sentence_index"],
                        row["text"],
                        row["speaker"],
                        row["domain"],
                        row["label"],
                        () if mark is None else private_ranges(row["text"], mark),
                    )


def typed_rows(
    sentences: Sequence[Table], redacted: Sequence[Table], masks: Sequence[str], held: Held | None = None
) -> Iterator[TrainingRow]:
    """Yields the redacted rows of the training fold, with masks that name the masked kind (an ablation of JFT, A.2).

    Args:
        sentences, redacted, held: arguments as for `original_rows`.
        masks: spelling of the masks, such as ``<PERSON>``. A run of any other kind becomes ``<MASK>``, and so does a
            row that is masked as a whole. A run of several kinds takes the mask of its first.
    """
    for tables in zip(sentences, redacted, strict=True):
        for rows, marks in _in_lockstep(*tables, held):
            for row, mark in zip(rows, marks, strict=True):
                if row["fold"] == "train":
                    text = _typed_text(row["text"], mark, masks)
                    named = (row[name] for name in ("speaker", "domain", "label"))
                    yield TrainingRow(row["doc_id"], row["sentence_index"], text, *named)


def _typed_text(text: str, mark: dict[str, Any], masks: Sequence[str]) -> str:
    if not mark["spans"]:
        return MASK if private_ranges(text, mark) else text
    written, at, last = "", 0, 0
    for span in sorted(mark["spans"], key=lambda span: (span["start"], span["end"])):
        if span["start"] < last or (last and not text[last : span["start"]].strip()):  # the run continues
            at = last = max(last, span["end"])
            continue
        name = f"<{span['label']}>"
        written += text[at : span["start"]] + (name if name in masks else MASK)
        at = last = span["end"]
    return written + text[at:]


def _in_lockstep(
    sentences: Table, redacted: Table | None, held: Held | None
) -> Iterator[tuple[list[dict[str, Any]], Sequence[Any]]]:
    if redacted is None:
        for batch in sentences.batches(_SENTENCE_COLUMNS, BATCH_ROWS):
            yield batch.to_pylist(), [None] * batch.num_rows
        return
    for ours, theirs in side_by_side(
        sentences, _SENTENCE_COLUMNS, redacted, _REDACTED_COLUMNS, BATCH_ROWS, made_by="redact"
    ):
        marks = theirs.to_pylist()
        for mark in marks if held else ():
            ranges = held.get((mark["doc_id"], mark["sentence_index"]), ()) if held else ()
            mark["spans"] += [{"start": start, "end": end, "label": ""} for start, end in ranges]
        yield ours.to_pylist(), marks


def private_ranges(text: str, mark: dict[str, Any]) -> tuple[Range, ...]:
    """Returns the private ranges of a row, from its row of the redacted table.

    A row that is masked but has no spans (a later copy, a policy that failed) is private as a whole: fail closed.
    """
    whole = mark["is_duplicate"] or mark["failed_closed"] or (mark["num_masked_tokens"] and not mark["spans"])
    if whole:
        return ((0, len(text)),)
    return tuple(sorted((span["start"], span["end"]) for span in mark["spans"]))


def split_private(text: str, private_chars: Sequence[Range]) -> list[tuple[str, bool]]:
    """Cuts a text into public and private pieces, in turn. Joined, they are the text again.

    White space before a private piece goes with it, as byte-level tokenizers want it, and pieces that only white space
    separates are joined. The public pieces do not depend on the private text. If the pieces are encoded one by one, no
    token covers both kinds, so no private character can choose how the public text beside it is cut into tokens.
    """
    merged: list[list[int]] = []
    for start, end in sorted(private_chars):
        start = len(text[:start].rstrip())
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        elif start < end:
            merged.append([start, end])
    pieces: list[tuple[str, bool]] = []
    at = 0
    for start, end in merged:
        pieces += [(text[at:start], False), (text[start:end], True)]
        at = end
    pieces.append((text[at:], False))
    return [piece for piece in pieces if piece[0]]
