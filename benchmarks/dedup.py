"""Deduplication from file to file, against datatrove, dolma, rbloom, polars and a Python set, on equal answers.

    python benchmarks/dedup.py [--peers] [--only NAME ...] [--sentences 2000000] [--data-dir FOLDER [--times 5]]
                               [--out FILE]

Sentences are generated with 15 % duplicates, or those of WikiText-2, CustomerSim and MultiDoGO in a folder with
``wikitext2/``, ``customersim/`` and ``multidogo/``, read and split by the pipeline's own readers. Real corpora are
small: ``--times`` takes them so many times, each time with another number after every sentence, so that lengths and
the share of duplicates stay as they are. Each contestant runs in its own process on one core, reads files, and writes
which sentences repeat an earlier one; rounds are interleaved and the fastest counts, by wall clock and by CPU seconds,
which say the same where other jobs share the machine. Answers must be equal (a Bloom filter that does not verify may
add as many false positives as its rate allows) before a figure is printed. Added memory is the peak resident size
above that of a process with the same imports that reads and writes the same Parquet files in batches and decides
nothing.

With ``--peers`` come dolma, rbloom and datatrove, in environments of their own, which the first run makes
(`benchmarks/peers.py`; dolma's takes ten minutes, for one of its packages is compiled); one that cannot be made is left
out, and the reason printed. They are imported before the clock starts, as ours is. dolma reads and writes compressed
JSON, which may take less memory than Parquet. datatrove gets the first tenth of the sentences, for it would take
minutes. The work is not equal: ours also covers speaker, domain and label, counts occurrences, names the kept copy, and
decides exactly.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from common import command_line, heading, write_json
from dedup_files import DOCUMENT_ROWS, RATE, link, nothing, num_rows, parts, peak_bytes, write_masks
from peers import FOLDER, PeerError, json_of, python_of
from peers import run as run_peer

from pipelines.artifacts import Artifact, Output, Target
from pipelines.context import Environment, StageContext
from pipelines.corpus.items import Document
from pipelines.corpus.options import ReadOptions
from pipelines.corpus.readers import read_documents
from pipelines.corpus.scan import scan
from pipelines.corpus.split import Splitter
from pipelines.corpus.tables import SENTENCES
from pipelines.dedup.kernels import WORTHWHILE_ROWS, compiled
from pipelines.graph import GRAPH
from pipelines.settings.corpus import CorpusConfig
from pipelines.settings.dedup import DedupConfig
from pipelines.settings.split import SplitConfig

DUPLICATES = 0.15
PARTITION_ROWS = 100_000
WORDS = """
    the of and to in is was for on are with as by from order your address name please thank you phone number
    tracking call help change update deliver package today tomorrow customer account
""".split()  # noqa: SIM905


def generate(num_sentences: int, seed: int = 0) -> list[str]:
    """Returns sentences of 6 to 14 words with a number, of which a share repeats an earlier one."""
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


CORPORA = {
    "wikitext": ("wikitext2/wiki.*.raw",),
    "jsonl": ("customersim/train.jsonl", "customersim/valid.jsonl", "customersim/test.jsonl"),
    "multidogo": ("multidogo",),
}
"""Inputs of the real corpora, by format."""


def read(folder: Path, times: int) -> list[str]:
    """Returns the sentences of the real corpora below a folder, so many times, each time with another number."""
    sentences: list[str] = []
    options = ReadOptions()
    for name, inputs in CORPORA.items():
        parts = scan(inputs, base_dir=folder, format=name, options=options, secret=b"not used")
        items = (item for part in parts for piece in part.pieces for item in read_documents(piece, options))
        documents = (item for item in items if isinstance(item, Document))
        for _, found in Splitter().split_each(documents, lambda item: (item.text, item.layout)):
            sentences += [" ".join(sentence.text.split()) for sentence in found]
    return [*sentences, *(f"{sentence} {n}" for n in range(1, times) for sentence in sentences)]


def write_partition(folder: Path, part: int, texts: list[str]) -> None:
    """Writes consecutive sentences as one partition of our tables."""
    at = part * PARTITION_ROWS
    documents, index = np.divmod(np.arange(at, at + len(texts)), DOCUMENT_ROWS)
    rows = pa.array([[0, 1]] * len(texts), pa.list_(pa.uint32()))
    none = pa.nulls(len(texts), pa.string())
    with Target(folder=folder).below(f"split-{part:04d}").table(SENTENCES) as writer:
        writer.write(
            {
                "doc_id": pa.array([f"{n:032x}" for n in documents.tolist()]),
                "sentence_index": index.astype(np.uint32),
                "text": pa.array(texts),
                "token_starts": rows,
                "token_ends": rows,
                "char_start": np.zeros(len(texts), dtype=np.uint32),
                "is_overlong_piece": np.zeros(len(texts), dtype=bool),
                "speaker": none,
                "domain": none,
                "fold": pa.array(["train"] * len(texts)),
                "label": none,
            }
        )


def write_inputs(sentences: list[str], folder: Path) -> None:
    """Writes the sentences as our tables, and as dolma's documents of so many lines."""
    (folder / "documents").mkdir()
    for part, at in enumerate(range(0, len(sentences), PARTITION_ROWS)):
        texts = sentences[at : at + PARTITION_ROWS]
        write_partition(folder, part, texts)
        with gzip.open(folder / "documents" / f"{part:04d}.jsonl.gz", "wt", compresslevel=1) as file:
            for n in range(0, len(texts), DOCUMENT_ROWS):
                document = {"id": str(at + n), "text": "\n".join(texts[n : n + DOCUMENT_ROWS]), "source": "x"}
                file.write(json.dumps(document) + "\n")


def _stage(folder: Path, config: dict, stage: str, part: str | None, inputs: dict) -> None:

    def artifact(name: str, partition: str | None) -> Artifact:
        return Artifact(stage=name, partition=partition, key="", folder=folder / f"{name}-{partition}")

    target, scratch = folder / f"{stage}-{part}", folder / f"scratch-{part}"
    target.mkdir(exist_ok=True)
    scratch.mkdir(exist_ok=True)
    ctx = StageContext(
        stage=stage,
        partition=part,
        configs={"dedup": DedupConfig(**config), "corpus": CorpusConfig(), "split": SplitConfig()},
        inputs={name: tuple(artifact(name, p) for p in names) for name, names in inputs.items()},
        out=Output(folder=target, scratch_folder=scratch, failures_folder=scratch),
        run=Environment(processes=1),
    )
    GRAPH[stage].run()(ctx)


SENTENCE_BYTES = 80
"""Approximate size of a sentence as input; dedup has as many buckets as a run on a corpus of that size."""


def ours(folder: Path, **config: object) -> np.ndarray:
    """Runs the stages, Parquet to Parquet. `our_rows` reads the answer, outside the clock."""
    names = parts(folder)
    config = {"false_positive_rate": RATE, "expected_items": num_rows(folder), **config}
    for part in names:
        _stage(folder, config, "dedup_keys", part, {"split": (part,)})
    buckets = DedupConfig(**config).partition_names(num_rows(folder) * SENTENCE_BYTES)
    for bucket in buckets:
        _stage(folder, config, "dedup_buckets", bucket, {"dedup_keys": names})
    _stage(folder, config, "dedup_resolve", None, {"dedup_keys": names, "dedup_buckets": buckets})
    for part in names:
        _stage(folder, config, "dedup_mask", part, {"split": (part,), "dedup_resolve": (None,)})
    return np.empty(0, dtype=np.int64)


def our_rows(folder: Path) -> np.ndarray:
    """Returns the rows that the last stage masks."""
    rows, at = [], 0
    for part in parts(folder):
        mask = pq.read_table(folder / f"dedup_mask-{part}" / "masked.parquet")["is_duplicate"].to_numpy()
        rows.append(np.flatnonzero(mask) + at)
        at += len(mask)
    return np.concatenate(rows)


def python_set(folder: Path) -> np.ndarray:
    seen: set[str] = set()

    def decide(batch: pa.RecordBatch) -> list[bool]:
        return [text in seen or seen.add(text) is not None for text in batch["text"].to_pylist()]

    return write_masks(folder, decide)


def polars_unique(folder: Path) -> np.ndarray:
    frame = pl.read_parquet(folder / "split-*" / "sentences.parquet", columns=["doc_id", "sentence_index", "text"])
    mask = ~frame["text"].is_first_distinct()
    frame.select("doc_id", "sentence_index", mask.alias("is_duplicate")).write_parquet(folder / "mask-polars.parquet")
    return mask.arg_true().to_numpy().astype(np.int64)


CONTESTANTS = {
    "nothing": nothing,
    "Reticent": ours,
    "Reticent, exact": lambda folder: ours(folder, backend="exact"),
    "Reticent, plain Bloom": lambda folder: ours(folder, verify=False),
    "dolma": None,
    "rbloom": None,
    "Python set": python_set,
    "polars": polars_unique,
    "datatrove": None,
}
"""Function that decides; None for a peer that has an environment of its own (`benchmarks/dedup_peers.py`)."""
PEERS = tuple(name for name, decide in CONTESTANTS.items() if decide is None)
UNVERIFIED = ("Reticent, plain Bloom", "dolma", "rbloom")
ONE_CORE = {
    "POLARS_MAX_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "jemalloc",  # as the command line sets it
}
AFTER = {name: our_rows for name in CONTESTANTS if name.startswith("Reticent")}


def warm(folder: Path) -> None:
    """Loads modules and compiled code, which are not compared."""
    compiled(WORTHWHILE_ROWS)
    with tempfile.TemporaryDirectory(dir=folder) as small:
        write_inputs(["a b", "a b"], Path(small))
        ours(Path(small))


def one(name: str, folder: Path) -> dict[str, object]:
    """Runs one contestant in this process, on one core."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory(dir=folder.parent) as top:
        work = Path(top)
        link(folder, work)
        warm(folder.parent)
        start, cpu = time.perf_counter(), time.process_time()
        rows = CONTESTANTS[name](work)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        peak = peak_bytes()
        rows = AFTER[name](work) if name in AFTER else rows
        np.save(folder.parent / f"{name}.npy", rows)
    return {"seconds": seconds, "cpu_seconds": cpu, "peak_bytes": peak}


def measure(name: str, folder: Path, peers_dir: Path) -> dict[str, float]:
    """Runs one contestant in a process of its own, a peer with its own packages.

    Raises:
        PeerError: it failed.
    """
    if name in PEERS:
        script = Path(__file__).with_name("dedup_peers.py")
        own, idle = (
            run_peer(name, script, name, str(folder), *flags, folder=peers_dir, variables=ONE_CORE)
            for flags in ((), ("--idle",))
        )
        return {**own, "idle_peak_bytes": idle["peak_bytes"]}
    command = [sys.executable, __file__, "--one", name, "--path", str(folder)]
    return json_of(command, {**os.environ, **ONE_CORE})


def check(folder: Path, name: str, expected: np.ndarray, num_sentences: int) -> str:
    """Returns the differences of an answer from the exact one, and ends with an error if there are too many."""
    rows = np.load(folder / f"{name}.npy")
    missing, extra = len(np.setdiff1d(expected, rows)), len(np.setdiff1d(rows, expected))
    allowed = 10 + 10 * RATE * num_sentences if name in UNVERIFIED else 0
    if missing or extra > allowed:
        raise SystemExit(f"{name}: {missing} duplicates missing, {extra} too many; no figure is worth printing")
    return f"{extra} / {missing}"


def main() -> None:
    parser = command_line(__doc__, data_dir=False)
    parser.add_argument("--sentences", type=int, default=2_000_000)
    parser.add_argument("--times", type=int, default=5, help="how often real corpora are taken")
    parser.add_argument("--repeats", type=int, default=3, help="rounds; each contestant's fastest run counts")
    parser.add_argument("--peers", action="store_true", help="install and measure other people's tools as well")
    parser.add_argument("--peers-dir", type=Path, default=FOLDER, help="where environments of peers are kept")
    parser.add_argument("--only", nargs="+", choices=list(CONTESTANTS), help="besides what the answers are checked by")
    parser.add_argument("--out", type=Path, help="also write the table to this file; to one in .json, the figures")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(one(args.one, args.path)))
        return
    sentences = read(args.data_dir, args.times) if args.data_dir else generate(args.sentences)
    counts = {name: len(sentences) // 10 if name == "datatrove" else len(sentences) for name in CONTESTANTS}
    results: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as top:
        folders = {}
        for count in set(counts.values()):
            folders[count] = Path(top) / str(count) / "in"
            folders[count].mkdir(parents=True)
            write_inputs(sentences[:count], folders[count])
        skipped = set() if args.peers else set(PEERS)
        if args.only:
            skipped |= CONTESTANTS.keys() - {"nothing", "Reticent", "Python set", *args.only}
        for peer in (name for name in PEERS if name not in skipped):  # before any is timed
            try:
                python_of(peer, args.peers_dir)
            except PeerError as error:
                print(f"left out: {peer} ({error})")
                skipped.add(peer)
        for _ in range(args.repeats):
            for name, count in counts.items():
                if name in skipped:
                    continue
                try:
                    run = measure(name, folders[count], args.peers_dir)
                except PeerError as error:
                    print(f"left out: {name} ({error})")
                    skipped.add(name)
                    continue
                best = results.setdefault(name, run)
                results[name] = {key: min(value, run[key]) for key, value in best.items()}
        baseline = results.pop("nothing")
        lines = [
            f"{len(sentences):,} sentences; best of {args.repeats} interleaved rounds, one core. Load average of 15"
            f" minutes at the end: {os.getloadavg()[2]:.1f} on {os.cpu_count()} cores.",
            f"Command: `python {' '.join(sys.argv)}`",
            "",
            *heading(
                "",
                "sentences/s",
                "Reticent is",
                "CPU s a million",
                "by CPU",
                "added MB",
                "false positives / negatives",
                right=True,
            ),
        ]
        own_rate = len(sentences) / results["Reticent"]["seconds"]
        own_cpu = results["Reticent"]["cpu_seconds"] / len(sentences) * 1e6
        for name, result in results.items():
            expected_rows = np.load(folders[counts["Python set"]].parent / "Python set.npy")
            expected_rows = expected_rows[expected_rows < counts[name]]
            errors = check(folders[counts[name]].parent, name, expected_rows, counts[name])
            rate = counts[name] / result["seconds"]
            added = (result["peak_bytes"] - result.get("idle_peak_bytes", baseline["peak_bytes"])) / 1e6
            cpu = result["cpu_seconds"] / counts[name] * 1e6
            by_cpu = f"{cpu:.2f} | {cpu / own_cpu:.2f}x | {added:.1f}"
            lines.append(f"| {name} | {rate:,.0f} | {own_rate / rate:.2f}x | {by_cpu} | {errors} |")
    text = "\n".join(lines) + "\n"
    print(text)
    if args.out and args.out.suffix == ".json":
        each = {name: found["cpu_seconds"] / counts[name] * 1e6 for name, found in results.items()}
        write_json(args.out, {"num_sentences": len(sentences), "cpu_seconds_a_million": each})
    elif args.out:
        args.out.write_text(text)


if __name__ == "__main__":
    main()
