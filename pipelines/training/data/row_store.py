"""Gathers rows into records, through a scratch file.

Texts go to disk as they are read, and come back record by record. Memory holds, for each row, a digest of its document,
its sentence index, a hash of its content if the order needs one, and borders: 136 bytes with a hash, and as much again
while rows are sorted.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pipelines.artifacts import Target
from pipelines.dp.owners import Owners
from pipelines.errors import StageError
from pipelines.tables import Table
from pipelines.training.data.ragged import RaggedArray, RaggedWriter
from pipelines.training.data.record_unit import RecordUnit
from pipelines.training.data.rows import BATCH_ROWS, Range, TrainingRow

_DIGEST_BYTES = 16
_HASH_BYTES = 32

IntArray = npt.NDArray[np.int64]


def content_hash(speaker: str | None, domain: str | None, label: str | None, text: str) -> bytes:
    """Returns the SHA-256 of a row's content, which does not depend on its file or place.

    Public rows are trained on in the order of this hash, because corpus order would show where private rows were.
    """
    digest = hashlib.sha256()
    for part in (speaker, domain, label, text):
        raw = b"" if part is None else part.encode()
        digest.update(b"\0" if part is None else b"\1" + len(raw).to_bytes(8, "big"))
        digest.update(raw)
    return digest.digest()


class RecordRows(NamedTuple):
    """The rows of one record in the order of their sentence index.

    Attributes:
        texts, speakers, domains, labels, private_chars: values of each row.
        starts, ends: true if the first row is the first, or the last row the last, of its conversation, which is its
            document. This follows from sentence indices and the number of the document's sentences, not from other
                records:
            no record changes with another.
    """

    texts: list[str]
    speakers: list[str | None]
    domains: list[str | None]
    labels: list[str | None]
    private_chars: list[list[Range]]
    starts: bool = False
    ends: bool = False


def document_lengths(tables: Iterable[Table]) -> dict[bytes, int]:
    """Returns the number of sentences of each document of documents tables, by a digest of its id."""
    lengths: dict[bytes, int] = {}
    for table in tables:
        for batch in table.batches(("doc_id", "num_sentences"), BATCH_ROWS):
            ids, counts = (batch.column(name).to_pylist() for name in ("doc_id", "num_sentences"))
            lengths.update(zip(map(_document_digest, ids), counts, strict=True))
    return lengths


def owners_of(tables: Iterable[Table], documents: Sequence[bytes], records_each: int) -> Owners:
    """Returns the people of records, and the number of all people of the training fold.

    Args:
        tables: documents tables with owners.
        documents: digest of each record's document.
        records_each: number of records that a drawn person brings.

    Raises:
        StageError: a record's document has no owner in the tables.
    """
    owner_of: dict[bytes, str] = {}
    for table in tables:
        for batch in table.batches(("doc_id", "fold", "owner"), BATCH_ROWS):
            ids, folds, owners = (batch.column(name).to_pylist() for name in ("doc_id", "fold", "owner"))
            owner_of.update(
                (_document_digest(id), owner)
                for id, fold, owner in zip(ids, folds, owners, strict=True)
                if fold == "train"
            )
    numbers = {owner: number for number, owner in enumerate(sorted(set(owner_of.values())))}
    try:
        of_records = np.asarray([numbers[owner_of[document]] for document in documents], dtype=np.int64)
    except KeyError:
        raise StageError("a record belongs to a document without an owner; run split again") from None
    return Owners(of_records=of_records, count=len(numbers), records_each=records_each)


def _document_digest(doc_id: str) -> bytes:
    return hashlib.blake2b(doc_id.encode(), digest_size=_DIGEST_BYTES).digest()


@dataclass(frozen=True)
class NameColumn:
    """A column with one name for each row and few different names.

    Attributes:
        names: different names.
        numbers: (rows,) number of each row's name.
    """

    names: Sequence[str | None]
    numbers: npt.NDArray[np.int32]

    def __getitem__(self, rows: slice) -> list[str | None]:
        return [self.names[number] for number in self.numbers[rows].tolist()]

    def counts(self, rows: npt.NDArray[np.bool_]) -> dict[str, int]:
        """Counts the marked rows of each name."""
        counts = np.bincount(self.numbers[rows], minlength=len(self.names))
        return {name: int(n) for name, n in zip(self.names, counts, strict=True) if name is not None and n}


class _NameWriter:
    """Collects one name for each row."""

    def __init__(self) -> None:
        self._names: list[str | None] = []
        self._numbers = array("i")
        self._of: dict[str | None, int] = {}

    def append(self, name: str | None) -> None:
        number = self._of.setdefault(name, len(self._names))
        if number == len(self._names):
            self._names.append(name)
        self._numbers.append(number)

    def in_order(self, order: IntArray) -> NameColumn:
        numbers, self._numbers = np.asarray(self._numbers, dtype=np.int32), array("i")
        return NameColumn(self._names, numbers[order])


class RowStore:
    """Rows on disk, gathered into records.

    Args:
        scratch: folder of the files.
        name: name of this store among the stores of one training.
        unit: unit of a record.
        lengths: result of `document_lengths`, which finds the ends of conversations. Without it no end is known.
    """

    def __init__(
        self, scratch: Target, name: str, unit: RecordUnit, lengths: Mapping[bytes, int] | None = None
    ) -> None:
        self._unit, self._lengths = unit, lengths or {}
        self._texts_out = RaggedWriter(scratch, f"{name}_text", np.uint8)
        self._ranges_out = RaggedWriter(scratch, f"{name}_ranges", np.int32)
        self._doc_ids_out = RaggedWriter(scratch, f"{name}_doc_ids", np.uint8)
        self._documents = bytearray()
        self._hashes = bytearray()  # empty until a row has one
        self._sentences = array("Q")
        self._speakers, self._domains, self._labels = _NameWriter(), _NameWriter(), _NameWriter()
        self._is_private = bytearray()

    def add(self, rows: Iterable[TrainingRow], *, is_private: bool, hashed: bool = True) -> None:
        """Reads rows in.

        Args:
            rows: rows to add.
            is_private: true if a record with any of these rows is private.
            hashed: true if their content gets a hash, for `content_order`.
        """
        if hashed and not self._hashes:
            self._hashes = bytearray(_HASH_BYTES * len(self._is_private))
        for row in rows:
            self._texts_out.append(row.text.encode())
            self._ranges_out.append(np.asarray(row.private_chars, dtype=np.int32).ravel())
            self._doc_ids_out.append(row.doc_id.encode())
            self._documents += _document_digest(row.doc_id)
            if hashed:
                self._hashes += content_hash(row.speaker, row.domain, row.label, row.text)
            elif self._hashes:
                self._hashes += bytes(_HASH_BYTES)
            self._sentences.append(row.sentence_index)
            self._speakers.append(row.speaker)
            self._domains.append(row.domain)
            self._labels.append(row.label)
            self._is_private.append(is_private)

    def records(self) -> StoredRecords:
        """Returns the records of all rows. Nothing may be added afterwards."""
        documents, self._documents = np.frombuffer(self._documents, dtype=">u8").reshape(-1, 2), bytearray()
        sentences, self._sentences = np.asarray(self._sentences, dtype=np.uint64), array("Q")
        order = np.lexsort((sentences, documents[:, 1], documents[:, 0]))
        documents, sentences = documents[order], sentences[order]
        groups = sentences // np.uint64(self._unit.num_sentences)
        is_new = np.ones(len(order), dtype=bool)
        is_new[1:] = (documents[1:] != documents[:-1]).any(axis=1)
        starts = np.ones(len(order), dtype=bool)
        if self._unit.num_sentences > 1:
            starts[1:] = is_new[1:] | (groups[1:] != groups[:-1])
        lengths = [self._lengths.get(document.tobytes(), 0) for document in documents[is_new]]
        num_sentences = np.asarray(lengths, dtype=np.uint64)[np.cumsum(is_new) - 1]
        return StoredRecords(
            texts=self._texts_out.open(),
            ranges=self._ranges_out.open(),
            doc_ids=self._doc_ids_out.open(),
            speakers=self._speakers.in_order(order),
            domains=self._domains.in_order(order),
            labels=self._labels.in_order(order),
            rows=order.astype(np.int64),
            borders=np.append(np.flatnonzero(starts), len(order)).astype(np.int64),
            documents=documents,
            sentences=sentences.astype(np.int64),
            is_last=sentences + np.uint64(1) == num_sentences,
            groups=groups.astype(np.int64),
            hashes=self._hashes_in(order),
            is_private_row=np.frombuffer(self._is_private, dtype=np.bool_)[order],
        )

    def _hashes_in(self, order: IntArray) -> npt.NDArray[np.uint64]:
        if not self._hashes:
            return np.broadcast_to(np.zeros(4, dtype=">u8"), (len(order), 4))
        hashes, self._hashes = np.frombuffer(self._hashes, dtype=">u8").reshape(-1, 4), bytearray()
        return hashes[order]


@dataclass(frozen=True, kw_only=True)
class StoredRecords:
    """Records, sorted by the digest of their document and then by sentence index: an order that no text decides.

    Attributes:
        texts, ranges: text and flat (start, end) pairs of private characters of each row, in reading order.
        doc_ids: document of each row, in reading order.
        speakers, domains, labels: (rows,) values, sorted.
        rows: (rows,) position in ``texts`` of each row, sorted.
        borders: (records + 1,) start of each record among the sorted rows.
        documents: (rows, 2) digest of the document, sorted.
        sentences: (rows,) sentence index, sorted.
        is_last: (rows,) true for a row that is known to be the last of its document, sorted.
        groups: (rows,) number of a row's record in its document, sorted.
        hashes: (rows, 4) content hash as big-endian words, sorted. Zeros if no hash was asked for.
        is_private_row: (rows,) true for a private row, sorted.
    """

    texts: RaggedArray
    ranges: RaggedArray
    doc_ids: RaggedArray
    speakers: NameColumn
    domains: NameColumn
    labels: NameColumn
    rows: IntArray
    borders: IntArray
    documents: npt.NDArray[np.uint64]
    sentences: IntArray
    is_last: npt.NDArray[np.bool_]
    groups: IntArray
    hashes: npt.NDArray[np.uint64]
    is_private_row: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.borders) - 1

    def __getitem__(self, record: int) -> RecordRows:
        at = slice(int(self.borders[record]), int(self.borders[record + 1]))
        rows = self.rows[at].tolist()
        pairs = (self.ranges[row].astype(int).reshape(-1, 2).tolist() for row in rows)
        return RecordRows(
            texts=[self.texts[row].tobytes().decode() for row in rows],
            speakers=self.speakers[at],
            domains=self.domains[at],
            labels=self.labels[at],
            private_chars=[[(start, end) for start, end in ranges] for ranges in pairs],
            starts=bool(self.sentences[at.start] == 0),
            ends=bool(self.is_last[at.stop - 1]),
        )

    def keys(self, record: int) -> list[tuple[str, int]]:
        """Returns the document and the sentence index of each row of a record."""
        at = range(self.borders[record], self.borders[record + 1])
        return [(self.doc_ids[int(self.rows[i])].tobytes().decode(), int(self.sentences[i])) for i in at]

    @property
    def is_private(self) -> npt.NDArray[np.bool_]:
        """(records,) true if any row of the record is private."""
        return np.add.reduceat(self.is_private_row, self.borders[:-1]) > 0 if len(self) else np.zeros(0, dtype=bool)

    def document_digests(self, records: IntArray) -> list[bytes]:
        """Returns the digest of the document of each of these records."""
        return [self.documents[self.borders[record]].tobytes() for record in records]

    @property
    def document_numbers(self) -> IntArray:
        """(records,) number of each record's document."""
        first = self.documents[self.borders[:-1]]
        return np.unique(first, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)

    def content_hashes(self, records: IntArray) -> npt.NDArray[np.uint64]:
        """Returns (len(records), 4) the hash of each record: of its only row, or of all its rows' hashes."""
        hashes = self.hashes[self.borders[records]].copy()
        for at in np.flatnonzero(np.diff(self.borders)[records] > 1):
            rows = self.hashes[self.borders[records[at]] : self.borders[records[at] + 1]]
            hashes[at] = np.frombuffer(hashlib.sha256(rows.tobytes()).digest(), dtype=">u8")
        return hashes

    def content_order(self, records: IntArray) -> IntArray:
        """Sorts the given records by `content_hashes`. Equal hashes are equal records, in any order."""
        hashes = self.content_hashes(records)
        return records[np.lexsort(hashes.T[::-1])]

    def is_in_content_order(self, records: IntArray) -> bool:
        """Returns true if the given records are in that order, by hashes of the stored content."""
        hashes = self.content_hashes(records)
        is_equal = np.ones(max(0, len(hashes) - 1), dtype=np.bool_)
        for before, after in zip(hashes[:-1].T, hashes[1:].T, strict=True):
            if (is_equal & (before > after)).any():
                return False
            is_equal &= before == after
        return True

    def public_texts(self) -> Iterator[str]:
        """Yields the texts of public rows, in the order of their content hash."""
        public = np.flatnonzero(~self.is_private_row)
        for at in public[np.lexsort(self.hashes[public].T[::-1])]:
            yield self.texts[int(self.rows[at])].tobytes().decode()

    def sample(self, most: int) -> IntArray:
        """Returns at most ``most`` records: those with the smallest digest of document and place, for any text."""
        return np.asarray(sorted(range(len(self)), key=self._digest_of_place)[:most], dtype=np.int64)

    def at_most(self, most: int, records: IntArray, owners: IntArray) -> IntArray:
        """Returns at most ``most`` of these records of each owner, in their order: those that `sample` would choose.

        Names of documents are HMACs, so without the store's secret nobody can choose which records of a person stay.
        What stays of one owner's records depends on these alone.

        Args:
            most: largest number of records of an owner.
            records: numbers of records.
            owners: (len(records),) number of the owner of each.
        """
        kept: list[int] = []
        taken: Counter[int] = Counter()
        for at in sorted(range(len(records)), key=lambda at: self._digest_of_place(int(records[at]))):
            taken[owner := int(owners[at])] += 1
            if taken[owner] <= most:
                kept.append(at)
        return records[np.sort(np.asarray(kept, dtype=np.int64))]

    def _digest_of_place(self, record: int) -> bytes:
        first = self.borders[record]
        return hashlib.sha256(self.documents[first].tobytes() + int(self.groups[first]).to_bytes(8, "big")).digest()
