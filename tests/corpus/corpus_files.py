"""Files of every format, and what is read of them."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.corpus.formats import suffix_of
from pipelines.corpus.items import Document, Rejected
from pipelines.corpus.options import ReadOptions
from pipelines.corpus.readers import read_documents
from pipelines.corpus.recognition import Head, Reading, Recogniser
from pipelines.corpus.scan import scan

T = TypeVar("T")


def dump(kind: str, name: str, content: object, folder: Path) -> Path:
    """Writes a file, compressed if its name says so."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content if isinstance(content, bytes) else str(content).encode()
    if kind == ".gz":
        data = gzip.compress(data)
    elif kind == ".zst":
        data = pa.compress(data, codec="zstd", asbytes=True)
    path = path.with_name(path.name + kind)
    path.write_bytes(data)
    return path


def write_table(path: Path, table: pa.Table, rows: int | None = None) -> Path:
    """Writes a table as Parquet or as a stream of Arrow, as the suffix says, with so many rows in each part."""
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=rows)
    else:
        with pa.ipc.new_stream(str(path), table.schema) as writer:
            writer.write_table(table, max_chunksize=rows)
    return path


def head_of(name: str, data: bytes, limit: int = 1 << 20) -> Head:
    """The beginning of a file, as recognisers see it."""
    return Head(Path(name), name, suffix_of(name), data[:limit], len(data) <= limit)


def readings_of(recognisers: Iterable[Recogniser], name: str, data: bytes, limit: int = 1 << 20) -> list[Reading]:
    """What recognisers find in the beginning of a file, best first."""
    head = head_of(name, data, limit)
    found = [reading for recognise in recognisers if (reading := recognise(head)) is not None]
    return sorted(found, key=lambda reading: -reading.score)


def peak_of(work: Callable[[], T]) -> tuple[T, int]:
    """The result of a function, and the most bytes that Python held meanwhile."""
    tracemalloc.start()
    try:
        return work(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def read(path: Path, format: str = "auto", rows: int = 1000, **fields: object) -> list[Document | Rejected]:
    options = ReadOptions(**fields)
    parts = scan(
        [path.name], base_dir=path.parent, format=format, options=options, partition_documents=rows, secret=b"k"
    )
    return [item for part in parts for piece in part.pieces for item in read_documents(piece, options)]


def rejections(items: list[Document | Rejected]) -> list[tuple[int, str]]:
    return [(item.row, item.reason) for item in items if isinstance(item, Rejected)]


def documents(items: list[Document | Rejected]) -> list[Document]:
    return [item for item in items if isinstance(item, Document)]
