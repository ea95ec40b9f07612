"""Rows of the shards and of the original text, gathered into records through a scratch file.

Texts go to disk as they are read and come back record by record. In memory stay, for each row, a digest of its
document, its sentence index, a hash of its content where the order needs one, and borders: under 100 bytes.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pipelines.errors import StageError
from pipelines.policies.mask import MASK
from pipelines.tables import iter_batches, open_table
from pipelines.training.ragged import RaggedArray, RaggedWriter
from pipelines.training.views import RecordUnit

BATCH_ROWS = 2_048
_DIGEST_BYTES = 16
_HASH_BYTES = 32
_SHARD_COLUMNS = ("doc_id", "sentence_index", "redacted_text", "speaker", "domain", "label")
_SENTENCE_COLUMNS = ("doc_id", "sentence_index", "text", "speaker", "domain", "label", "fold")
_REDACTED_COLUMNS = ("doc_id", "sentence_index", "spans", "num_masked_tokens", "is_duplicate", "failed_closed")

IntArray = npt.NDArray[np.int64]
Range = tuple[int, int]
"""A half-open range of characters."""


class Row(NamedTuple):
    """One row to train or to evaluate on.

    Attributes:
        doc_id, sentence_index: where it belongs.
        text: redacted or original.
        speaker, domain, label: its metadata.
        private_chars: what of an original text is private, in order; empty for redacted text.
    """

    doc_id: str
    sentence_index: int
    text: str
    speaker: str | None
    domain: str | None
    label: str | None
    private_chars: tuple[Range, ...] = ()


def shard_rows(paths: Iterable[Path]) -> Iterator[Row]:
    """The rows of shards, redacted text."""
    for path in paths:
        for batch in iter_batches(path, "shard", _SHARD_COLUMNS, BATCH_ROWS):
            columns = (batch.column(name).to_pylist() for name in _SHARD_COLUMNS)
            yield from (Row(*values) for values in zip(*columns, strict=True))


def original_rows(
    sentence_paths: Sequence[Path], fold: str, redacted_paths: Sequence[Path] | None = None
) -> Iterator[Row]:
    """The rows of one fold as they were before redaction, duplicates included.

    Args:
        sentence_paths: sentences tables.
        fold: ``train``, ``valid`` or ``test``.
        redacted_paths: the redacted tables of the same partitions in the same order, to mark what is private; None
            marks nothing.

    Raises:
        StageError: a redacted table does not hold the same rows in the same order as its sentences.
    """
    if redacted_paths is not None and len(redacted_paths) != len(sentence_paths):
        raise StageError(f"{len(sentence_paths)} sentences tables, {len(redacted_paths)} redacted ones; rerun redact")
    for at, path in enumerate(sentence_paths):
        beside = None if redacted_paths is None else redacted_paths[at]
        for rows, marks in _in_lockstep(path, beside):
            for row, mark in zip(rows, marks, strict=True):
                if row["fold"] == fold:
                    yield Row(
                        row["doc_id"],
                        row["sentence_index"],
                        row["text"],
                        row["speaker"],
                        row["domain"],
                        row["label"],
                        () if mark is None else private_ranges(row["text"], mark),
                    )


def typed_rows(sentence_paths: Sequence[Path], redacted_paths: Sequence[Path], masks: Sequence[str]) -> Iterator[Row]:
    """The rows of the training fold, redacted, with masks that tell what was masked (an ablation of JFT, A.2).

    Args:
        sentence_paths, redacted_paths: as for `original_rows`.
        masks: how they are written, such as ``<PERSON>``. A run of any other kind is ``<MASK>``, and so is a row that
            is masked as a whole. A run of several kinds goes by its first.
    """
    for sentences, redacted in zip(sentence_paths, redacted_paths, strict=True):
        for rows, marks in _in_lockstep(sentences, redacted):
            for row, mark in zip(rows, marks, strict=True):
                if row["fold"] == "train":
                    text = _typed_text(row["text"], mark, masks)
                    named = (row[name] for name in ("speaker", "domain", "label"))
                    yield Row(row["doc_id"], row["sentence_index"], text, *named)


def _typed_text(text: str, mark: dict[str, Any], masks: Sequence[str]) -> str:
    if not mark["spans"]:
        return MASK if private_ranges(text, mark) else text
    written, at, last = "", 0, 0
    for span in sorted(mark["spans"], key=lambda span: (span["start"], span["end"])):
        if span["start"] < last or (last and not text[last : span["start"]].strip()):  # the run goes on
            at = last = max(last, span["end"])
            continue
        name = f"<{span['label']}>"
        written += text[at : span["start"]] + (name if name in masks else MASK)
        at = last = span["end"]
    return written + text[at:]


def _in_lockstep(sentences: Path, redacted: Path | None) -> Iterator[tuple[list[dict[str, Any]], Sequence[Any]]]:
    if redacted is None:
        for batch in iter_batches(sentences, "sentences", _SENTENCE_COLUMNS, BATCH_ROWS):
            yield batch.to_pylist(), [None] * batch.num_rows
        return
    with open_table(sentences, "sentences") as left, open_table(redacted, "redacted") as right:
        if left.metadata.num_rows != right.metadata.num_rows:
            raise StageError(
                f"sentences.parquet has {left.metadata.num_rows} rows but redacted.parquet {right.metadata.num_rows}; "
                "rerun redact"
            )
    for ours, theirs in zip(
        iter_batches(sentences, "sentences", _SENTENCE_COLUMNS, BATCH_ROWS),
        iter_batches(redacted, "redacted", _REDACTED_COLUMNS, BATCH_ROWS),
        strict=True,
    ):
        for column in ("doc_id", "sentence_index"):
            if not ours.column(column).equals(theirs.column(column)):
                raise StageError(f"{column} differs between sentences and redacted; rerun redact")
        yield ours.to_pylist(), theirs.to_pylist()


def private_ranges(text: str, mark: dict[str, Any]) -> tuple[Range, ...]:
    """What of a row is private, from its row of the redacted table.

    A row that is masked but has no spans (a later copy, a policy that failed) is private as a whole: fail closed.
    """
    whole = mark["is_duplicate"] or mark["failed_closed"] or (mark["num_masked_tokens"] and not mark["spans"])
    if whole:
        return ((0, len(text)),)
    return tuple(sorted((span["start"], span["end"]) for span in mark["spans"]))


def split_private(text: str, private_chars: Sequence[Range]) -> list[tuple[str, bool]]:
    """Cuts a text into public and private pieces, in turn; joined they are the text again.

    White space before a private piece goes with it, as byte-level tokenizers want it, and pieces that only white space
    parts are one. The public pieces do not depend on what the private ones say. Encoded one by one, no token covers
    both kinds, so no private character can choose how the public text beside it is cut into tokens.
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


def content_hash(speaker: str | None, domain: str | None, label: str | None, text: str) -> bytes:
    """SHA-256 of what a row says, whatever file or place it came from.

    Public rows are trained on in the order of this hash: corpus order would show where private rows were.
    """
    digest = hashlib.sha256()
    for part in (speaker, domain, label, text):
        raw = b"" if part is None else part.encode()
        digest.update(b"\0" if part is None else b"\1" + len(raw).to_bytes(8, "big"))
        digest.update(raw)
    return digest.digest()


class RecordRows(NamedTuple):
    """The rows of one record in the order of their sentence index: text, speaker, label, private characters."""

    texts: list[str]
    speakers: list[str | None]
    labels: list[str | None]
    private_chars: list[list[Range]]


class _Names:
    """Names by number: a few of them, in every row."""

    def __init__(self) -> None:
        self.names: list[str | None] = []
        self.numbers = array("i")
        self._of: dict[str | None, int] = {}

    def add(self, name: str | None) -> None:
        number = self._of.setdefault(name, len(self.names))
        if number == len(self.names):
            self.names.append(name)
        self.numbers.append(number)


class RowStore:
    """Rows on disk, gathered into records.

    Args:
        folder: where the scratch files go.
        name: tells the stores of one training apart.
        unit: which rows make a record.
    """

    def __init__(self, folder: Path, name: str, unit: RecordUnit) -> None:
        self._unit = unit
        self._texts_out = RaggedWriter(folder / f"{name}_text.bin", np.uint8)
        self._ranges_out = RaggedWriter(folder / f"{name}_ranges.bin", np.int32)
        self._doc_ids_out = RaggedWriter(folder / f"{name}_doc_ids.bin", np.uint8)
        self._documents = bytearray()
        self._hashes = bytearray()
        self._sentences = array("Q")
        self._speakers, self._labels = _Names(), _Names()
        self._is_private = bytearray()

    def add(self, rows: Iterable[Row], *, is_private: bool, hashed: bool = True) -> None:
        """Reads rows in.

        Args:
            rows: the rows.
            is_private: whether a record with any of them is private.
            hashed: whether their content gets a hash, for `content_order`.
        """
        for row in rows:
            self._texts_out.append(row.text.encode())
            self._ranges_out.append(np.asarray(row.private_chars, dtype=np.int32).ravel())
            self._doc_ids_out.append(row.doc_id.encode())
            self._documents += hashlib.blake2b(row.doc_id.encode(), digest_size=_DIGEST_BYTES).digest()
            self._hashes += content_hash(row.speaker, row.domain, row.label, row.text) if hashed else bytes(_HASH_BYTES)
            self._sentences.append(row.sentence_index)
            self._speakers.add(row.speaker)
            self._labels.add(row.label)
            self._is_private.append(is_private)

    def records(self) -> StoredRecords:
        """The records of all rows; nothing may be added afterwards."""
        documents = np.frombuffer(bytes(self._documents), dtype=">u8").reshape(-1, 2)
        sentences = np.asarray(self._sentences, dtype=np.uint64)
        order = np.lexsort((sentences, documents[:, 1], documents[:, 0]))
        documents, sentences = documents[order], sentences[order]
        groups = sentences // np.uint64(self._unit.num_sentences)
        starts = np.ones(len(order), dtype=bool)
        if self._unit.num_sentences > 1:
            starts[1:] = (documents[1:] != documents[:-1]).any(axis=1) | (groups[1:] != groups[:-1])
        return StoredRecords(
            texts=self._texts_out.open(),
            ranges=self._ranges_out.open(),
            doc_ids=self._doc_ids_out.open(),
            speakers=self._speakers.names,
            speaker_numbers=np.asarray(self._speakers.numbers, dtype=np.int64)[order],
            labels=self._labels.names,
            label_numbers=np.asarray(self._labels.numbers, dtype=np.int64)[order],
            rows=order.astype(np.int64),
            borders=np.append(np.flatnonzero(starts), len(order)).astype(np.int64),
            documents=documents,
            sentences=sentences.astype(np.int64),
            groups=groups.astype(np.int64),
            hashes=np.frombuffer(bytes(self._hashes), dtype=">u8").reshape(-1, 4)[order],
            is_private_row=np.frombuffer(bytes(self._is_private), dtype=np.uint8)[order].astype(bool),
        )


@dataclass(frozen=True, kw_only=True)
class StoredRecords:
    """Records, sorted by the digest of their document and then by sentence index: an order that no text decides.

    Attributes:
        texts, ranges: text and flat (start, end) pairs of private characters of each row, as they were read.
        doc_ids: the document of each row, as they were read.
        speakers: the names, by number.
        speaker_numbers: (rows,) sorted.
        labels, label_numbers: the same of labels.
        rows: (rows,) the place in ``texts`` of each row, sorted.
        borders: (records + 1,) where each record starts among the sorted rows.
        documents: (rows, 2) digest of the document, sorted.
        sentences: (rows,) sentence index, sorted.
        groups: (rows,) which record of its document a row belongs to, sorted.
        hashes: (rows, 4) content hash as big-endian words, sorted; zeros where none was asked for.
        is_private_row: (rows,) sorted.
    """

    texts: RaggedArray
    ranges: RaggedArray
    doc_ids: RaggedArray
    speakers: Sequence[str | None]
    speaker_numbers: IntArray
    labels: Sequence[str | None]
    label_numbers: IntArray
    rows: IntArray
    borders: IntArray
    documents: npt.NDArray[np.uint64]
    sentences: IntArray
    groups: IntArray
    hashes: npt.NDArray[np.uint64]
    is_private_row: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.borders) - 1

    def __getitem__(self, record: int) -> RecordRows:
        at = range(self.borders[record], self.borders[record + 1])
        rows = [int(self.rows[i]) for i in at]
        pairs = (self.ranges[row].astype(int).reshape(-1, 2).tolist() for row in rows)
        return RecordRows(
            [self.texts[row].tobytes().decode() for row in rows],
            [self.speakers[int(self.speaker_numbers[i])] for i in at],
            [self.labels[int(self.label_numbers[i])] for i in at],
            [[(start, end) for start, end in found] for found in pairs],
        )

    def keys(self, record: int) -> list[tuple[str, int]]:
        """The document and the sentence index of each row of a record."""
        at = range(self.borders[record], self.borders[record + 1])
        return [(self.doc_ids[int(self.rows[i])].tobytes().decode(), int(self.sentences[i])) for i in at]

    @property
    def is_private(self) -> npt.NDArray[np.bool_]:
        """(records,) whether any row of the record is private."""
        return np.add.reduceat(self.is_private_row, self.borders[:-1]) > 0 if len(self) else np.zeros(0, dtype=bool)

    @property
    def document_numbers(self) -> IntArray:
        """(records,) which records share a document."""
        first = self.documents[self.borders[:-1]]
        return np.unique(first, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)

    def content_hashes(self, records: IntArray) -> npt.NDArray[np.uint64]:
        """(len(records), 4) the hash of each record's content: of its only row, or of all its rows' hashes."""
        found = self.hashes[self.borders[records]].copy()
        for at in np.flatnonzero(np.diff(self.borders)[records] > 1):
            rows = self.hashes[self.borders[records[at]] : self.borders[records[at] + 1]]
            found[at] = np.frombuffer(hashlib.sha256(rows.tobytes()).digest(), dtype=">u8")
        return found

    def content_order(self, records: IntArray) -> IntArray:
        """The given records sorted by `content_hashes`. Equal hashes are equal records, whose order cannot be seen."""
        hashes = self.content_hashes(records)
        return records[np.lexsort(hashes.T[::-1])]

    def is_in_content_order(self, records: IntArray) -> bool:
        """Whether the given records are in that order, judged by hashes of what is stored now."""
        hashes = [row.tobytes() for row in self.content_hashes(records)]
        return all(a <= b for a, b in pairwise(hashes))

    @property
    def public_rows_by_speaker(self) -> dict[str, int]:
        """How many public rows each speaker has."""
        counts = np.bincount(self.speaker_numbers[~self.is_private_row], minlength=len(self.speakers))
        return {name: int(n) for name, n in zip(self.speakers, counts, strict=True) if name is not None and n}

    def public_texts(self) -> Iterator[str]:
        """The texts of public rows, in the order of their content hash."""
        public = np.flatnonzero(~self.is_private_row)
        for at in public[np.lexsort(self.hashes[public].T[::-1])]:
            yield self.texts[int(self.rows[at])].tobytes().decode()

    def sample(self, most: int) -> IntArray:
        """At most so many records: those with the smallest digest of document and place, whatever they say."""
        first = self.borders[:-1]
        places = zip(self.documents[first], self.groups[first], strict=True)
        digests = [
            hashlib.sha256(document.tobytes() + int(group).to_bytes(8, "big")).digest() for document, group in places
        ]
        return np.asarray(sorted(range(len(self)), key=digests.__getitem__)[:most], dtype=np.int64)
