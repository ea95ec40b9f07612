"""Reads the population of sentences and writes the sample table. Holds the sampled rows in memory, never the corpus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipelines.context import Progress, silent
from pipelines.tables import ROW_GROUP_ROWS, TableWriter, iter_batches

TRAIN_FOLD = "train"
_IDENTITY = pa.schema([("doc_id", pa.string()), ("sentence_index", pa.uint32()), ("partition", pa.string())])


def count_population(paths: Sequence[Path]) -> tuple[int, int]:
    """Sentences and tokens of the training fold in ``sentences`` tables."""
    num_sentences = num_tokens = 0
    for path in paths:
        for batch in iter_batches(path, "sentences", ["token_starts", "fold"]):
            kept = batch.filter(pc.equal(batch.column("fold"), TRAIN_FOLD))
            num_sentences += kept.num_rows
            num_tokens += pc.sum(pc.list_value_length(kept.column("token_starts"))).as_py() or 0
    return num_sentences, num_tokens


def gather(
    partitions: Sequence[tuple[str, Path]], drawn: Sequence[NDArray[np.int64]], progress: Progress = silent
) -> pa.Table:
    """The identities of all drawn training sentences, each once, in corpus order.

    Args:
        partitions: (name, ``sentences`` table), in corpus order.
        drawn: row numbers among training sentences, one ascending array per replicate.
        progress: told after every partition.

    Returns:
        Columns doc_id, sentence_index, partition.
    """
    wanted = np.unique(np.concatenate(drawn))
    found = list(_gather(partitions, wanted, progress))
    return pa.Table.from_batches(found, _IDENTITY).combine_chunks()


def _gather(
    partitions: Sequence[tuple[str, Path]], wanted: NDArray[np.int64], progress: Progress
) -> Iterator[pa.RecordBatch]:
    at = 0  # training sentences seen so far
    for number, (name, path) in enumerate(partitions, start=1):
        for batch in iter_batches(path, "sentences", ["doc_id", "sentence_index", "fold"]):
            kept = batch.filter(pc.equal(batch.column("fold"), TRAIN_FOLD))
            first, last = np.searchsorted(wanted, (at, at + kept.num_rows))
            if last > first:
                rows = kept.take(pa.array(wanted[first:last] - at))
                names = pa.array([name] * rows.num_rows, pa.string())
                yield pa.RecordBatch.from_arrays(
                    [rows.column("doc_id"), rows.column("sentence_index"), names], schema=_IDENTITY
                )
            at += kept.num_rows
        progress(number, len(partitions), "partitions sampled")


def write_sample(
    path: Path, rows: pa.Table, drawn: Sequence[NDArray[np.int64]], *, inclusion_probability: float
) -> None:
    """Writes one row per (replicate, sentence), sorted by replicate and then in corpus order."""
    wanted = np.unique(np.concatenate(drawn))
    with TableWriter(path, "sample") as writer:
        for replicate, numbers in enumerate(drawn):
            positions = np.searchsorted(wanted, numbers)
            for start in range(0, len(positions), ROW_GROUP_ROWS):
                chunk = rows.take(pa.array(positions[start : start + ROW_GROUP_ROWS]))
                writer.extend(
                    {
                        **{name: chunk.column(name).to_pylist() for name in _IDENTITY.names},
                        "replicate": [replicate] * chunk.num_rows,
                        "inclusion_probability": [inclusion_probability] * chunk.num_rows,
                    }
                )
