"""Resolves very many generated keys, and says how long it took and how much memory.

    python benchmarks/dedup_scale.py [--keys 2000000 20000000] [--duplicates 0.15]

Each number of keys has a process of its own, with Arrow's memory in jemalloc, as the command line sets it. The filter
and the bitmap grow with the keys by design; memory outside them should not.
Keys are made as they are read, so that no file of keys has to be written; each partition can be read again. A share of
them repeats an earlier key, by construction, so that the number of duplicates is known and checked.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa

from pipelines.dedup.bloom import ScalableBloomFilter, mix
from pipelines.dedup.kernels import WORTHWHILE_ROWS, compiled
from pipelines.dedup.resolve import MARK_BITS, KeyBatch, Tally, resolve

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


def one(num_keys: int, share: float) -> dict[str, float]:
    """Resolves so many keys in this process, and checks the number of duplicates."""
    kernels = compiled(max(num_keys, WORTHWHILE_ROWS))
    list(resolve_keys(100_000, share, kernels, Tally()))  # imports, compiled code, and what Arrow keeps
    expected = sum(
        int(repeats(np.arange(at, min(num_keys, at + BATCH_ROWS), dtype=np.uint64), share).sum())
        for at in range(0, num_keys, BATCH_ROWS)
    )
    tally, before = Tally(), peak_bytes()
    start, cpu = time.perf_counter(), time.process_time()
    for _ in resolve_keys(num_keys, share, kernels, tally):
        pass
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    if tally.num_duplicates != expected:
        raise SystemExit(f"{tally.num_duplicates:,} duplicates found, {expected:,} made")
    return {
        "keys": num_keys,
        "duplicates": expected,
        "false_positives": tally.num_false_positives or 0,
        "seconds": seconds,
        "cpu_seconds": cpu,
        "filter_bytes": tally.num_bits / 8 + MARK_BITS * num_keys / 8,
        "before_bytes": before,
        "peak_bytes": peak_bytes(),
    }


def main() -> None:
    """Parses the command line, resolves, prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, nargs="+", default=[2_000_000, 20_000_000])
    parser.add_argument("--duplicates", type=float, default=0.15, help="share of repeats, 0 to 1")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(one(args.keys[0], args.duplicates)))
        return
    heads = (
        "keys",
        "duplicates",
        "false positives removed",
        "s",
        "CPU s",
        "filter, bitmap MB",
        "peak outside MB",
        "before",
    )
    print(f"| {' | '.join(heads)} |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|")
    for keys in args.keys:
        command = [sys.executable, __file__, "--one", "--keys", str(keys), "--duplicates", str(args.duplicates)]
        environment = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "jemalloc"}
        run = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout)
        print(
            f"| {run['keys']:,} | {run['duplicates']:,} | {run['false_positives']} | {run['seconds']:.1f} |"
            f" {run['cpu_seconds']:.2f} | {run['filter_bytes'] / 1e6:.1f} |"
            f" {(run['peak_bytes'] - run['filter_bytes']) / 1e6:.1f} | {run['before_bytes'] / 1e6:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
