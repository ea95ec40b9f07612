"""Random bytes through every reader: none crashes, good rows among them are kept, each row is kept or rejected."""

from __future__ import annotations

import random
from pathlib import Path

import corpus_files
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpus_files import write_table

from pipelines.corpus.format_list import FORMATS_OF_TEXT

NAMES = {
    "txt": "a.txt", "jsonl": "a.jsonl", "json": "a.json", "csv": "a.csv", "tsv": "a.tsv", "wikitext": "a.raw",
    "dialogue": "a.txt", "multidogo": "a.tsv", "e2e": "a.csv", "dart": "a.json", "glue": "a.tsv",
    "personachat": "a.txt", "conll": "a.conll",
}  # fmt: skip
HEADERS = {
    "csv": b"text,id\n", "tsv": b"text\tid\n", "e2e": b"mr,ref\n", "glue": b"sentence\tlabel\n",
    "multidogo": b"conversationId\tturnNumber\tutterance\tslot-labels\n",
}  # fmt: skip
WORDS = [
    b"a", b"text", b'"', b",", b"\t", b"{", b"}", b"[", b"]", b":", b"\\", b"\\u", b"d800", b"\xff", b"\x00", b"\r",
    b" ", b"1 ", b" = T = ", b"SYS:", b"<|endoftext|>", b'{"text":', b'"x"}', b"id-7\t", b"\xe2\x80\xa8", b"9" * 5000,
]  # fmt: skip

_CUT_JSON = b'"}' * 200 + b"\n"  # ends strings and objects, however many are open
# A good row behind junk: what ends a row that junk has opened, the row, and what the junk behind it goes to.
GOOD = {
    "txt": (b"", b"good %d\n", b""),
    "jsonl": (b"", b'{"text": "good %d"}\n', b""),
    "json": (_CUT_JSON, b'{"text": "good %d"}\n', b""),
    "csv": (b'x"\n', b"good %d,7\n", b""),
    "tsv": (b"", b"good %d\t7\n", b""),
    "wikitext": (b"\n", b" = T = \n\n good %d\n\n", b" = T = \n\n"),
    "dialogue": (b"", b"<|endoftext|>\nSYS: good %d\n", b"<|endoftext|>\n"),
    "multidogo": (b"", b"id-good\t1\tgood %d\tO O\n", b"id-cut\t1\tx\tO\n"),
    "e2e": (b'x"\n', b"name[T],good %d\n", b""),
    "dart": (_CUT_JSON, b'{"tripleset": [["a", "b", "c"]], "annotations": [{"text": "good %d"}]}\n', b""),
    "glue": (b"", b"good %d\tx\n", b""),
    "conll": (b"\n", b"good\tO\n%d\tB-NUM\n", b"\n"),
    "personachat": (b"", b"1 your persona: good %d\n", b"1 x\n"),
}
TEXTS = {
    "wikitext": " = T = \n\n good {}\n\n", "dialogue": "SYS: good {}", "multidogo": "USR: good {}",
    "e2e": "name : T || good {}", "dart": "a : b : c || good {}", "personachat": "PERSONA: good {}",
}  # fmt: skip


def junk(rng: random.Random) -> bytes:
    """One line."""
    if rng.random() < 0.3:
        return rng.randbytes(rng.randrange(40)).replace(b"\n", b"")
    return b"".join(rng.choices(WORDS, k=rng.randrange(12)))


def read(path: Path, format: str, rows: int = 997, **fields: object) -> tuple[list[str], int]:
    """Texts of the documents, and the number of rejections."""
    items = corpus_files.read(path, format, rows, **fields)
    kept = [item.text for item in corpus_files.documents(items)]
    return kept, len(items) - len(kept)


def through_every_reader(tmp_path: Path, num_rows: int) -> None:
    rng = random.Random(20)
    good = range(0, num_rows, 10)
    for format, name in NAMES.items():
        lines = [junk(rng) + b"\n" for _ in range(num_rows)]
        before, row, behind = GOOD[format]
        for at in good:
            lines[at] += before + row % at + behind
        data = b"".join(lines)
        path = tmp_path / format / name
        path.parent.mkdir()
        path.write_bytes(HEADERS.get(format, b"") + data)
        kept, rejected = read(path, format, txt_document="line", max_document_chars=20_000)
        expected = [TEXTS.get(format, "good {}").format(at) for at in good]
        wanted = set(expected)
        assert [text for text in kept if text in wanted] == expected, format
        assert rejected > 0, format
        if format in ("txt", "jsonl", "tsv"):  # a row is a line: blank ones are skipped, all others are counted
            lines = data.split(b"\n")
            visible = sum(bool(line.strip()) for line in lines)
            blank_text = sum(not line.decode(errors="ignore").strip() and bool(line.strip()) for line in lines)
            assert visible - blank_text <= len(kept) + rejected <= visible, format
    texts = [b"good %d" % at if at in good else junk(rng) for at in range(num_rows)]
    table = pa.table({"text": pa.array(texts, pa.binary())})
    kept, rejected = read(write_table(tmp_path / "a.parquet", table), "parquet")
    assert len(kept) + rejected == num_rows
    assert [text for text in kept if text.startswith("good")] == [f"good {at}" for at in good]
    assert read(write_table(tmp_path / "a.arrow", table), "huggingface") == (kept, rejected)


def test_every_format_is_fuzzed():
    assert NAMES.keys() == GOOD.keys()
    assert {*NAMES, "parquet", "huggingface", "mail", "mbox"} == {spec.name for spec in FORMATS_OF_TEXT}


def test_random_rows_through_every_reader(tmp_path):
    through_every_reader(tmp_path, 1_000)


@pytest.mark.slow
def test_a_hundred_thousand_random_rows_through_every_reader(tmp_path):
    through_every_reader(tmp_path, 100_000)


def test_bytes_flipped_in_columnar_and_compressed_files(tmp_path):
    rng = random.Random(3)
    table = pa.table({"text": [f"text {n}" for n in range(300)], "label": ["x", "y", None] * 100})
    write_table(tmp_path / "a.parquet", table)
    write_table(tmp_path / "a.arrow", table, 64)
    (tmp_path / "a.txt.zst").write_bytes(pa.compress(b"one line\n" * 500, codec="zstd", asbytes=True))
    for name, num_rows in (("a.parquet", 300), ("a.arrow", 300), ("a.txt.zst", 500)):
        good = (tmp_path / name).read_bytes()
        folder = tmp_path / "flipped"
        folder.mkdir(exist_ok=True)
        found = []
        for _ in range(60):
            data = bytearray(good)
            for _ in range(rng.randrange(1, 4)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            (folder / name).write_bytes(data)
            kept, rejected = read(folder / name, "auto", 50, txt_document="line")
            assert 0 < len(kept) + rejected <= num_rows + 1  # the damage is a rejection beside the rows
            found.append((len(kept), rejected))
        assert (num_rows, 0) in found  # bytes that mean nothing
        assert (0, 1) in found
        if name == "a.arrow":  # what stands before the damage is kept, and nothing is lost in silence
            assert {64, 128, 192, 256} <= {kept for kept, rejected in found if rejected == 1}
            assert all(rejected for kept, rejected in found if kept < num_rows)


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_a_column_whose_name_is_not_utf_8_is_damage(tmp_path, kind):
    """Guards: what Arrow raises for it is no error of Arrow's, and ended a run with a traceback."""
    table, path = pa.table({"text": ["a text"], "another": ["b"]}), tmp_path / f"a.{kind}"
    if kind == "parquet":
        pq.write_table(table, path, store_schema=False)
    else:
        write_table(path, table)
    path.write_bytes(path.read_bytes().replace(b"another", b"anothe\xff"))
    kept, rejected = read(path, "auto", 50)
    assert (len(kept), rejected) == (0, 1)
