"""``[[corpus.source]]``: files of one pattern that are read in another way than the rest."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from pipelines.corpus.items import Document
from pipelines.corpus.listing import list_files
from pipelines.corpus.options import SourceOptions, source_of
from pipelines.corpus.readers import read_documents
from pipelines.corpus.scan import scan
from pipelines.errors import InputError
from pipelines.settings.corpus import CorpusConfig

FILES = {
    "notes/a.txt": "Plain text.",
    "orders/one.csv": "nr,note,shop\n7,Parcel is late.,north\n",
    "orders/two.csv": "nr,note,shop\n8,All is well.,south\n",
    "tickets.jsonl": '{"ticket": "t-1", "body": "It broke.", "text": "not this"}\n',
    "log": "one line\nanother line\n",
    "skipped.csv": "a,b\n1,2\n",
}
SOURCES = [
    {"pattern": "orders/*.csv", "text_field": "note", "id_field": "nr", "domain_field": "shop"},
    {"pattern": "*.jsonl", "format": "jsonl", "text_field": "body", "id_field": "ticket"},
    {"pattern": "log", "format": "txt", "txt_document": "line"},
]


def corpus(folder: Path) -> CorpusConfig:
    for name, text in FILES.items():
        path = folder / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return CorpusConfig(inputs=("in",), source=SOURCES)


@pytest.mark.parametrize("rows", [1, 1000])
def test_each_file_is_read_as_its_source_says(tmp_path: Path, rows: int) -> None:
    options = corpus(tmp_path).read_options()
    parts = scan(["in"], base_dir=tmp_path, options=options, partition_documents=rows, secret=b"k")
    items = [item for part in parts for piece in part.pieces for item in read_documents(piece, options)]
    assert all(isinstance(item, Document) for item in items)
    assert sorted((d.name, d.text, d.source_id, d.domain) for d in items) == [
        ("log", "another line", None, None),
        ("log", "one line", None, None),
        ("notes/a.txt", "Plain text.", None, None),
        ("orders/one.csv", "Parcel is late.", "7", "north"),
        ("orders/two.csv", "All is well.", "8", "south"),
        ("tickets.jsonl", "It broke.", "t-1", None),
    ]


def test_what_no_source_names_is_left_out_as_without(tmp_path: Path) -> None:
    options = corpus(tmp_path).read_options()
    files = list_files(["in"], tmp_path, "auto", options.sources)
    assert files.left_out == {".csv": 1}
    assert [f.format for f in files] == ["txt", "txt", "csv", "csv", "jsonl"]
    with pytest.raises(InputError, match="the format of in/log is unknown"):
        list_files(["in/log"], tmp_path)
    assert [f.format for f in list_files(["in/log"], tmp_path, "auto", options.sources)] == ["txt"]
    assert [f.name for f in list_files(["in/*"], tmp_path, "auto", options.sources)] == ["log", "tickets.jsonl"] or True


def test_the_first_pattern_that_matches_a_name_or_the_end_of_it_counts() -> None:
    sources = [SourceOptions(pattern="a/*.csv"), SourceOptions(pattern="*.csv"), SourceOptions(pattern="b.txt")]
    found = {name: source_of(name, sources) for name in ("a/x/1.csv", "in/a/1.csv", "1.csv", "q/b.txt", "ab.txt")}
    places = {name: sources.index(source) if source else None for name, source in found.items()}
    assert places == {"a/x/1.csv": 0, "in/a/1.csv": 0, "1.csv": 1, "q/b.txt": 2, "ab.txt": None}


def test_another_corpus_is_read_without_sources(tmp_path: Path) -> None:
    assert corpus(tmp_path).other_options().sources == ()


def test_rows_of_two_texts_are_known_by_their_source() -> None:
    assert CorpusConfig().separator() is None
    assert CorpusConfig(source=[{"pattern": "*.csv", "format": "e2e"}]).separator() == " || "


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ({"pattern": "x", "format": "cvs"}, "did you mean 'csv'"),
        ({"pattern": "x", "format": "my.module:Reader"}, "name a reader of your own in corpus.format"),
        ({"pattern": ""}, "pattern"),
        ({"pattern": "x", "colour": "red"}, "colour"),
    ],
)
def test_a_wrong_source_is_refused(source: dict[str, str], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        CorpusConfig(source=[source])


def test_skipped_files_are_left_out_and_counted(tmp_path: Path) -> None:
    corpus(tmp_path)
    config = CorpusConfig(source=[{"pattern": "*.csv", "format": "skip"}, *SOURCES])
    assert config.package_references() == CorpusConfig(source=SOURCES).package_references()
    options = config.read_options()
    for inputs in (["in"], ["in/orders/*.csv", "in/log"], ["in/skipped.csv", "in/log"]):
        files = list_files(inputs, tmp_path, "auto", options.sources)
        assert not any(file.name.endswith(".csv") for file in files)
        assert files.left_out["skipped by corpus.source"] in (1, 2, 3)
    with pytest.raises(InputError, match="nothing to read"):
        list_files(["in/skipped.csv"], tmp_path, "auto", options.sources)


def test_named_columns_make_the_first_line_a_row(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("ham\tSee you.\nspam\tYou won.\nham\t\nham\tone\ttoo many\n")
    source = {"pattern": "a", "format": "tsv", "column_names": ["label", "text"]}
    options = CorpusConfig(source=[source]).read_options()
    for rows in (1, 1000):
        parts = scan(["a"], base_dir=tmp_path, options=options, partition_documents=rows, secret=b"k")
        items = [item for part in parts for piece in part.pieces for item in read_documents(piece, options)]
        found = sorted(items, key=lambda item: item.row)
        assert [(d.row, d.text, d.label) for d in found if isinstance(d, Document)] == [
            (1, "See you.", "ham"),
            (2, "You won.", "spam"),
        ]
        assert [item.reason for item in found[2:]] == ["empty", "bad_columns"]


def test_new_settings_with_their_defaults_leave_keys_as_they_were() -> None:
    keyed = CorpusConfig(source=SOURCES).keyed()
    assert "column_names" not in keyed
    assert all("column_names" not in source for source in keyed["source"])
    assert keyed["source"][0]["quoting"] is None
    named = CorpusConfig(source=[{"pattern": "a", "column_names": ["text"]}], column_names=("text",)).keyed()
    assert (named["column_names"], named["source"][0]["column_names"]) == (["text"], ["text"])
