"""Review of the sample against gold labels, one partition at a time.

Only documents with labels are judged. A document without labels is no evidence: to count it as "reviewed, no secret"
would dilute every rate.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.context import Progress, silent
from pipelines.miss_rate.learnt import Learnt
from pipelines.miss_rate.review import (
    JudgedSecret,
    ReviewTable,
    SecretSpan,
    SentenceReview,
    judge_row,
    read_verdicts,
    worse,
)
from pipelines.miss_rate.sampling import (
    REDACTED_COLUMNS,
    TRAIN_FOLD,
    Partition,
    SentenceId,
    require_all,
    rows_of,
    sampled_partitions,
)
from pipelines.miss_rate.weights import COLUMNS, Weights
from pipelines.tables import Table

SecretId = tuple[str, int]
"""Document, and number of a secret in it."""

_GOLD = ["doc_id", "sentence_index", "start_token", "end_token", "label", "secret_id"]


class Coverage(NamedTuple):
    """The labelled part of the training fold. Documents without a sentence do not count."""

    num_documents: int
    num_labelled_documents: int
    num_sentences: int
    num_labelled_sentences: int

    @property
    def is_whole(self) -> bool:
        """True if every training document carries labels."""
        return self.num_documents == self.num_labelled_documents

    @property
    def share(self) -> float | None:
        """The share of the training sentences in labelled documents."""
        return self.num_labelled_sentences / self.num_sentences if self.num_sentences else None


def coverage(tables: Sequence[Table]) -> Coverage:
    """Counts training documents, and labelled ones, in ``documents`` tables.

    A document is labelled if it came with a list of labels, which may be empty.
    """
    counts = [0, 0, 0, 0]
    for table in tables:
        for batch in table.batches(["num_sentences", "fold", "has_gold"]):
            kept = batch.filter(_in_training(batch))
            labelled = kept.filter(kept.column("has_gold"))
            counts[0] += kept.num_rows
            counts[1] += labelled.num_rows
            counts[2] += pc.sum(kept.column("num_sentences")).as_py() or 0
            counts[3] += pc.sum(labelled.column("num_sentences")).as_py() or 0
    return Coverage(*counts)


def _in_training(batch: pa.RecordBatch) -> pa.Array:
    return pc.and_(pc.equal(batch.column("fold"), TRAIN_FOLD), pc.greater(batch.column("num_sentences"), 0))


def labelled_documents(documents: Table) -> set[str]:
    """Returns the training documents of one partition that carry labels."""
    found: set[str] = set()
    for batch in documents.batches(["doc_id", "num_sentences", "fold", "has_gold"]):
        kept = batch.filter(_in_training(batch))
        found.update(kept.filter(kept.column("has_gold")).column("doc_id").to_pylist())
    return found


def review_partition(
    table: ReviewTable,
    sampled: dict[SentenceId, list[int]],
    partition: Partition,
    weights: Weights,
    names: Mapping[str, str],
) -> None:
    """Adds the sampled sentences of labelled documents of one partition to ``table``, in corpus order.

    ``names`` renames labels; others keep their name.

    Raises:
        StageError: a sampled sentence was not redacted, or a span does not fit its sentence.
    """
    labelled = labelled_documents(partition.documents)
    for label in sorted(_labels(partition.gold, labelled)):
        table.add_label(names.get(label, label))
    judged = {row for row in sampled if row[0] in labelled}
    texts = judged if weights.by_size else set()
    rows = rows_of(partition.sentences, ("doc_id", "sentence_index", *COLUMNS), texts)
    standing = {(row["doc_id"], row["sentence_index"]): weights.of(row) for row in rows}
    pieces = _pieces(partition.gold, judged, names)
    verdicts = read_verdicts(partition.stability)
    table.has_stability = table.has_stability or verdicts is not None
    reviews: dict[SentenceId, SentenceReview] = {}
    num_found = 0
    for row in rows_of(partition.redacted, REDACTED_COLUMNS, {*sampled, *pieces}):
        identity = row["doc_id"], row["sentence_index"]
        num_found += identity in sampled
        if identity not in judged and identity not in pieces:
            continue
        if identity in judged and identity not in standing:
            standing[identity] = weights.of(row)
        reviews[identity] = judge_row(row, [span for _, span in pieces.get(identity, ())], verdicts)
    require_all(num_found, len(sampled))
    by_first_row = _whole_secrets(reviews, pieces)
    for identity, review in reviews.items():
        if identity in judged:
            table.add(review, sampled[identity], by_first_row.get(identity, ()), **standing[identity])


def _pieces(
    gold: Table, judged: set[SentenceId], names: Mapping[str, str]
) -> dict[SentenceId, list[tuple[SecretId, SecretSpan]]]:
    """Returns all pieces of every secret with a piece in a judged sentence, by the row of each piece."""
    found: dict[SentenceId, list[tuple[SecretId, SecretSpan]]] = {}
    for row in gold_rows(gold, _GOLD, judged):
        label = names.get(row["label"], row["label"])
        span = SecretSpan(row["start_token"], row["end_token"], label)
        identity = row["doc_id"], row["sentence_index"]
        found.setdefault(identity, []).append(((row["doc_id"], row["secret_id"]), span))
    return found


def _whole_secrets(
    reviews: dict[SentenceId, SentenceReview], pieces: dict[SentenceId, list[tuple[SecretId, SecretSpan]]]
) -> dict[SentenceId, list[JudgedSecret]]:
    """Joins the pieces of each secret, at the row of its first kept piece.

    A secret with all pieces in duplicates is not counted (see `pipelines.miss_rate.review`).
    """
    first_rows: dict[SecretId, SentenceId] = {}
    whole: dict[SecretId, JudgedSecret] = {}
    for identity, review in reviews.items():
        if not review.is_kept:
            continue
        own = zip(pieces.get(identity, ()), review.secrets, review.verdicts, strict=True)
        for (secret, _), (label, is_missed), verdict in own:
            first_rows.setdefault(secret, identity)
            before = whole.get(secret, JudgedSecret(label, False, False))
            is_missed_now = before.is_missed or is_missed
            both = worse(before.verdict, verdict) if before.verdict and verdict else before.verdict or verdict
            whole[secret] = JudgedSecret(
                before.label,
                is_missed_now,
                before.is_escaped or (is_missed and review.is_public),
                None if is_missed_now else both,
            )
    found: dict[SentenceId, list[JudgedSecret]] = {}
    for secret, first_row in first_rows.items():
        found.setdefault(first_row, []).append(whole[secret])
    return found


def review_all(
    sample: Table,
    partitions: Sequence[Partition],
    num_replicates: int,
    weights: Weights,
    names: Mapping[str, str],
    learnt: Learnt,
    progress: Progress = silent,
) -> ReviewTable:
    """Reviews the part of the sample in labelled documents against gold labels.

    Raises:
        StageError: errors of `review_partition` and `sampled_partitions`.
    """
    table = ReviewTable(num_replicates)
    for partition, sampled in sampled_partitions(sample, partitions, progress):
        review_partition(table, weights.kept(learnt.without(partition, sampled)), partition, weights, names)
    return table


def _labels(gold: Table, labelled: set[str]) -> set[str]:
    documents = pa.array(sorted(labelled), pa.string())
    found: set[str] = set()
    for batch in gold.batches(["doc_id", "label"]):
        kept = batch.filter(pc.is_in(batch.column("doc_id"), value_set=documents))
        found.update(pc.unique(kept.column("label")).to_pylist())
    return found


def gold_rows(gold: Table, columns: Sequence[str], judged: Collection[SentenceId]) -> Iterator[dict[str, Any]]:
    """Yields all pieces of every labelled secret with a piece in a judged sentence; columns include its identity."""
    touched = {(row["doc_id"], row["secret_id"]) for row in rows_of(gold, columns, judged)}
    yield from rows_of(gold, columns, touched, number="secret_id")
