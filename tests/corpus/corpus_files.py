"""Files of every format, and what is read of them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa

from pipelines.corpus.items import Document, Rejected
from pipelines.corpus.options import ReadOptions
from pipelines.corpus.readers import read_documents
from pipelines.corpus.scan import scan


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
