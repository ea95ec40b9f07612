"""Hashing and the Bloom filter alone, texts in memory, on one core: compiled (numba) and not, against a Python set.

    python benchmarks/dedup_kernel.py [--sentences 2000000] [--repeats 5]

Compiled and plain answers must be equal, and the same as the set's but for false positives.
"""

from __future__ import annotations

import argparse
import os
import time
from types import ModuleType

import numpy as np
import pyarrow as pa
from dedup import generate
from dedup_files import RATE

from pipelines.dedup.bloom import ScalableBloomFilter
from pipelines.dedup.kernels import WORTHWHILE_ROWS, compiled
from pipelines.dedup.keys import KeyMaker

BATCH_ROWS = 16_384


def repeats(texts: pa.Array, kernels: ModuleType | None) -> np.ndarray:
    """Which rows the filter has seen before."""
    maker, bloom = KeyMaker("none", 0, kernels), ScalableBloomFilter(len(texts), RATE, kernels)
    seen = []
    for at in range(0, len(texts), BATCH_ROWS):
        batch = texts.slice(at, BATCH_ROWS)
        seen.append(bloom.add_and_test(*maker.text_keys(batch, np.ones(len(batch), dtype=bool))))
    return np.concatenate(seen)


def in_a_set(texts: pa.Array) -> np.ndarray:
    """The same with Python strings in a set."""
    seen: set[str] = set()
    return np.array([text in seen or seen.add(text) is not None for text in texts.to_pylist()])


def main() -> None:
    """Parses the command line, checks that the answers agree, prints a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=2_000_000)
    parser.add_argument("--repeats", type=int, default=5, help="rounds; the fastest counts")
    args = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    texts = pa.array(generate(args.sentences))
    kernels = compiled(max(args.sentences, WORTHWHILE_ROWS))
    if kernels is None:
        raise SystemExit("numba is not installed: pip install 'reticent[fast]'")
    repeats(texts.slice(0, 10), kernels)  # compiles
    ways = {
        "compiled": lambda: repeats(texts, kernels),
        "not compiled": lambda: repeats(texts, None),
        "Python set": lambda: in_a_set(texts),
    }
    best = dict.fromkeys(ways, (float("inf"), float("inf")))
    answers = {}
    for _ in range(args.repeats):
        for name, run in ways.items():
            start, cpu = time.perf_counter(), time.process_time()
            answers[name] = run()
            best[name] = min(best[name], (time.perf_counter() - start, time.process_time() - cpu))
    if not np.array_equal(answers["compiled"], answers["not compiled"]):
        raise SystemExit("compiled and plain answers differ; no figure is worth printing")
    extra = answers["compiled"] & ~answers["Python set"]
    if (answers["Python set"] & ~answers["compiled"]).any() or extra.sum() > 10 + 10 * RATE * len(texts):
        raise SystemExit("the filter's answers are wrong; no figure is worth printing")
    for name, (seconds, cpu) in best.items():
        print(f"{name:14} {len(texts) / seconds / 1e6:6.2f} million sentences/s, {cpu / len(texts) * 1e9:4.0f} ns CPU")
    print(f"{int(extra.sum())} false positives at a rate of {RATE:g}, no false negatives")


if __name__ == "__main__":
    main()
