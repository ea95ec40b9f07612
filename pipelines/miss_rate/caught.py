"""The caught secrets of a partition's sampled sentences, with the rows that masking them by hand can change.

A secret is caught where all its tokens are masked, in a sentence that deduplication kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

from pipelines.miss_rate.judged_tables import joined
from pipelines.miss_rate.review_items import ItemPartition
from pipelines.miss_rate.review_tables import gold_rows, labelled_documents
from pipelines.miss_rate.stability import Piece, Scope
from pipelines.miss_rate.verdicts import Row
from pipelines.tables import iter_batches

_GOLD: Final = ("doc_id", "sentence_index", "start", "end", "start_token", "end_token", "secret_id")
_CARRIED: Final = ("redacted_text",)


class Mark(NamedTuple):
    """A secret, or a piece of one, in one row.

    Attributes:
        secret: pieces with the same value, in one document, are one secret.
        start, end: characters of the row's text.
        start_token, end_token: the tokens that it touches.
    """

    secret: tuple[str, int]
    start: int
    end: int
    start_token: int
    end_token: int


MarkRow = Callable[[Mapping[str, Any]], Iterable[Mark]]
"""The secrets that people see in a row of the sentences table."""


def gold_marks(gold: Path, documents: Path, chosen: Collection[Row]) -> dict[Row, list[Mark]]:
    """Every piece of every labelled secret that has a piece in a chosen sentence of a labelled training document."""
    labelled = labelled_documents(documents)
    found: dict[Row, list[Mark]] = {}
    for row in gold_rows(gold, _GOLD, {row for row in chosen if row[0] in labelled}):
        mark = Mark(("gold", row["secret_id"]), row["start"], row["end"], row["start_token"], row["end_token"])
        found.setdefault((row["doc_id"], row["sentence_index"]), []).append(mark)
    return found


def scopes(
    partition: ItemPartition,
    chosen: Collection[Row],
    gold: Mapping[Row, Sequence[Mark]],
    marks_of: MarkRow,
    *,
    whole_documents: bool,
) -> Iterator[Scope]:
    """The caught secrets, by the rows that they can change, in corpus order.

    Args:
        partition: its tables.
        chosen: the sampled sentences.
        gold: as `gold_marks` gives them.
        marks_of: what people see in a chosen sentence.
        whole_documents: whether policies look at whole documents, so that all rows of one belong together.

    Raises:
        StageError: a row is missing from a table.
    """
    wanted = {*chosen, *gold}
    if whole_documents:
        wanted = _rows_of_documents(partition.redacted, {doc_id for doc_id, _ in wanted})
    rows = chain.from_iterable(joined(partition, dict.fromkeys(wanted), _CARRIED))
    for _, group in groupby(rows, key=lambda row: row["doc_id"]):
        for together in [list(group)] if whole_documents else ([row] for row in group):
            scope = Scope(together, _caught(together, chosen, gold, marks_of))
            if scope.secrets:
                yield scope


def _rows_of_documents(redacted: Path, documents: Collection[str]) -> set[Row]:
    found: set[Row] = set()
    for batch in iter_batches(redacted, "redacted", ["doc_id", "sentence_index"]):
        rows = zip(batch.column("doc_id").to_pylist(), batch.column("sentence_index").to_pylist(), strict=True)
        found.update(row for row in rows if row[0] in documents)
    return found


def _caught(
    rows: Sequence[Mapping[str, Any]],
    chosen: Collection[Row],
    gold: Mapping[Row, Sequence[Mark]],
    marks_of: MarkRow,
) -> list[list[Piece]]:
    secrets: dict[tuple[str, int], list[Piece]] = {}
    for number, row in enumerate(rows):
        identity = row["doc_id"], row["sentence_index"]
        if row["is_duplicate"]:
            continue
        marks = [*gold.get(identity, ()), *(marks_of(row) if identity in chosen else ())]
        if not marks:
            continue
        masked = {token for span in row["spans"] for token in range(span["start_token"], span["end_token"])}
        for mark in marks:
            tokens = range(mark.start_token, mark.end_token)
            if mark.start < mark.end and (row["failed_closed"] or (tokens and masked.issuperset(tokens))):
                secrets.setdefault(mark.secret, []).append(Piece(number, *mark[1:]))
    # What two sources mark alike is one secret here: masked together, it is the same world twice.
    return list({tuple(pieces): pieces for pieces in secrets.values()}.values())
