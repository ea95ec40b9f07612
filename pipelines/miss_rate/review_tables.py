"""Joins the sample with gold labels and redacted rows, one partition at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipelines.context import Progress, silent
from pipelines.errors import StageError
from pipelines.miss_rate.review import ReviewTable, SecretSpan, review_sentence
from pipelines.tables import iter_batches, open_table

Row = tuple[str, int]

_REDACTED = ["doc_id", "sentence_index", "spans", "flagged_by_conservative", "num_tokens", "is_duplicate"]


def has_gold(paths: Sequence[Path]) -> bool:
    """Whether any ``gold`` table holds a label."""
    for path in paths:
        with open_table(path, "gold") as file:
            if file.metadata.num_rows:
                return True
    return False


def read_sample(path: Path) -> dict[str, dict[Row, list[int]]]:
    """The replicates of every sampled sentence, by partition."""
    found: dict[str, dict[Row, list[int]]] = {}
    for batch in iter_batches(path, "sample", ["doc_id", "sentence_index", "partition", "replicate"]):
        columns = [batch.column(name).to_pylist() for name in ("doc_id", "sentence_index", "partition", "replicate")]
        for doc_id, sentence_index, partition, replicate in zip(*columns, strict=True):
            found.setdefault(partition, {}).setdefault((doc_id, sentence_index), []).append(replicate)
    return found


def review_partition(table: ReviewTable, sampled: dict[Row, list[int]], gold: Path, redacted: Path) -> None:
    """Adds the sampled sentences of one partition to ``table``, in corpus order.

    Raises:
        StageError: a sampled sentence was not redacted, or a span does not fit its sentence.
    """
    secrets: dict[Row, list[SecretSpan]] = {}
    for row in _rows(gold, "gold", ["doc_id", "sentence_index", "start_token", "end_token", "label"], sampled):
        span = SecretSpan(row["start_token"], row["end_token"], row["label"])
        secrets.setdefault((row["doc_id"], row["sentence_index"]), []).append(span)
    num_found = 0
    for row in _rows(redacted, "redacted", [*_REDACTED, "failed_closed"], sampled):
        identity = row["doc_id"], row["sentence_index"]
        try:
            review = review_sentence(
                num_tokens=row["num_tokens"],
                secrets=secrets.get(identity, ()),
                masked=[(span["start_token"], span["end_token"]) for span in row["spans"]],
                is_duplicate=row["is_duplicate"],
                failed_closed=row["failed_closed"],
                is_flagged=row["flagged_by_conservative"],
            )
        except ValueError:
            raise StageError("a gold or redaction span does not lie inside its sentence; rerun from split") from None
        table.add(review, sampled[identity])
        num_found += 1
    if num_found != len(sampled):
        raise StageError(
            f"{len(sampled) - num_found} of {len(sampled)} sampled sentences are missing from the redacted table, "
            "so sample and redact saw different sentences; rerun from split"
        )


def review_all(
    sample: Path,
    partitions: Sequence[tuple[str, Path, Path]],
    num_replicates: int,
    progress: Progress = silent,
) -> ReviewTable:
    """Reviews the whole sample against gold labels.

    Args:
        sample: the ``sample`` table.
        partitions: (name, ``gold`` table, ``redacted`` table), in corpus order.
        num_replicates: replicates of the sample.
        progress: told after every partition.

    Raises:
        StageError: as `review_partition`, or a sampled partition is not there.
    """
    sampled = read_sample(sample)
    table = ReviewTable(num_replicates)
    for number, (name, gold, redacted) in enumerate(partitions, start=1):
        review_partition(table, sampled.pop(name, {}), gold, redacted)
        progress(number, len(partitions), "partitions reviewed")
    if sampled:
        raise StageError("the sample names a partition that was not redacted; rerun from split")
    return table


def _rows(path: Path, name: str, columns: list[str], wanted: dict[Row, list[int]]) -> Iterator[dict[str, Any]]:
    """The rows of a table whose identity is in ``wanted``; only those become Python objects in full."""
    if not wanted:
        return
    for batch in iter_batches(path, name, columns):
        identities = zip(batch.column("doc_id").to_pylist(), batch.column("sentence_index").to_pylist(), strict=True)
        positions = [i for i, identity in enumerate(identities) if identity in wanted]
        if positions:
            yield from batch.take(pa.array(positions, pa.int64())).to_pylist()
