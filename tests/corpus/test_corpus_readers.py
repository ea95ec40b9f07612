import json
import resource
from dataclasses import replace
from pathlib import Path

import corpus_files
import pytest

from pipelines.context import Piece
from pipelines.corpus.items import Document, GoldSpan, Rejected
from pipelines.corpus.options import ReadOptions
from pipelines.corpus.readers import read_documents
from pipelines.corpus.scan import scan
from pipelines.errors import InputError


def pieces(path: Path, rows: int = 1000) -> list[Piece]:
    parts = scan([path.name], base_dir=path.parent, partition_documents=rows, secret=b"k")
    return [piece for part in parts for piece in part.pieces]


def read(tmp_path: Path, name: str, data: bytes, **options) -> list[Document | Rejected]:
    return corpus_files.read(corpus_files.dump("", name, data, tmp_path), **options)


def jsonl(tmp_path: Path, *rows: object, **options) -> list[Document | Rejected]:
    lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
    return read(tmp_path, "a.jsonl", b"\n".join(lines) + b"\n", **options)


def test_a_full_row(tmp_path):
    row = {
        "text": "Ann Lee 👋",
        "id": 7,
        "domain": "chat",
        "fold": "dev",
        "label": 1,
        "spans": [{"start": 0, "end": 7, "label": "NAME"}],
        "other": {"x": float("nan")},
    }
    (document,) = jsonl(tmp_path, row)
    assert document == Document(
        name="a.jsonl",
        row=1,
        text="Ann Lee 👋",
        source_id="7",
        domain="chat",
        fold="valid",
        label="1",
        gold=(GoldSpan(0, 7, "NAME"),),
    )


def test_missing_and_null_optional_fields_are_fine(tmp_path):
    found = jsonl(
        tmp_path, {"text": "x"}, {"text": "y", "id": None, "spans": None, "fold": None}, {"text": "z", "spans": []}
    )
    assert [d.gold for d in found] == [None, None, ()]
    assert all(isinstance(d, Document) and d.source_id is None for d in found)


BAD_ROWS = [
    (b'{"text": "caf\xe9"}', "undecodable"),
    (b'{"text": "\\ud800 half"}', "undecodable"),
    (b'{"text": "x", "domain": "\\udfff"}', "undecodable"),
    (b'{"text": "a\\u0000b"}', "nul"),
    (b'{"text": "a"}\0', "nul"),
    (b'{"text": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}', "over_long"),
    (b'{"text": "a"', "bad_json"),
    (b"[" * 100_000, "bad_json"),
    (b'{"id": ' + b"1" * 5000 + b', "text": "a"}', "bad_json"),
    (b'["text"]', "not_an_object"),
    (b'"text"', "not_an_object"),
    (b'{"body": "a"}', "missing_text"),
    (b'{"text": null}', "empty"),
    (b'{"text": 5}', "wrong_type"),
    (b'{"text": "a", "id": [1]}', "wrong_type"),
    (b'{"text": "a", "id": 1.5}', "wrong_type"),
    (b'{"text": "a", "id": true}', "wrong_type"),
    (b'{"text": "a", "label": NaN}', "wrong_type"),
    (b'{"text": "a", "fold": "holdout"}', "bad_fold"),
    (b'{"text": "a", "fold": 1}', "bad_fold"),
    (b'{"text": "a", "spans": {}}', "bad_spans"),
    (b'{"text": "a", "spans": [[0, 1]]}', "bad_spans"),
    (b'{"text": "a", "spans": [{"start": 0, "end": 2, "label": "X"}]}', "bad_spans"),
    (b'{"text": "a", "spans": [{"start": false, "end": true, "label": "X"}]}', "bad_spans"),
    (b'{"text": "a", "spans": [{"start": 0, "end": 1, "label": ""}]}', "bad_spans"),
    (b'{"text": "a", "spans": [{"start": 0, "end": 1}]}', "bad_spans"),
    (b'{"text": "a b", "spans": [{"start": 1, "end": 2, "label": "X"}]}', "bad_spans"),
    (b'{"text": ""}', "empty"),
    (b'{"text": " \\n\\u00a0"}', "empty"),
]


@pytest.mark.parametrize(("row", "reason"), BAD_ROWS)
def test_bad_rows_are_rejected_with_reason_and_good_rows_kept(tmp_path, row, reason):
    good = {"text": "good"}
    before, bad, after = jsonl(tmp_path, good, row, good, max_document_chars=30)
    assert isinstance(bad, Rejected)
    assert (bad.reason, bad.row, bad.name, bad.num_bytes) == (reason, 2, "a.jsonl", len(row) + 1)
    assert bad.detail.endswith(".")
    assert isinstance(before, Document)
    assert isinstance(after, Document)
    assert after.row == 3


def test_blank_lines_are_skipped_and_keep_the_row_numbers(tmp_path):
    found = read(tmp_path, "a.jsonl", b'\n{"text": "a"}\r\n  \r\n{"text": "b"}')
    assert [(d.row, d.text) for d in found] == [(2, "a"), (4, "b")]


def test_a_byte_order_mark_is_dropped_once(tmp_path):
    bom = b"\xef\xbb\xbf"
    assert read(tmp_path, "a.jsonl", bom + b'{"text": "a"}\n')[0].text == "a"
    assert read(tmp_path, "a.txt", bom + b"a " + bom)[0].text == "a \ufeff"
    assert [d.text for d in read(tmp_path, "b.txt", bom + b"\n\na\n\nb", txt_document="paragraph")] == ["a", "b"]


def test_txt_documents(tmp_path):
    data = b"one\r\ntwo\r\n \t\r\nthree\n\n\n"
    assert [d.text for d in read(tmp_path, "a.txt", data)] == [data.decode()]
    lines = read(tmp_path, "a.txt", data, txt_document="line")
    assert [(d.row, d.text) for d in lines] == [(1, "one"), (2, "two"), (4, "three")]
    paragraphs = read(tmp_path, "a.txt", data, txt_document="paragraph")
    assert [(d.row, d.text) for d in paragraphs] == [(1, "one\r\ntwo"), (2, "three")]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"a\0b", "nul"),
        ("hé".encode("utf-16"), "undecodable"),
        (b"a" * 31, "over_long"),
    ],
)
def test_bad_txt_files(tmp_path, data, reason):
    (bad,) = read(tmp_path, "a.txt", data, max_document_chars=30)
    assert isinstance(bad, Rejected)
    assert (bad.reason, bad.num_bytes) == (reason, len(data))
    if reason == "over_long":
        assert 'corpus.txt_document = "paragraph"' in bad.detail
        assert "corpus.max_document_chars" in bad.detail


def test_the_longest_allowed_document_passes_however_it_is_encoded(tmp_path):
    text = "😀" * 30
    for row in (json.dumps({"text": text}), json.dumps({"text": text}, ensure_ascii=False)):
        (found,) = jsonl(tmp_path, row.encode(), max_document_chars=30)
        assert isinstance(found, Document)
    (found,) = jsonl(tmp_path, {"text": "😀" * 300_000}, max_document_chars=300_000)
    assert isinstance(found, Document)
    assert isinstance(read(tmp_path, "a.txt", text.encode(), max_document_chars=30)[0], Document)
    for kind in ("line", "paragraph"):
        (found,) = read(tmp_path, "a.txt", text.encode() + b"\r\n", max_document_chars=30, txt_document=kind)
        assert isinstance(found, Document)


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl"])
def test_a_huge_sparse_file_takes_little_memory(tmp_path, name):
    path = tmp_path / name
    with path.open("wb") as file:
        file.truncate(120 << 20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (bad,) = [d for piece in pieces(path) for d in read_documents(piece, ReadOptions(max_document_chars=100_000))]
    assert isinstance(bad, Rejected)
    assert (bad.reason, bad.num_bytes) == ("over_long", 120 << 20)
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) < 60 << 10  # kilobytes


def test_a_long_line_costs_only_itself(tmp_path):
    long = b'{"text": "' + b"x" * (50 << 20) + b'"}'
    first, bad, last = jsonl(tmp_path, {"text": "a"}, long, {"text": "b"})
    assert (first.text, last.text) == ("a", "b")
    assert isinstance(bad, Rejected)
    assert (bad.reason, bad.row) == ("over_long", 2)


def test_a_file_that_changed_since_it_was_indexed_is_noticed(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("first")
    (piece,) = pieces(path)
    path.write_text("other")
    with pytest.raises(InputError, match="changed while"):
        list(read_documents(piece, ReadOptions()))
    path.unlink()
    with pytest.raises(InputError, match="no longer be read"):
        list(read_documents(piece, ReadOptions()))


def test_a_piece_in_the_middle_of_a_file(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": f"t{i}"}) + "\n" for i in range(7)))
    middle = pieces(path, rows=3)[1]
    assert [(d.row, d.text) for d in read_documents(middle, ReadOptions())] == [(4, "t3"), (5, "t4"), (6, "t5")]
    with pytest.raises(InputError):
        list(read_documents(replace(middle, digest="0" * 64), ReadOptions()))
