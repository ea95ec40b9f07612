"""Files that contestants of `benchmarks/dedup.py` read and write, with numpy and pyarrow only, as peers have them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

RATE = 1e-6
"""Rate of false positives of every Bloom filter."""
DOCUMENT_ROWS = 100
"""Sentences in each document."""


def parts(folder: Path) -> list[str]:
    return sorted(path.name.removeprefix("split-") for path in folder.glob("split-*"))


def num_rows(folder: Path) -> int:
    return sum(pq.read_metadata(file).num_rows for file in folder.glob("split-*/sentences.parquet"))


def texts_of(folder: Path) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yields each batch of rows with the name of its partition."""
    for part in parts(folder):
        with pq.ParquetFile(folder / f"split-{part}" / "sentences.parquet") as file:
            for batch in file.iter_batches(16_384, columns=["doc_id", "sentence_index", "text"]):
                yield part, batch


def write_masks(folder: Path, decide: Callable[[pa.RecordBatch], Sequence[bool] | np.ndarray]) -> np.ndarray:
    """Writes ``is_duplicate`` beside the rows, as ``decide(batch)`` says; returns the duplicate rows."""
    rows, writer, current, at = [], None, None, 0
    schema = pa.schema([("doc_id", pa.string()), ("sentence_index", pa.uint32()), ("is_duplicate", pa.bool_())])
    for part, batch in texts_of(folder):
        if part != current:
            if writer:
                writer.close()
            current = part
            writer = pq.ParquetWriter(folder / f"mask-{part}.parquet", schema, compression="zstd")
        mask = np.asarray(decide(batch), dtype=bool)
        writer.write_batch(pa.record_batch([batch["doc_id"], batch["sentence_index"], pa.array(mask)], schema=schema))
        rows.append(np.flatnonzero(mask) + at)
        at += len(mask)
    writer.close()
    return np.concatenate(rows)


def nothing(folder: Path) -> np.ndarray:
    """Reads and writes the same files in batches and decides nothing, as a baseline of memory."""
    return write_masks(folder, lambda batch: np.zeros(len(batch), dtype=bool))


def link(folder: Path, work: Path) -> None:
    """Links the inputs in a folder of their own, so that no run sees the outputs of another."""
    for path in folder.iterdir():
        (work / path.name).symlink_to(path)
    # dolma looks for the folder's name in the real path.
    (work / "documents").unlink()
    (work / "documents").mkdir()
    for path in (folder / "documents").iterdir():
        os.link(path, work / "documents" / path.name)


def peak_bytes() -> int:
    """Returns the peak resident size of this process; Linux only (getrusage would carry over the parent's)."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024
