"""A peer's deduplication, measured in this process; `benchmarks/dedup.py` runs it in the peer's own environment.

    PYTHON benchmarks/dedup_peers.py dolma|rbloom|datatrove FOLDER [--idle]

The peer is imported before the clock starts. Writes the duplicate rows to ``PEER.npy`` beside the folder, and prints
seconds and peak memory as JSON. With ``--idle`` the peer is imported and decides nothing.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from dedup_files import DOCUMENT_ROWS, RATE, link, nothing, num_rows, peak_bytes, texts_of, write_masks


def rbloom(folder: Path) -> np.ndarray:
    from rbloom import Bloom

    seen = Bloom(num_rows(folder), RATE)

    def decide(batch: pa.RecordBatch) -> list[bool]:
        return [text in seen or seen.add(text) is not None for text in batch["text"].to_pylist()]

    return write_masks(folder, decide)


def dolma(folder: Path) -> np.ndarray:
    from dolma import deduper

    (folder / "work").mkdir()
    deduper(
        {
            "documents": [str(folder / "documents" / "*.jsonl.gz")],
            "dedupe": {
                "name": "dup",
                "paragraphs": {"attribute_name": "dup", "paragraph_separator": "\n"},
                "skip_empty": False,
                "document_dir": "documents",
                "num_partitions": 1,
                "partition_index": 0,
                "min_length": 0,
                "min_words": 0,
                "file_partition": False,
            },
            "bloom_filter": {
                "file": str(folder / "bloom.bin"),
                "read_only": False,
                "estimated_doc_count": num_rows(folder),
                "desired_false_positive_rate": RATE,
                "size_in_bytes": 0,
            },
            "work_dir": {"input": str(folder / "work"), "output": str(folder / "work")},
            "compression": {},
            "processes": 1,
            "dryrun": False,
            "is_s3_volume": False,
        }
    )
    return np.empty(0, dtype=np.int64)  # `dolma_rows` reads them, outside the clock


def dolma_rows(folder: Path) -> np.ndarray:
    """Returns the rows of the spans that dolma wrote."""
    rows, at = [], 0
    for path in sorted((folder / "documents").iterdir()):
        with gzip.open(path, "rt") as texts, gzip.open(folder / "attributes" / "dup" / path.name, "rt") as found:
            for line, spans in zip(texts, found, strict=True):
                lengths = [len(text) + 1 for text in json.loads(line)["text"].split("\n")]
                starts = dict(zip(np.cumsum([0, *lengths[:-1]]).tolist(), range(len(lengths)), strict=True))
                attributes = json.loads(spans)["attributes"]
                rows += [at + starts[start] for start, _, score in attributes.get("dup", []) if score == 1]
                at += len(lengths)
    return np.array(rows, dtype=np.int64)


def datatrove(folder: Path) -> np.ndarray:
    """Runs datatrove's three steps on documents in memory; each sentence is a document, as in no-span dedup."""
    from datatrove.data import Document
    from datatrove.pipeline.dedup.sentence_dedup import (
        SentDedupConfig,
        SentenceDedupFilter,
        SentenceDedupSignature,
        SentenceFindDedups,
    )
    from datatrove.utils.text import TextNormConfig

    plain = TextNormConfig(
        lowercase=False,
        norm_whitespace=False,
        remove_punctuation=False,
        norm_unicode_diacritics=False,
        norm_numbers=False,
    )
    config = SentDedupConfig(
        n_sentences=1,
        split_sentences=False,
        only_dedup_in_index=False,
        min_doc_words=0,
        min_num_sentences=0,
        norm_config=plain,
    )

    def documents() -> Iterator[Document]:
        lines: list[str] = []
        for _, batch in texts_of(folder):
            lines += batch["text"].to_pylist()
            while len(lines) >= DOCUMENT_ROWS:
                yield Document(text="\n".join(lines[:DOCUMENT_ROWS]), id="x")
                lines = lines[DOCUMENT_ROWS:]
        if lines:
            yield Document(text="\n".join(lines), id="x")

    for _ in SentenceDedupSignature(str(folder / "sigs"), config=config).run(documents()) or ():
        pass
    SentenceFindDedups(str(folder / "sigs"), str(folder / "dups"), config=config).run()
    for _ in SentenceDedupFilter(str(folder / "dups"), config=config).run(documents()):
        pass
    return np.empty(0, dtype=np.int64)


def datatrove_rows(folder: Path) -> np.ndarray:
    """Returns the rows that datatrove's second step lists."""
    (path,) = (folder / "dups").rglob("*.c4_dup")
    found = np.frombuffer(path.read_bytes(), dtype=np.dtype([("doc", "<u4"), ("sentence", "<u2")]))
    return np.sort(found["doc"].astype(np.int64) * DOCUMENT_ROWS + found["sentence"])


PEERS = {"dolma": dolma, "rbloom": rbloom, "datatrove": datatrove}
AFTER = {"dolma": dolma_rows, "datatrove": datatrove_rows}
MODULES = {
    "dolma": ("dolma",),
    "rbloom": ("rbloom",),
    "datatrove": ("datatrove.pipeline.dedup.sentence_dedup", "datatrove.utils.hashes.xxhash"),
}
"""Modules that each peer imports."""


def one(peer: str, folder: Path, *, is_idle: bool) -> dict[str, float]:
    """Runs a peer, or nothing beside it, in this process, on one core."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory(dir=folder.parent) as top:
        work = Path(top)
        link(folder, work)
        for module in MODULES[peer]:
            importlib.import_module(module)
        start, cpu = time.perf_counter(), time.process_time()
        rows = nothing(work) if is_idle else PEERS[peer](work)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        peak = peak_bytes()
        if not is_idle:
            np.save(folder.parent / f"{peer}.npy", AFTER[peer](work) if peer in AFTER else rows)
    return {"seconds": seconds, "cpu_seconds": cpu, "peak_bytes": peak}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--idle", action="store_true")
    args = parser.parse_args()
    print(json.dumps(one(args.peer, args.folder, is_idle=args.idle)))
