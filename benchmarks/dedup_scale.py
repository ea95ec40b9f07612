"""Resolves very many generated keys, and says how long it took and how much memory.

    python benchmarks/dedup_scale.py [--keys 100000000] [--duplicates 0.15]

Keys are made as they are read, so that no file of keys has to be written; each partition can be read again. A share of
them repeats an earlier key, by construction, so that the number of duplicates is known and checked.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa

from pipelines.dedup.bloom import ScalableBloomFilter, mix
from pipelines.dedup.kernels import compiled
from pipelines.dedup.resolve import KeyBatch, Tally, resolve

BATCH_ROWS = 16_384
PARTITION_ROWS = 100_000


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


def peak_bytes() -> int:
    """Peak resident size of this process; Linux only."""
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024


def resolve_keys(num_keys: int, share: float, kernels: ModuleType | None, tally: Tally) -> Iterator[pa.Table]:
    """The duplicates, partition by partition."""
    edges = [*range(0, num_keys, PARTITION_ROWS), num_keys]
    with tempfile.TemporaryDirectory() as scratch:
        yield from resolve(
            [functools.partial(batches, start, end, share) for start, end in itertools.pairwise(edges)],
            ScalableBloomFilter(num_keys, 1e-6, kernels),
            tally,
            mode="mask_later",
            scratch_dir=Path(scratch),
            max_rows_in_memory=10_000,
            num_rows=num_keys,
            kernels=kernels,
        )


def main() -> None:
    """Parses the command line, resolves, checks the number of duplicates, prints one line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=100_000_000)
    parser.add_argument("--duplicates", type=float, default=0.15, help="share of repeats, 0 to 1")
    args = parser.parse_args()
    kernels = compiled(args.keys)
    list(resolve_keys(10_000, args.duplicates, kernels, Tally()))  # imports and compiled code
    before = peak_bytes()
    expected = sum(
        int(repeats(np.arange(at, min(args.keys, at + BATCH_ROWS), dtype=np.uint64), args.duplicates).sum())
        for at in range(0, args.keys, BATCH_ROWS)
    )
    tally = Tally()
    start = time.perf_counter()
    for _ in resolve_keys(args.keys, args.duplicates, kernels, tally):
        pass
    seconds = time.perf_counter() - start
    if tally.num_duplicates != expected:
        raise SystemExit(f"{tally.num_duplicates:,} duplicates found, {expected:,} made")
    print(
        f"{args.keys:,} keys, {expected:,} duplicates, {tally.num_false_positives} false positives removed:"
        f" {seconds:,.0f} s (with making the keys twice), {args.keys / seconds:,.0f} keys/s,"
        f" filter {tally.num_bits / 8e6:,.0f} MB, added memory {(peak_bytes() - before) / 1e6:,.0f} MB"
    )


if __name__ == "__main__":
    main()
