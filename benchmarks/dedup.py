"""Deduplication speed and memory against a Python set and polars, on equal answers.

    python benchmarks/dedup.py [--sentences 1000000] [--data-dir FOLDER]

Sentences are generated with 15 % duplicates, or read from a folder's .txt and .raw files, one a line. Each contestant
runs in its own process on the same sentences and says which rows are duplicates; all answers must be equal before
a figure is printed. Added memory is the peak resident size above that of a process which only loaded the sentences.

What is compared is not equal work: ours also covers speaker, domain and label, counts occurrences, names the kept
copy, and keeps its memory bounded on corpora that do not fit; the set and polars keep every key.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

DUPLICATES = 0.15
BATCH_ROWS = 16_384
_WORDS = (
    "the of and to in is was for on are with as by from order your address name please thank you phone number"
    " tracking call help change update deliver package today tomorrow customer account"
)
WORDS = _WORDS.split()


def generate(num_sentences: int, seed: int = 0) -> list[str]:
    """Sentences of 6 to 14 words with a number, of which a share repeats an earlier one."""
    rng = np.random.default_rng(seed)
    words = rng.integers(0, len(WORDS), (num_sentences, 14))
    lengths = rng.integers(6, 15, num_sentences)
    repeats = rng.random(num_sentences) < DUPLICATES
    earlier = (rng.random(num_sentences) * np.arange(num_sentences)).astype(np.int64)
    sentences: list[str] = []
    for n, (row, length) in enumerate(zip(words.tolist(), lengths.tolist(), strict=True)):
        repeated = n > 0 and repeats[n]
        sentences.append(sentences[earlier[n]] if repeated else f"{' '.join(WORDS[w] for w in row[:length])} {n}.")
    return sentences


def read(folder: Path) -> list[str]:
    """The non-empty lines of every .txt and .raw file below a folder."""
    files = sorted(path for path in folder.rglob("*") if path.suffix in {".txt", ".raw"})
    lines = (line.strip() for file in files for line in file.read_text(errors="replace").splitlines())
    return [line for line in lines if line]


def ours(column: pa.ChunkedArray, verify: bool) -> np.ndarray:
    """Keys and resolve, as the stages run them, short of reading and writing Parquet."""
    from pipelines.dedup.bloom import ScalableBloomFilter
    from pipelines.dedup.kernels import compiled
    from pipelines.dedup.keys import KeyMaker
    from pipelines.dedup.resolve import KeyBatch, Tally, resolve, resolve_unverified

    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "keys.bin"  # stands for keys.parquet: the keys do not stay in memory
        kernels = compiled(len(column))
        maker = KeyMaker("none", 1, kernels)
        with path.open("wb") as file:
            for chunk in column.chunks:
                absent = pa.nulls(len(chunk), pa.string())
                high, low = maker.key_arrays(chunk, [absent] * 3, np.ones(len(chunk), dtype=bool))
                np.column_stack([high, low]).tofile(file)

        def batches() -> Iterator[KeyBatch]:
            at = 0
            with path.open("rb") as file:
                while len(words := np.fromfile(file, dtype=np.uint64, count=2 * BATCH_ROWS)):
                    keys = words.reshape(-1, 2)
                    yield KeyBatch(
                        doc_id=pa.array(["d"] * len(keys)),
                        sentence_index=pa.array(np.arange(at, at + len(keys), dtype=np.uint32)),
                        high=keys[:, 0].copy(),
                        low=keys[:, 1].copy(),
                        in_scope=np.ones(len(keys), dtype=bool),
                    )
                    at += len(keys)

        bloom, tally = ScalableBloomFilter(len(column), 1e-6, kernels), Tally()
        if verify:
            found = resolve(
                [batches], bloom, tally, mode="mask_later", scratch_dir=Path(scratch), max_keys_in_memory=20_000_000
            )
        else:
            found = resolve_unverified([batches], bloom, tally)
        (duplicates,) = found
        return np.array(duplicates.sentence_index, dtype=np.int64)


def python_set(column: pa.ChunkedArray) -> np.ndarray:
    """A set of the sentences themselves."""
    seen: set[str] = set()
    rows: list[int] = []
    at = 0
    for chunk in column.chunks:
        for text in chunk.to_pylist():
            if text in seen:
                rows.append(at)
            else:
                seen.add(text)
            at += 1
    return np.array(rows, dtype=np.int64)


def polars_unique(column: pa.ChunkedArray) -> np.ndarray:
    """polars' own first-occurrence test, with all its threads."""
    import polars as pl

    series = pl.from_arrow(column)
    assert isinstance(series, pl.Series)
    return (~series.is_first_distinct()).arg_true().to_numpy().astype(np.int64)


CONTESTANTS = {
    "nothing": lambda column: np.empty(0, dtype=np.int64),
    "keys + resolve": lambda column: ours(column, verify=True),
    "keys + plain Bloom": lambda column: ours(column, verify=False),
    "Python set": python_set,
    "polars is_first_distinct": polars_unique,
}


def peak_bytes() -> int:
    """Peak resident size of this process; Linux only (getrusage would carry over the parent's)."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def one(name: str, path: Path) -> dict[str, float | int | str]:
    """Runs one contestant in this process."""
    import polars  # noqa: F401  (imports are not what is compared)

    import pipelines.dedup.resolve  # noqa: F401
    from pipelines.dedup.kernels import WORTHWHILE_ROWS, compiled

    if compiled(WORTHWHILE_ROWS) is not None:
        ours(pa.chunked_array([["a", "a"]]), verify=True)  # loads the compiled code

    with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as reader:
        column = reader.read_all()["text"]
    start = time.perf_counter()
    rows = CONTESTANTS[name](column)
    seconds = time.perf_counter() - start
    digest = hashlib.sha256(rows.tobytes()).hexdigest()
    return {"seconds": seconds, "peak_bytes": peak_bytes(), "digest": digest, "num_duplicates": len(rows)}


def main() -> None:
    """Parses the command line, checks that the answers agree, prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=1_000_000)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--repeats", type=int, default=3, help="runs of each contestant; the fastest counts")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(one(args.one, args.path)))
        return
    sentences = read(args.data_dir) if args.data_dir else generate(args.sentences)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sentences.arrow"
        schema = pa.schema([("text", pa.string())])
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, schema) as writer:
            writer.write_table(pa.table({"text": sentences}, schema=schema), max_chunksize=BATCH_ROWS)
        results = {}
        for name in CONTESTANTS:
            command = [sys.executable, __file__, "--one", name, "--path", str(path)]
            runs = [
                json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
                for _ in range(args.repeats)
            ]
            results[name] = min(runs, key=lambda run: run["seconds"])
    baseline = results.pop("nothing")
    exact = {name: result["digest"] for name, result in results.items() if "plain" not in name}
    if len(set(exact.values())) != 1:
        raise SystemExit(f"the answers differ, no figure is worth printing: {exact}")
    count = results["Python set"]["num_duplicates"]
    print(f"{len(sentences):,} sentences, {count:,} duplicates; exact answers equal, best of {args.repeats} runs")
    print(f"{'':28}{'sentences/s':>14}{'added MB':>10}{'duplicates':>12}")
    for name, result in results.items():
        rate = len(sentences) / result["seconds"]
        added = (result["peak_bytes"] - baseline["peak_bytes"]) / 1e6
        print(f"{name:28}{rate:>14,.0f}{added:>10.0f}{result['num_duplicates']:>12,}")


if __name__ == "__main__":
    main()
