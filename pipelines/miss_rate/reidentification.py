"""Re-identification: how many documents of a sample could be linked to one row of a table of people.

The Text Anonymization Benchmark (I. Pilán et al., 2022) and RAT-Bench (2026) ask this question of redacted text. Here
the attack of `pipelines.miss_rate.linking` answers it, for the original and for the redacted text of the same
documents. It is an estimate for this attack and this table. No claim rests on it.
"""

from __future__ import annotations

import csv
import hashlib
import heapq
from collections.abc import Iterable, Iterator, Sequence, Set
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.artifacts import Source
from pipelines.corpus.tables import DOCUMENTS, SENTENCES
from pipelines.errors import InputError
from pipelines.intervals import clopper_pearson
from pipelines.miss_rate.clues import clues_of
from pipelines.miss_rate.linking import People, linked
from pipelines.miss_rate.sampling import TRAIN_FOLD
from pipelines.policies.tables import REDACTED

_LONGEST_CELL: Final = 2**20


class _Document(NamedTuple):
    """A sampled document: its id, the names that a table may give it, and the clues of its two texts."""

    doc_id: str
    names: frozenset[str]
    original: set[str]
    redacted: set[str]


def reidentification(
    table: Path,
    names: str | None,
    split: Sequence[Source],
    redact: Sequence[Source],
    *,
    num_documents: int,
    confidence: float,
    seed: int,
) -> dict[str, Any]:
    """Links a sample of the training documents to a table.

    Args:
        table, names: arguments of `PeopleTable`.
        split, redact: artifacts of the stages by partition.
        num_documents: size of the sample.
        confidence: confidence of the intervals.
        seed: seed of the sample and of the shuffled tables.

    Returns:
        ``num_documents``, ``num_rows``, ``num_in_table`` (documents that the table names; None without a column of
        names), ``confidence``, and for ``original`` and ``redacted`` text the figures of `linked`, with the intervals
        ``best``, ``linked`` and ``correct`` of the shares of documents. ``links``: linked redacted documents with the
        numbers of their rows, from 1. It is empty if there is no training document.

    Raises:
        InputError: the table cannot be read, or has fewer than three rows.
    """
    documents = _sampled(split, redact, num_documents, seed)
    if not documents:
        return {}
    named: dict[str, set[int]] = {name: set() for document in documents for name in document.names}
    people = People(PeopleTable(table, names).rows(named), [document.original for document in documents])
    if people.num_rows < 3:
        raise InputError("estimate.reidentification_table has fewer than three rows; a document needs others to fit")
    truth = None
    if names is not None:
        truth = [set().union(*(named[name] for name in document.names)) for document in documents]
    figures: dict[str, Any] = {
        "num_documents": len(documents),
        "num_rows": people.num_rows,
        "num_in_table": None if truth is None else sum(map(bool, truth)),
        "confidence": confidence,
    }
    links: Iterable[tuple[int, Any]] = ()
    for which in ("original", "redacted"):
        texts: list[Set[str]] = [getattr(document, which) for document in documents]
        found, links = linked(people, texts, truth, seed)
        for name in ("best", "linked", "correct"):
            count = found[f"num_{name}"]
            found[name] = None if count is None else clopper_pearson(count, len(documents), confidence)
        figures[which] = found
    figures["links"] = [{"doc_id": documents[number].doc_id, **link} for number, link in links]
    return figures


class PeopleTable:
    """A CSV file with a header and a row for each person, read as a stream.

    Args:
        path: file in UTF-8, with commas, semicolons or tabs.
        names: column that names the document of a row. It is no part of the attack. None without one.

    Raises:
        InputError: the file cannot be read, or has no such column. No message quotes the file.
    """

    def __init__(self, path: Path, names: str | None) -> None:
        self._path = path
        self._names = names
        header, _ = self._open()
        if names is not None and names not in header:
            raise InputError("estimate.reidentification_table has no column with the name in reidentification_id")
        self._column = header.index(names) if names is not None else None
        self._width = len(header)

    def _open(self) -> tuple[list[str], Iterator[list[str]]]:
        def lines() -> Iterator[str]:
            try:
                with self._path.open(encoding="utf-8-sig", newline="") as file:
                    yield from file
            except (OSError, UnicodeDecodeError) as error:
                raise InputError(
                    f"estimate.reidentification_table cannot be read as UTF-8 text ({type(error).__name__})"
                ) from None

        read = lines()
        first = next(read, "")
        delimiter = max(",;\t", key=first.count)
        return next(csv.reader([first], delimiter=delimiter), []), csv.reader(read, delimiter=delimiter, strict=True)

    def rows(self, named: dict[str, set[int]]) -> Iterator[list[str]]:
        """Yields the cells of each row, without the column of names.

        Args:
            named: numbers of the rows by the name of a document, which this method adds.

        Raises:
            InputError: a row has another number of cells than the header, or is no CSV.
        """
        _, rows = self._open()
        limit = csv.field_size_limit(_LONGEST_CELL)
        try:
            number = 0
            for cells in rows:
                if not cells:
                    continue
                if len(cells) != self._width:
                    raise InputError(
                        f"estimate.reidentification_table: row {number + 1} has {len(cells)} cells and the header "
                        f"{self._width}; put a cell that holds the delimiter in quotation marks"
                    )
                if self._column is not None:
                    name = cells.pop(self._column).strip()
                    if name in named:
                        named[name].add(number)
                yield cells
                number += 1
        except csv.Error:
            raise InputError(f"estimate.reidentification_table: row {number + 1} is no CSV") from None
        finally:
            csv.field_size_limit(limit)


def _sampled(split: Sequence[Source], redact: Sequence[Source], number: int, seed: int) -> list[_Document]:
    """Draws training documents, each equally likely, and reads their clues."""
    drawn = heapq.nsmallest(number, _ranked(split, seed))
    documents = {doc_id: _Document(doc_id, names, set(), set()) for _, doc_id, names in drawn}
    chosen = pa.array(documents, pa.string())
    for sources, schema, column, which in (
        (split, SENTENCES, "text", "original"),
        (redact, REDACTED, "redacted_text", "redacted"),
    ):
        for source in sources:
            for batch in source.table(schema).batches(["doc_id", column]):
                kept = batch.filter(pc.is_in(batch.column("doc_id"), chosen))
                for row in kept.to_pylist():
                    getattr(documents[row["doc_id"]], which).update(clues_of(row[column]))
    return list(documents.values())


def _ranked(split: Sequence[Source], seed: int) -> Iterator[tuple[bytes, str, frozenset[str]]]:
    """Yields training documents with a pseudo-random rank and their names: the id, and the file's name."""
    for source in split:
        for row in source.table(DOCUMENTS).rows(["doc_id", "source_file", "source_id", "fold", "num_sentences"]):
            if row["fold"] == TRAIN_FOLD and row["num_sentences"]:
                file = Path(row["source_file"])
                names = {row["doc_id"], row["source_id"] or row["doc_id"], file.name, file.stem}
                yield hashlib.sha256(f"{seed} {row['doc_id']}".encode()).digest(), row["doc_id"], frozenset(names)
