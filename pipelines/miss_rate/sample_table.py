"""Reads the population of sentences and writes the sample table. Holds the sampled rows in memory, never the corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipelines.context import Progress, silent
from pipelines.miss_rate.sampling import Stratum
from pipelines.tables import ROW_GROUP_ROWS, TableWriter, iter_batches

TRAIN_FOLD = "train"
Draw = Sequence[NDArray[np.int64]]
"""Row numbers within each stratum, ascending, one array per stratum."""

_IDENTITY = ("doc_id", "sentence_index", "partition")
_SHIFT = 2**40  # more rows than any stratum has: (stratum, row) as one number


def count_population(paths: Sequence[Path], *, by_domain: bool) -> tuple[Counter[str | None], int]:
    """Sentences (by domain, or all under None) and tokens of the training fold in ``sentences`` tables."""
    sentences: Counter[str | None] = Counter()
    num_tokens = 0
    for path in paths:
        for batch in iter_batches(path, "sentences", ["token_starts", "fold", "domain"]):
            kept = batch.filter(pc.equal(batch.column("fold"), TRAIN_FOLD))
            num_tokens += pc.sum(pc.list_value_length(kept.column("token_starts"))).as_py() or 0
            if by_domain:
                counted = pc.value_counts(kept.column("domain"))
                sentences.update(dict(zip(*(counted.field(i).to_pylist() for i in (0, 1)), strict=True)))
            else:
                sentences[None] += kept.num_rows
    return sentences, num_tokens


def gather(
    partitions: Sequence[tuple[str, Path]],
    strata: Sequence[Stratum],
    draws: Sequence[Draw],
    *,
    by_domain: bool,
    progress: Progress = silent,
) -> pa.Table:
    """The identities of all drawn training sentences, each once, in corpus order.

    Args:
        partitions: (name, ``sentences`` table), in corpus order.
        strata: what the row numbers of ``draws`` count in.
        draws: one per replicate.
        by_domain: whether strata are domains; otherwise there is one, of everything.
        progress: told after every partition.

    Returns:
        Columns doc_id, sentence_index, partition, and ``place``: stratum and row number in one.
    """
    wanted = [np.unique(np.concatenate([draw[h] for draw in draws])) for h in range(len(strata))]
    numbers = {stratum.domain: h for h, stratum in enumerate(strata)}
    found = list(_gather(partitions, wanted, numbers if by_domain else None, progress))
    schema = pa.schema(
        [("doc_id", pa.string()), ("sentence_index", pa.uint32()), ("partition", pa.string()), ("place", pa.int64())]
    )
    return pa.Table.from_batches([batch.cast(schema) for batch in found], schema).combine_chunks()


def _gather(
    partitions: Sequence[tuple[str, Path]],
    wanted: Sequence[NDArray[np.int64]],
    numbers: dict[str | None, int] | None,
    progress: Progress,
) -> Iterator[pa.RecordBatch]:
    seen = np.zeros(len(wanted), dtype=np.int64)  # training sentences of each stratum so far
    for done, (name, path) in enumerate(partitions, start=1):
        for batch in iter_batches(path, "sentences", ["doc_id", "sentence_index", "fold", "domain"]):
            kept = batch.filter(pc.equal(batch.column("fold"), TRAIN_FOLD))
            stratum = (
                np.zeros(kept.num_rows, dtype=np.int64)
                if numbers is None
                else np.array([numbers[domain] for domain in kept.column("domain").to_pylist()], dtype=np.int64)
            )
            place = np.full(kept.num_rows, -1, dtype=np.int64)
            for h in np.unique(stratum):
                rows = np.flatnonzero(stratum == h)
                first, last = np.searchsorted(wanted[h], (seen[h], seen[h] + len(rows)))
                chosen = wanted[h][first:last]
                place[rows[chosen - seen[h]]] = h * _SHIFT + chosen
                seen[h] += len(rows)
            if np.any(place >= 0):
                positions = np.flatnonzero(place >= 0)
                rows = kept.take(pa.array(positions))
                yield pa.RecordBatch.from_arrays(
                    [
                        rows.column("doc_id"),
                        rows.column("sentence_index"),
                        pa.array([name] * len(positions), pa.string()),
                        pa.array(place[positions]),
                    ],
                    names=[*_IDENTITY, "place"],
                )
        progress(done, len(partitions), "partitions sampled")


def write_sample(path: Path, rows: pa.Table, strata: Sequence[Stratum], draws: Sequence[Draw]) -> None:
    """Writes one row per (replicate, sentence), sorted by replicate and then in corpus order."""
    places = rows.column("place").to_numpy()
    order = np.argsort(places)
    probabilities = np.array([stratum.inclusion_probability for stratum in strata])
    with TableWriter(path, "sample") as writer:
        for replicate, draw in enumerate(draws):
            drawn = np.concatenate([h * _SHIFT + numbers for h, numbers in enumerate(draw)])
            positions = np.sort(order[np.searchsorted(places, drawn, sorter=order)])
            for start in range(0, len(positions), ROW_GROUP_ROWS):
                part = positions[start : start + ROW_GROUP_ROWS]
                chunk = rows.take(pa.array(part))
                writer.extend(
                    {
                        **{name: chunk.column(name).to_pylist() for name in _IDENTITY},
                        "replicate": [replicate] * chunk.num_rows,
                        "inclusion_probability": probabilities[places[part] // _SHIFT].tolist(),
                    }
                )


def write_chosen(folder: Path, partitions: Sequence[str], rows: pa.Table) -> None:
    """Writes ``{partition}.parquet`` for every partition: its rows of what `gather` gave, identities alone."""
    for name in partitions:
        own = rows.filter(pc.equal(rows.column("partition"), name))
        with TableWriter(folder / f"{name}.parquet", "chosen") as writer:
            writer.write({column: own.column(column) for column in ("doc_id", "sentence_index")})
