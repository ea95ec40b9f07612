"""Columns of csv and Parquet files: names, quotes, values that no column should hold, row groups of any size."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpus_files import documents, dump, read, rejections, write_table

from pipelines.corpus.columnar import read_rows
from pipelines.corpus.formats import index_settings
from pipelines.corpus.options import ReadOptions
from pipelines.corpus.scan import scan


def test_column_names_are_mapped(tmp_path):
    content = 'Body,Key,Where,Spans\n"Ann, hi",k1,shop,"[{""start"": 0, ""end"": 3, ""label"": ""name""}]"\n'
    path = dump("", "a.csv", content, tmp_path)
    (item,) = read(path, text_field="Body", id_field="Key", domain_field="Where", gold_field="Spans")
    assert (item.text, item.source_id, item.domain) == ("Ann, hi", "k1", "shop")
    assert [(g.start, g.end, g.label) for g in item.gold] == [(0, 3, "name")]


def test_quoting_can_be_chosen(tmp_path):
    path = dump("", "a.csv", 'text,id\n"open,1\nb,2\n', tmp_path)
    assert rejections(read(path)) == [(1, "bad_columns")]
    assert [d.text for d in read(path, quoting="none")] == ['"open', "b"]


@pytest.mark.parametrize("mark", [";", "|", "tab", ","])
@pytest.mark.parametrize("rows", [1, 2, 9])
def test_columns_may_stand_between_other_marks(tmp_path, mark, rows):
    """Whole and in pieces, with quoted marks and line breaks; with commas it is what it is by default."""
    sign = "\t" if mark == "tab" else mark
    texts = [f'a {sign} "b"', "c\nd", "e", f"f{sign}\n{sign}g"]
    quoted = (f'{n}{sign}"' + text.replace('"', '""') + '"\n' for n, text in enumerate(texts))
    path = dump("", f"{ord(sign)}.csv", f"id{sign}text\n{''.join(quoted)}", tmp_path)
    items = read(path, rows=rows, delimiter=mark, quoting="double")
    assert [(d.source_id, d.text) for d in items] == [(str(n), text) for n, text in enumerate(texts)]
    assert index_settings("csv", "a.csv", ReadOptions(delimiter=",")) == index_settings("csv", "a.csv", ReadOptions())
    known = {index_settings("csv", "a.csv", ReadOptions(delimiter=m, quoting="double")) for m in (",", ";", "|", "tab")}
    assert len(known) == 4
    assert index_settings("multidogo", "a.tsv", ReadOptions(delimiter=";")) == "conversation"


@pytest.mark.parametrize(
    ("content", "kept"),
    [
        ('id,text\n1,"open\n2,b\n3,c\n', []),
        ('text\n"open\nb\n', []),
        ('id,text\n1,"open\n2,"b"\n3,c\n', ["c"]),  # up to the next quote
        ('id,text\n1,"shut" here\n2,b\n', ["b"]),
        ("id,text\n1,one\rtwo\n2,b\n", ["b"]),
        ('id,text\n1,"one\rtwo"\n2,in "quotes"\n3,""\n', ["one\rtwo", 'in "quotes"']),
    ],
)
def test_a_stray_quote_makes_no_text_of_several_rows(tmp_path, content, kept):
    items = read(dump("", "a.csv", content, tmp_path))
    assert [d.text for d in documents(items)] == kept
    assert len(rejections(items)) == 1


def test_a_row_that_a_stray_quote_makes_says_how_far_it_runs(tmp_path):
    items = read(dump("", "a.csv", 'id,text\n1,"Hello\n2,there\n3,you\n', tmp_path))
    assert "runs on over 3 lines" in items[0].detail


def test_half_a_header_loses_no_columns_in_silence(tmp_path):
    names = ",".join(["text", *(f"{'x' * 60}{n}" for n in range(1_200))])
    row = ",".join(["hello", *["1"] * 1_200])
    items = read(dump("", "a.csv", f"{names}\n{row}\nhello,1\n", tmp_path))
    assert not documents(items)
    assert len(rejections(items)) == 3


TABLE = {
    "text": ["one", "two", None, "four", "five"],
    "id": [1, 2, 3, 4, 5],
    "label": ["a", None, "c", "d", "e"],
    "unused": [{"x": 1}] * 5,
}


@pytest.mark.parametrize("format", ["parquet", "arrow stream", "arrow file"])
def test_columnar_files(tmp_path, format):
    table = pa.table(TABLE)
    path = tmp_path / ("a.parquet" if format == "parquet" else "data-00000-of-00001.arrow")
    if format == "arrow file":
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table, max_chunksize=2)
    else:
        write_table(path, table, 2)
    items = read(path)
    assert [(d.text, d.source_id, d.label) for d in documents(items)] == [
        ("one", "1", "a"),
        ("two", "2", None),
        ("four", "4", "d"),
        ("five", "5", "e"),
    ]
    assert rejections(items) == [(3, "empty")]
    for rows in (1, 2, 3):
        assert read(path, rows=rows) == items
    assert rejections(read(path, text_field="absent", id_field="no", label_field="no")) == [
        (n, "missing_text") for n in range(1, 6)
    ]


def test_columnar_digest_is_of_the_mapped_values_only(tmp_path):
    def digests(**changed):
        pq.write_table(pa.table({**TABLE, **changed}), tmp_path / "a.parquet", row_group_size=1 + len(changed))
        parts = scan(["a.parquet"], base_dir=tmp_path, partition_documents=2, secret=b"k")
        return [piece.digest for part in parts for piece in part.pieces]

    first = digests()
    assert digests(unused=["other"] * 5) == first
    assert digests(id=[1, 2, 3, 4, 6])[:2] == first[:2]
    assert digests(id=[1, 2, 3, 4, 6])[2] != first[2]


def test_text_that_is_not_utf8_in_a_table(tmp_path):
    column = pa.Array.from_buffers(
        pa.string(), 3, [None, pa.array([0, 2, 4, 6], pa.int32()).buffers()[1], pa.py_buffer(b"ab\xff\xfecd")]
    )
    pq.write_table(pa.table({"text": column, "id": ["x", "y", "z"]}), tmp_path / "a.parquet")
    items = read(tmp_path / "a.parquet")
    assert [d.text for d in documents(items)] == ["ab", "cd"]
    assert rejections(items) == [(2, "undecodable")]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, 123_456_789_123_456_789], pa.timestamp("ns")),
        pa.array([0, 2**62], pa.timestamp("us")),
        pa.array([0, 2**30], pa.date32()),
        pa.array([0, 0], pa.timestamp("us", tz="Nowhere/Bad")),
        pa.StructArray.from_arrays([pa.array([1, 2]), pa.array([1, 2])], names=["x", "x"]),
    ],
    ids=lambda column: str(column.type),
)
@pytest.mark.parametrize("field", ["text", "id", "label", "fold", "spans"])
@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_values_that_python_cannot_hold_are_rejected(tmp_path, column, field, name):
    table = pa.table({**({} if field == "text" else {"text": ["a", "b"]}), field: column})
    assert [item.reason for item in read(write_table(tmp_path / name, table))] == [
        {"fold": "bad_fold", "spans": "bad_spans"}.get(field, "wrong_type")
    ] * 2


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_the_last_of_two_columns_of_one_name_is_read(tmp_path, name):
    table = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["text", "text"])
    assert [item.text for item in read(write_table(tmp_path / name, table))] == ["b"]


def test_a_large_row_group_is_not_held_in_memory(tmp_path):
    texts = [random.Random(n).randbytes(400).hex() for n in range(20_000)]
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet", use_dictionary=False, compression="none")
    before = pa.total_allocated_bytes()
    rows = read_rows(tmp_path / "a.parquet", "parquet", ReadOptions())
    assert next(rows)["text"] == texts[0]
    assert pa.total_allocated_bytes() - before < 8 << 20  # the column takes 16 MB
    rows.close()
