"""Random bytes through every reader: none crashes, each row is counted as kept or rejected."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.corpus.formats import FORMATS
from pipelines.corpus.items import Document
from pipelines.corpus.options import ReadOptions
from pipelines.corpus.readers import read_documents
from pipelines.corpus.scan import scan

NAMES = {
    "txt": "a.txt", "jsonl": "a.jsonl", "json": "a.json", "csv": "a.csv", "tsv": "a.tsv", "wikitext": "a.raw",
    "dialogue": "a.txt", "multidogo": "a.tsv", "e2e": "a.csv", "dart": "a.json", "glue": "a.tsv",
    "personachat": "a.txt",
}  # fmt: skip
HEADERS = {
    "csv": b"text,id\n", "tsv": b"text\tid\n", "e2e": b"mr,ref\n", "glue": b"sentence\tlabel\n",
    "multidogo": b"conversationId\tturnNumber\tutterance\tslot-labels\n",
}  # fmt: skip
WORDS = [
    b"a", b"text", b'"', b",", b"\t", b"{", b"}", b"[", b"]", b":", b"\\", b"\\u", b"d800", b"\xff", b"\x00", b"\r",
    b" ", b"1 ", b" = T = ", b"SYS:", b"<|endoftext|>", b'{"text":', b'"x"}', b"id-7\t", b"\xe2\x80\xa8", b"9" * 5000,
]  # fmt: skip


def junk(rng: random.Random) -> bytes:
    """One line."""
    if rng.random() < 0.3:
        return rng.randbytes(rng.randrange(40)).replace(b"\n", b"")
    return b"".join(rng.choices(WORDS, k=rng.randrange(12)))


def counts(path: Path, format: str, options: ReadOptions, rows: int = 997) -> tuple[int, int, int]:
    """Rows indexed, documents, and rejections."""
    parts = scan(
        [path.name], base_dir=path.parent, format=format, options=options, partition_documents=rows, secret=b"k"
    )
    kept = rejected = 0
    for part in parts:
        for piece in part.pieces:
            for item in read_documents(piece, options):
                kept += isinstance(item, Document)
                rejected += not isinstance(item, Document)
    return len(parts), kept, rejected


def through_every_reader(tmp_path: Path, num_rows: int) -> None:
    rng = random.Random(20)
    for format, name in NAMES.items():
        lines = [junk(rng) for _ in range(num_rows)]
        path = tmp_path / format / name
        path.parent.mkdir()
        path.write_bytes(HEADERS.get(format, b"") + b"\n".join(lines) + b"\n")
        options = ReadOptions(txt_document="line", max_document_chars=20_000)
        _, kept, rejected = counts(path, format, options)
        assert rejected > 0, format
        if format in ("txt", "jsonl", "tsv"):  # a row is a line: blank ones are skipped, all others are counted
            visible = sum(bool(line.strip()) for line in lines)
            blank_text = sum(not line.decode(errors="ignore").strip() and bool(line.strip()) for line in lines)
            assert visible - blank_text <= kept + rejected <= visible, format
    texts = [junk(rng) for _ in range(num_rows)]
    pq.write_table(pa.table({"text": pa.array(texts, pa.binary())}), tmp_path / "a.parquet")
    _, kept, rejected = counts(tmp_path / "a.parquet", "parquet", ReadOptions())
    assert kept + rejected == num_rows
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as file:
        table = pa.table({"text": pa.array(texts, pa.binary())})
        with pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)
    assert counts(tmp_path / "a.arrow", "huggingface", ReadOptions())[1:] == (kept, rejected)


def test_every_format_is_fuzzed():
    assert {*NAMES, "parquet", "huggingface"} == set(FORMATS)


def test_random_rows_through_every_reader(tmp_path):
    through_every_reader(tmp_path, 1_000)


@pytest.mark.slow
def test_a_hundred_thousand_random_rows_through_every_reader(tmp_path):
    through_every_reader(tmp_path, 100_000)


def test_bytes_flipped_in_columnar_and_compressed_files(tmp_path):
    rng = random.Random(3)
    table = pa.table({"text": [f"text {n}" for n in range(300)], "label": ["x", "y", None] * 100})
    pq.write_table(table, tmp_path / "a.parquet")
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=64)
    (tmp_path / "a.txt.zst").write_bytes(pa.compress(b"one line\n" * 500, codec="zstd", asbytes=True))
    for name in ("a.parquet", "a.arrow", "a.txt.zst"):
        good = (tmp_path / name).read_bytes()
        folder = tmp_path / "flipped"
        folder.mkdir(exist_ok=True)
        for _ in range(60):
            data = bytearray(good)
            for _ in range(rng.randrange(1, 4)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            (folder / name).write_bytes(data)
            _, kept, rejected = counts(folder / name, "auto", ReadOptions(txt_document="line"), rows=50)
            assert kept + rejected > 0
