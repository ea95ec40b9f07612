"""Ten times the corpus: how much longer deduplication takes, and how much more memory.

    python benchmarks/dedup_scale.py [--corpus 2000000 20000000] [--keys 2000000 20000000] [--duplicates 0.15]

``--corpus`` writes that many sentences to Parquet and takes all steps, file to file, on one core. ``--keys`` is
the second step alone, with one bucket, so that it sees the whole corpus; its keys are made as they are read, so that no
file has to be written, and each partition can be read again.

Every run has a process of its own, with Arrow's memory in jemalloc, as the command line sets it. The filter and the
marks grow with the corpus by design; memory outside them should not. A share of the rows repeats an earlier one, by
construction, so that the number of duplicates is known and checked.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from dedup import PARTITION_ROWS, WORDS, ours, warm, write_partition
from dedup_files import RATE, parts, peak_bytes

from pipelines.artifacts import Target
from pipelines.dedup.bloom import ScalableBloomFilter, mix
from pipelines.dedup.kernels import WORTHWHILE_ROWS, compiled
from pipelines.dedup.resolve import MARK_BITS, KeyBatch, Tally, resolve

BATCH_ROWS = 16_384


def repeats(rows: np.ndarray, share: float) -> np.ndarray:
    """Which rows repeat the key of an earlier row."""
    chosen: np.ndarray = (mix(rows + np.uint64(1)) < np.uint64(share * 2**64)) & (rows > 0)
    return chosen


def source_rows(rows: np.ndarray, share: float) -> np.ndarray:
    """The row whose key each row has: its own, or, for repeats, that of an earlier row."""
    found = rows.copy()
    again = np.flatnonzero(repeats(found, share))
    while len(again):  # a repeat of a repeat has the key of the first
        found[again] = mix(found[again] ^ np.uint64(0x5EED)) % found[again]
        again = again[repeats(found[again], share)]
    return found


def batches(start: int, end: int, share: float) -> Iterator[KeyBatch]:
    """The keys of rows ``start`` to ``end``."""
    for at in range(start, end, BATCH_ROWS):
        rows = np.arange(at, min(end, at + BATCH_ROWS), dtype=np.uint64)
        source = source_rows(rows, share)
        yield KeyBatch(
            row=rows - np.uint64(start),
            doc_id=pa.DictionaryArray.from_arrays(
                pa.array((rows // np.uint64(100) - rows[0] // np.uint64(100)).astype(np.int32)),
                [f"{n:032x}" for n in range(int(rows[0]) // 100, int(rows[-1]) // 100 + 1)],
            ).cast(pa.string()),
            sentence_index=pa.array((rows % np.uint64(100)).astype(np.uint32)),
            high=mix(source + np.uint64(7)),
            low=mix(source ^ np.uint64(0xABCDEF)),
            in_scope=np.ones(len(rows), dtype=bool),
            in_other=np.zeros(len(rows), dtype=bool),
        )


def resolve_keys(num_keys: int, share: float, kernels: ModuleType | None, tally: Tally) -> Iterator[pa.Table]:
    """The duplicates, partition by partition."""
    edges = [*range(0, num_keys, PARTITION_ROWS), num_keys]
    with tempfile.TemporaryDirectory() as scratch:
        yield from resolve(
            [partial(batches, start, end, share) for start, end in itertools.pairwise(edges)],
            ScalableBloomFilter(num_keys, RATE, kernels),
            tally,
            mode="mask_later",
            scratch=Target(folder=Path(scratch)),
            max_rows_in_memory=10_000,
            num_rows=num_keys,
            kernels=kernels,
        )


def num_repeats(num_rows: int, share: float) -> int:
    """How many duplicates there are."""
    return sum(
        int(repeats(np.arange(at, min(num_rows, at + BATCH_ROWS), dtype=np.uint64), share).sum())
        for at in range(0, num_rows, BATCH_ROWS)
    )


def write_corpus(folder: Path, num_sentences: int, share: float) -> None:
    """Sentences of 6 to 14 words with a number, partition by partition; as long in large corpora as in small ones."""
    for part, at in enumerate(range(0, num_sentences, PARTITION_ROWS)):
        rows = np.arange(at, min(num_sentences, at + PARTITION_ROWS), dtype=np.uint64)
        source = source_rows(rows, share)
        chosen = mix(source[:, None] * np.uint64(15) + np.arange(15, dtype=np.uint64))
        lengths = (chosen[:, 14] % np.uint64(9) + np.uint64(6)).tolist()
        words = (chosen[:, :14] % np.uint64(len(WORDS))).tolist()
        texts = [
            f"{' '.join([WORDS[w] for w in row[:length]])} {n:09}."
            for row, length, n in zip(words, lengths, source.tolist(), strict=True)
        ]
        write_partition(folder, part, texts)


def measure(run: Callable[[], Tally], num_rows: int, share: float) -> dict[str, float]:
    """Time and memory of what this process does, and the right number of duplicates."""
    before = peak_bytes()
    start, cpu = time.perf_counter(), time.process_time()
    tally = run()
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    expected = num_repeats(num_rows, share)
    if tally.num_duplicates != expected:
        raise SystemExit(f"{tally.num_duplicates:,} duplicates found, {expected:,} made")
    return {
        "rows": num_rows,
        "duplicates": expected,
        "false_positives": tally.num_false_positives or 0,
        "seconds": seconds,
        "cpu_seconds": cpu,
        "filter_bytes": tally.num_bits / 8 + MARK_BITS * num_rows / 8,
        "before_bytes": before,
        "peak_bytes": peak_bytes(),
    }


def keys_alone(num_keys: int, share: float) -> dict[str, float]:
    """Resolves so many keys in this process."""
    kernels = compiled(max(num_keys, WORTHWHILE_ROWS))
    list(resolve_keys(100_000, share, kernels, Tally()))  # imports, compiled code, and what Arrow keeps

    def run() -> Tally:
        tally = Tally()
        for _ in resolve_keys(num_keys, share, kernels, tally):
            pass
        return tally

    return measure(run, num_keys, share)


def corpus(inputs: Path, share: float) -> dict[str, float]:
    """Deduplicates a folder that `write_corpus` filled, in this process."""
    with tempfile.TemporaryDirectory(dir=inputs.parent) as work:
        folder = Path(work)
        for path in inputs.iterdir():
            (folder / path.name).symlink_to(path)
        return deduplicate(folder, share)


def deduplicate(folder: Path, share: float) -> dict[str, float]:
    """`corpus`, in a folder that takes the results."""
    num_rows = sum(pq.read_metadata(folder / f"split-{part}" / "sentences.parquet").num_rows for part in parts(folder))
    warm(folder.parent)

    def run() -> Tally:
        ours(folder)
        figures = json.loads((folder / "dedup_resolve-None" / "figures.json").read_text())
        names = ("num_sentences", "num_in_scope", "num_nominated", "num_duplicates", "num_bits")
        tally = Tally(**{name: figures[name] for name in names})
        tally.num_repeats = tally.num_nominated - figures["num_false_positives"]
        return tally

    return measure(run, num_rows, share)


def in_a_process(share: float, *arguments: str) -> dict[str, float]:
    """What one run prints."""
    environment = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "jemalloc", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--duplicates", str(share), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def show(what: str, runs: Sequence[Callable[[], dict[str, float]]], num_repeats: int) -> None:
    """A table with a line for each run, the median of interleaved rounds."""
    rounds = [[run() for run in runs] for _ in range(num_repeats)]
    print(
        f"| {what} | duplicates | false positives removed | s | CPU s | filter, marks MB | peak outside MB | before |"
    )
    print("|---:|---:|---:|---:|---:|---:|---:|---:|")
    for found in zip(*rounds, strict=True):
        run = {name: statistics.median(one[name] for one in found) for name in found[0]}
        print(
            f"| {run['rows']:,} | {run['duplicates']:,} | {run['false_positives']} | {run['seconds']:.2f} |"
            f" {run['cpu_seconds']:.2f} | {run['filter_bytes'] / 1e6:.1f} |"
            f" {(run['peak_bytes'] - run['filter_bytes']) / 1e6:.1f} | {run['before_bytes'] / 1e6:.1f} |"
        )
    print(flush=True)


def main() -> None:
    """Parses the command line, runs, prints tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=int, nargs="*", default=[2_000_000, 20_000_000])
    parser.add_argument("--keys", type=int, nargs="*", default=[2_000_000, 20_000_000])
    parser.add_argument("--duplicates", type=float, default=0.15, help="share of repeats, 0 to 1")
    parser.add_argument("--repeats", type=int, default=3, help="interleaved rounds; the medians count")
    parser.add_argument("--one-keys", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--one-corpus", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one_keys or args.one_corpus:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        found = (
            keys_alone(args.one_keys, args.duplicates) if args.one_keys else corpus(args.one_corpus, args.duplicates)
        )
        print(json.dumps(found))
        return
    with tempfile.TemporaryDirectory() as top:
        folders = [Path(top) / str(size) / "in" for size in args.corpus]
        for folder, size in zip(folders, args.corpus, strict=True):
            folder.mkdir(parents=True)
            write_corpus(folder, size, args.duplicates)
        of_corpora = [partial(in_a_process, args.duplicates, "--one-corpus", str(folder)) for folder in folders]
        if of_corpora:
            show("sentences", of_corpora, args.repeats)
    of_keys = [partial(in_a_process, args.duplicates, "--one-keys", str(keys)) for keys in args.keys]
    if of_keys:
        show("keys", of_keys, args.repeats)


if __name__ == "__main__":
    main()
