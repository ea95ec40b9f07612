"""Joins the sample with gold labels and redacted rows, one partition at a time.

Only documents that carried labels are judged. A document without them says nothing: to count it as "reviewed, no
secret" would dilute every rate.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.context import Progress, silent
from pipelines.errors import StageError
from pipelines.miss_rate.review import JudgedSecret, ReviewTable, SecretSpan, SentenceReview, review_sentence
from pipelines.miss_rate.sample_table import TRAIN_FOLD
from pipelines.miss_rate.sampling import inclusion_probability
from pipelines.miss_rate.verdicts import Row, Tokens, Verdict, read_verdicts, worse
from pipelines.tables import iter_batches

Verdicts = Mapping[Row, Mapping[Tokens, Verdict]]
Secret = tuple[str, int]
"""A document and the number of a secret in it."""

REDACTED_COLUMNS = [
    "doc_id",
    "sentence_index",
    "spans",
    "flagged_by_conservative",
    "num_tokens",
    "is_duplicate",
    "failed_closed",
    "domain",
]
_GOLD = ["doc_id", "sentence_index", "start_token", "end_token", "label", "secret_id"]


class ReviewPartition(NamedTuple):
    """The tables of one partition, by its name; ``stability`` is None where that was not measured."""

    name: str
    documents: Path
    gold: Path
    redacted: Path
    stability: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """How much of the training fold carries labels; documents without a sentence do not count."""

    num_documents: int
    num_labelled_documents: int
    num_sentences: int
    num_labelled_sentences: int

    @property
    def is_whole(self) -> bool:
        """Whether every training document carries labels."""
        return self.num_documents == self.num_labelled_documents

    @property
    def share(self) -> float | None:
        """The share of the training sentences that stand in labelled documents."""
        return self.num_labelled_sentences / self.num_sentences if self.num_sentences else None


def coverage(paths: Sequence[Path]) -> Coverage:
    """Counts training documents, and those that carry labels, in ``documents`` tables.

    A document is labelled when it came with a list of labels, be it an empty one.
    """
    counts = [0, 0, 0, 0]
    for path in paths:
        for batch in iter_batches(path, "documents", ["num_sentences", "fold", "has_gold"]):
            kept = batch.filter(_in_training(batch))
            labelled = kept.filter(kept.column("has_gold"))
            counts[0] += kept.num_rows
            counts[1] += labelled.num_rows
            counts[2] += pc.sum(kept.column("num_sentences")).as_py() or 0
            counts[3] += pc.sum(labelled.column("num_sentences")).as_py() or 0
    return Coverage(
        num_documents=counts[0],
        num_labelled_documents=counts[1],
        num_sentences=counts[2],
        num_labelled_sentences=counts[3],
    )


def _in_training(batch: pa.RecordBatch) -> pa.Array:
    return pc.and_(pc.equal(batch.column("fold"), TRAIN_FOLD), pc.greater(batch.column("num_sentences"), 0))


def labelled_documents(path: Path) -> set[str]:
    """The training documents of one partition that carry labels."""
    found: set[str] = set()
    for batch in iter_batches(path, "documents", ["doc_id", "num_sentences", "fold", "has_gold"]):
        kept = batch.filter(_in_training(batch))
        found.update(kept.filter(kept.column("has_gold")).column("doc_id").to_pylist())
    return found


def read_sample(path: Path) -> dict[str, dict[Row, list[int]]]:
    """The replicates of every sampled sentence, by partition."""
    found: dict[str, dict[Row, list[int]]] = {}
    for batch in iter_batches(path, "sample", ["doc_id", "sentence_index", "partition", "replicate"]):
        columns = [batch.column(name).to_pylist() for name in ("doc_id", "sentence_index", "partition", "replicate")]
        for doc_id, sentence_index, partition, replicate in zip(*columns, strict=True):
            found.setdefault(partition, {}).setdefault((doc_id, sentence_index), []).append(replicate)
    return found


class Weights:
    """1 / inclusion probability by domain, for a sample in which domains were drawn on their own.

    Args:
        strata: (domain, inclusion probability in one replicate); one alone weighs everything the same.
        num_replicates: of the sample.
    """

    def __init__(self, strata: Sequence[tuple[str | None, float]], num_replicates: int) -> None:
        self._each = {domain: 1 / p for domain, p in strata} if len(strata) > 1 else {}
        self._any = {d: 1 / inclusion_probability(1 / w, num_replicates) for d, w in self._each.items()}

    def of(self, domain: str | None) -> dict[str, Any]:
        """The arguments of `ReviewTable.add` that say how much a sentence of this domain stands for."""
        return {
            "weight": self._any.get(domain, 1.0),
            "weight_in_replicate": self._each.get(domain, 1.0),
            "domain": domain,
        }


def review_partition(
    table: ReviewTable, sampled: dict[Row, list[int]], partition: ReviewPartition, weights: Weights
) -> None:
    """Adds the sampled sentences of labelled documents of one partition to ``table``, in corpus order.

    Raises:
        StageError: a sampled sentence was not redacted, or a span does not fit its sentence.
    """
    labelled = labelled_documents(partition.documents)
    for label in sorted(_labels(partition.gold, labelled)):
        table.add_label(label)
    judged = {row for row in sampled if row[0] in labelled}
    pieces = _pieces(partition.gold, judged)
    verdicts = read_verdicts(partition.stability) if partition.stability is not None else None
    table.has_stability = table.has_stability or verdicts is not None
    reviews: dict[Row, SentenceReview] = {}
    domains: dict[Row, str | None] = {}
    num_found = 0
    for row in rows_of(partition.redacted, "redacted", REDACTED_COLUMNS, {*sampled, *pieces}):
        identity = row["doc_id"], row["sentence_index"]
        num_found += identity in sampled
        if identity not in judged and identity not in pieces:
            continue
        reviews[identity] = judge_row(row, [span for _, span in pieces.get(identity, ())], verdicts)
        domains[identity] = row["domain"]
    if num_found != len(sampled):
        raise StageError(
            f"{len(sampled) - num_found} of {len(sampled)} sampled sentences are missing from the redacted table, "
            "so sample and redact saw different sentences; rerun from split"
        )
    at_home = _whole_secrets(reviews, pieces)
    for identity, review in reviews.items():
        if identity in judged:
            table.add(review, sampled[identity], at_home.get(identity, ()), **weights.of(domains[identity]))


def judge_row(
    row: Mapping[str, Any], secrets: Sequence[SecretSpan], verdicts: Verdicts | None = None
) -> SentenceReview:
    """Compares the secrets of a sentence with its row of the redacted table.

    Args:
        row: of the redacted table.
        secrets: of the sentence.
        verdicts: of the partition; None where stability was not measured.

    Raises:
        StageError: a span does not lie inside the sentence, or a caught secret has no verdict.
    """
    of_row = None if verdicts is None else verdicts.get((row["doc_id"], row["sentence_index"]), {})
    try:
        return review_sentence(
            num_tokens=row["num_tokens"],
            secrets=secrets,
            masked=[(span["start_token"], span["end_token"]) for span in row["spans"]],
            is_duplicate=row["is_duplicate"],
            failed_closed=row["failed_closed"],
            is_flagged=row["flagged_by_conservative"],
            verdicts=of_row,
        )
    except LookupError:
        raise StageError(
            "a caught secret of the sample was not masked by hand; run again with --force estimate"
        ) from None
    except ValueError:
        raise StageError("a labelled or redacted span does not lie inside its sentence; rerun from split") from None


def _pieces(gold: Path, judged: set[Row]) -> dict[Row, list[tuple[Secret, SecretSpan]]]:
    """Every piece of every secret that has a piece in a judged sentence, by the row that the piece stands in."""
    found: dict[Row, list[tuple[Secret, SecretSpan]]] = {}
    for row in gold_rows(gold, _GOLD, judged):
        span = SecretSpan(row["start_token"], row["end_token"], row["label"])
        identity = row["doc_id"], row["sentence_index"]
        found.setdefault(identity, []).append(((row["doc_id"], row["secret_id"]), span))
    return found


def _whole_secrets(
    reviews: dict[Row, SentenceReview], pieces: dict[Row, list[tuple[Secret, SecretSpan]]]
) -> dict[Row, list[JudgedSecret]]:
    """Puts the pieces of each secret together, at the row of its first kept piece.

    A secret whose every piece stands in a duplicate is no secret of its own (see `pipelines.miss_rate.review`).
    """
    homes: dict[Secret, Row] = {}
    whole: dict[Secret, JudgedSecret] = {}
    for identity, review in reviews.items():
        if not review.is_kept:
            continue
        own = zip(pieces.get(identity, ()), review.secrets, review.verdicts, strict=True)
        for (secret, _), (label, is_missed), verdict in own:
            homes.setdefault(secret, identity)
            before = whole.get(secret, JudgedSecret(label, False, False))
            is_missed_now = before.is_missed or is_missed
            both = worse(before.verdict, verdict) if before.verdict and verdict else before.verdict or verdict
            whole[secret] = JudgedSecret(
                before.label,
                is_missed_now,
                before.is_escaped or (is_missed and review.is_public),
                None if is_missed_now else both,
            )
    found: dict[Row, list[JudgedSecret]] = {}
    for secret, home in homes.items():
        found.setdefault(home, []).append(whole[secret])
    return found


def review_all(
    sample: Path,
    partitions: Sequence[ReviewPartition],
    num_replicates: int,
    weights: Weights,
    progress: Progress = silent,
) -> ReviewTable:
    """Reviews the sample against gold labels, as far as it stands in labelled documents.

    Args:
        sample: the ``sample`` table.
        partitions: the tables of each, in corpus order.
        num_replicates: replicates of the sample.
        weights: how much the sentences of each domain stand for.
        progress: told after every partition.

    Raises:
        StageError: as `review_partition`, or a sampled partition is not there.
    """
    sampled = read_sample(sample)
    table = ReviewTable(num_replicates)
    for number, partition in enumerate(partitions, start=1):
        review_partition(table, sampled.pop(partition.name, {}), partition, weights)
        progress(number, len(partitions), "partitions reviewed")
    if sampled:
        raise StageError("the sample names a partition that was not redacted; rerun from split")
    return table


def _labels(gold: Path, labelled: set[str]) -> set[str]:
    documents = pa.array(sorted(labelled), pa.string())
    found: set[str] = set()
    for batch in iter_batches(gold, "gold", ["doc_id", "label"]):
        kept = batch.filter(pc.is_in(batch.column("doc_id"), value_set=documents))
        found.update(pc.unique(kept.column("label")).to_pylist())
    return found


def gold_rows(gold: Path, columns: Sequence[str], judged: Collection[Row]) -> Iterator[dict[str, Any]]:
    """Every piece of every labelled secret that has a piece in a judged sentence; columns name what identifies it."""
    touched = {(row["doc_id"], row["secret_id"]) for row in rows_of(gold, "gold", columns, judged)}
    yield from rows_of(gold, "gold", columns, touched, number="secret_id")


def rows_of(
    path: Path, name: str, columns: Sequence[str], wanted: Collection[Row], number: str = "sentence_index"
) -> Iterator[dict[str, Any]]:
    """The rows of a table whose (doc_id, number) is wanted; only those become Python objects in full."""
    if not wanted:
        return
    for batch in iter_batches(path, name, columns):
        identities = zip(batch.column("doc_id").to_pylist(), batch.column(number).to_pylist(), strict=True)
        positions = [i for i, identity in enumerate(identities) if identity in wanted]
        if positions:
            yield from batch.take(pa.array(positions, pa.int64())).to_pylist()
