"""The sample of sentences to review: its draw, its table, and the rows of other tables that it names.

There are independent replicates, each a simple random sample without replacement (Just Fine-tune Twice, section 3.1:
ten of 0.01 % of the training data). With strata, each replicate is a simple random sample of every stratum, so that it
covers small domains too.

Rows are drawn by their number alone, separately in each stratum. After the replicates comes the large part: strata of
large sentences (`pipelines.miss_rate.large`), numbered as the replicate after the last one. The draw never depends on
the finds of a policy, so a change of policy keeps the sample. Estimates weight each sentence by 1 / its inclusion
probability (`pipelines.miss_rate.weights`). The seed is public. Memory holds sampled rows, never the corpus.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipelines.artifacts import Source, Target
from pipelines.context import Progress, silent
from pipelines.corpus.tables import DOCUMENTS, GOLD, SENTENCES
from pipelines.errors import StageError
from pipelines.miss_rate.tables import CHOSEN
from pipelines.policies.tables import REDACTED
from pipelines.tables import ROW_GROUP_ROWS, Table, TableWriter

SentenceId = tuple[str, int]
"""Identity of a sentence: its document, and its number in the document."""

TRAIN_FOLD = "train"
Draw = Sequence[NDArray[np.int64]]
"""Row numbers within each stratum, ascending, one array per stratum."""

_IDENTITY = ("doc_id", "sentence_index", "partition")
_SHIFT = 2**40  # more rows than any stratum has: (stratum, row) as one number
_SENTENCES = ("doc_id", "sentence_index", "text", "token_starts", "token_ends")
_BATCH_ROWS = 4_096
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
SCREENING_STREAM: Final = 1_000_000
"""Random stream of the manual-screening set; replicates have the streams below."""


@dataclass(frozen=True)
class Stratum:
    """A part of the training sentences that is sampled separately.

    Attributes:
        domain: name of the domain; None for sentences without a domain, or for all sentences without strata.
        num_population: number of its training sentences.
        size: number of its sentences in each replicate.
    """

    domain: str | None
    num_population: int
    size: int

    @property
    def inclusion_probability(self) -> float:
        """The inclusion probability of a sentence in one replicate."""
        return self.size / self.num_population


def replicate_size(num_population: int, fraction: float, min_sentences: int) -> int:
    """Returns the number of sentences in one replicate: the fraction rounded up, from ``min_sentences`` to all."""
    # 0.0001 * 30000 is 3.0000000000000004 in floating point and must not become 4.
    wanted = math.ceil(fraction * num_population - 1e-9)
    return min(num_population, max(wanted, min_sentences))


def make_strata(
    populations: Mapping[str | None, int], fraction: float, min_sentences: int, min_per_stratum: int
) -> list[Stratum]:
    """Makes the strata, with the number that each replicate draws from them, in the order of their names.

    Sizes are proportional to the populations, except for the minimum of a stratum. ``min_sentences`` is the minimum of
    a whole replicate, and is reached proportionally.
    """
    total = sum(populations.values())
    wanted = replicate_size(total, fraction, min_sentences)
    share = max(fraction, wanted / total) if total else 0.0
    return [
        Stratum(name, populations[name], replicate_size(populations[name], share, min_per_stratum))
        for name in sorted(populations, key=lambda n: (n is not None, n or ""))
        if populations[name]
    ]


def draw_replicate(num_population: int, size: int, seed: int, replicate: int, stratum: int = 0) -> NDArray[np.int64]:
    """Draws (size,) distinct row numbers of one replicate in one stratum, ascending.

    Args:
        num_population: number of rows to draw from, numbered from 0 in corpus order.
        size: number of rows to draw, at most ``num_population``.
        seed: seed of the stage.
        replicate: number of the replicate; each has its own random stream.
        stratum: number of the stratum; each has its own random stream.
    """
    entropy = [seed % 2**128, replicate] + ([stratum] if stratum else [])
    generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))
    if size == num_population:
        return np.arange(num_population, dtype=np.int64)
    drawn: NDArray[Any] = generator.choice(num_population, size=size, replace=False, shuffle=False)
    return np.sort(drawn).astype(np.int64)


def seed_of_draw(seed: int, draw: int) -> int:
    """Returns the seed of a sample of the same corpus. That of the first sample is the stage's own."""
    if draw == 1:
        return seed
    return int.from_bytes(hashlib.sha256(f"{seed} draw {draw}".encode()).digest()[:16])


def count_population(tables: Sequence[Table], *, by_domain: bool) -> tuple[Counter[str | None], int]:
    """Counts sentences (by domain, or all under None) and tokens of the training fold in ``sentences`` tables."""
    sentences: Counter[str | None] = Counter()
    num_tokens = 0
    for table in tables:
        for batch in table.batches(["token_starts", "fold", "domain"]):
            kept = batch.filter(pc.equal(batch.column("fold"), TRAIN_FOLD))
            num_tokens += pc.sum(pc.list_value_length(kept.column("token_starts"))).as_py() or 0
            if by_domain:
                counted = pc.value_counts(kept.column("domain"))
                sentences.update(dict(zip(*(counted.field(i).to_pylist() for i in (0, 1)), strict=True)))
            else:
                sentences[None] += kept.num_rows
    return sentences, num_tokens


StrataOf = Callable[[pa.RecordBatch], NDArray[np.int64]]
"""Function that returns the stratum of each row of a batch; below 0 for none."""


def by_domain(strata: Sequence[Stratum]) -> StrataOf:
    """Returns the strata function for domains."""
    numbers = {stratum.domain: h for h, stratum in enumerate(strata)}
    return lambda batch: np.array([numbers[domain] for domain in batch.column("domain").to_pylist()], dtype=np.int64)


def everything(batch: pa.RecordBatch) -> NDArray[np.int64]:
    """Puts all sentences into one stratum."""
    return np.zeros(batch.num_rows, dtype=np.int64)


def gather(
    partitions: Sequence[tuple[str, Table]],
    draws: Sequence[Draw],
    strata_of: StrataOf,
    columns: Sequence[str] = (),
    progress: Progress = silent,
) -> pa.Table:
    """Gathers the identities of all drawn training sentences, each once, in corpus order.

    Args:
        partitions: (name, ``sentences`` table), in corpus order.
        draws: row numbers in each stratum, one draw per replicate.
        strata_of: function that returns the strata of rows.
        columns: columns that ``strata_of`` reads.
        progress: function called after every partition.

    Returns:
        Columns doc_id, sentence_index, partition, ``place`` (stratum and row number in one), and ``row`` (number among
        all training sentences).
    """
    wanted = [np.unique(np.concatenate([draw[h] for draw in draws])) for h in range(len(draws[0]))]
    found = list(_gather(partitions, wanted, strata_of, columns, progress))
    kinds = (pa.string(), pa.uint32(), pa.string(), pa.int64(), pa.int64())
    schema = pa.schema(list(zip((*_IDENTITY, "place", "row"), kinds, strict=True)))
    return pa.Table.from_batches([batch.cast(schema) for batch in found], schema).combine_chunks()


def distinct(*samples: pa.Table) -> pa.Table:
    """Joins the rows of several results of `gather`, each sentence once, in corpus order."""
    rows = pa.concat_tables(samples).combine_chunks()
    first = np.unique(rows.column("row").to_numpy(), return_index=True)[1]
    return rows.take(pa.array(first))


def _gather(
    partitions: Sequence[tuple[str, Table]],
    wanted: Sequence[NDArray[np.int64]],
    strata_of: StrataOf,
    columns: Sequence[str],
    progress: Progress,
) -> Iterator[pa.RecordBatch]:
    seen = np.zeros(len(wanted), dtype=np.int64)  # training sentences of each stratum so far
    num_rows = 0
    for done, (name, sentences) in enumerate(partitions, start=1):
        for batch in sentences.batches(list(dict.fromkeys(["doc_id", "sentence_index", "fold", *columns]))):
            kept = batch.filter(pc.equal(batch.column("fold"), TRAIN_FOLD))
            stratum = strata_of(kept)
            place = np.full(kept.num_rows, -1, dtype=np.int64)
            for h in np.unique(stratum[stratum >= 0]):
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
                        pa.array(num_rows + positions),
                    ],
                    names=[*_IDENTITY, "place", "row"],
                )
            num_rows += kept.num_rows
        progress(done, len(partitions), "partitions sampled")


def write_sample(
    writer: TableWriter, rows: pa.Table, chances: Sequence[float], draws: Sequence[Draw], first_replicate: int = 0
) -> None:
    """Writes one row per (replicate, sentence), sorted by replicate and then in corpus order."""
    places = rows.column("place").to_numpy()
    order = np.argsort(places)
    probabilities = np.array(chances)
    for replicate, draw in enumerate(draws, start=first_replicate):
        drawn = np.concatenate([h * _SHIFT + numbers for h, numbers in enumerate(draw)])
        found = order[np.searchsorted(places, drawn, sorter=order)]
        positions = found[np.argsort(rows.column("row").to_numpy()[found])]
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


def write_chosen(out: Target, partitions: Sequence[str], rows: pa.Table) -> None:
    """Writes ``{partition}.parquet`` for every partition: the identities of its rows from `gather`."""
    for name in partitions:
        own = rows.filter(pc.equal(rows.column("partition"), name))
        with out.table(CHOSEN, name) as writer:
            writer.write({column: own.column(column) for column in ("doc_id", "sentence_index")})


def read_sample(sample: Table) -> dict[str, dict[SentenceId, list[int]]]:
    """Reads the replicates of every sampled sentence, by partition."""
    found: dict[str, dict[SentenceId, list[int]]] = {}
    for batch in sample.batches(["doc_id", "sentence_index", "partition", "replicate"]):
        columns = [batch.column(name).to_pylist() for name in ("doc_id", "sentence_index", "partition", "replicate")]
        for doc_id, sentence_index, partition, replicate in zip(*columns, strict=True):
            found.setdefault(partition, {}).setdefault((doc_id, sentence_index), []).append(replicate)
    return found


class Partition(NamedTuple):
    """The tables of one partition, by its name.

    Attributes:
        name: name of the partition.
        split: output of the split stage.
        redact: output of the redact stage.
        stability: table of verdicts; None if stability was not measured, or is not needed.
    """

    name: str
    split: Source
    redact: Source
    stability: Table | None = None

    @property
    def sentences(self) -> Table:
        """The table of sentences."""
        return self.split.table(SENTENCES)

    @property
    def documents(self) -> Table:
        """The table of documents."""
        return self.split.table(DOCUMENTS)

    @property
    def gold(self) -> Table:
        """The table of gold labels."""
        return self.split.table(GOLD)

    @property
    def redacted(self) -> Table:
        """The table of redacted rows."""
        return self.redact.table(REDACTED)


def sampled_partitions(
    sample: Table, partitions: Sequence[Partition], progress: Progress = silent
) -> Iterator[tuple[Partition, dict[SentenceId, list[int]]]]:
    """Yields each partition with its sampled sentences (`read_sample`).

    Raises:
        StageError: a sampled partition is missing.
    """
    sampled = read_sample(sample)
    for number, partition in enumerate(partitions, start=1):
        yield partition, sampled.pop(partition.name, {})
        progress(number, len(partitions), "partitions reviewed")
    if sampled:
        raise StageError("the sample names a partition that was not redacted; rerun from split")


def require_all(num_found: int, num_wanted: int) -> None:
    """Raises a `StageError` if sampled sentences are missing from a redacted table."""
    if num_found != num_wanted:
        raise StageError(
            f"{num_wanted - num_found} of {num_wanted} sampled sentences are missing from the redacted table, "
            "so sample and redact saw different sentences; rerun from split"
        )


def rows_of(
    table: Table, columns: Sequence[str], wanted: Collection[SentenceId], number: str = "sentence_index"
) -> Iterator[dict[str, Any]]:
    """Yields the rows of a table whose (doc_id, number) is wanted. Only these become Python objects in full."""
    if not wanted:
        return
    for batch in table.batches(columns):
        identities = zip(batch.column("doc_id").to_pylist(), batch.column(number).to_pylist(), strict=True)
        positions = [i for i, identity in enumerate(identities) if identity in wanted]
        if positions:
            yield from batch.take(pa.array(positions, pa.int64())).to_pylist()


def joined(
    partition: Partition, wanted: Mapping[SentenceId, Any], extra: Sequence[str] = ()
) -> Iterator[list[dict[str, Any]]]:
    """Yields the wanted rows of both tables in batches, with sentence and redacted columns, in corpus order.

    Raises:
        StageError: a wanted row is missing.
    """
    columns = [*REDACTED_COLUMNS, *extra]
    redacted = rows_of(partition.redacted, columns, wanted)
    batch: list[dict[str, Any]] = []
    num_found = 0
    for row, other in zip(rows_of(partition.sentences, _SENTENCES, wanted), redacted, strict=False):
        if (row["doc_id"], row["sentence_index"]) != (other["doc_id"], other["sentence_index"]):
            break
        num_found += 1
        batch.append({**row, **other})
        if len(batch) == _BATCH_ROWS:
            yield batch
            batch = []
    if batch:
        yield batch
    require_all(num_found, len(wanted))
