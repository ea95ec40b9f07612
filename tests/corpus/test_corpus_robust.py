"""Failures of parsers, files that are cut, and objects one after another: each costs only the rows that it hits."""

from __future__ import annotations

import gzip
import importlib
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from corpus.corpus_files import documents, head_of, read, rejections
from corpus.format_examples_exports import EXAMPLES, example
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from pipelines.corpus.dialogues import Dialogue, LeftOut
from pipelines.corpus.exports.parts import are_in_a_row
from pipelines.corpus.format_spec import FormatSpec
from pipelines.corpus.json_stream import json_parts
from pipelines.corpus.options import ReadOptions, SourceOptions
from pipelines.corpus.readers import read_documents
from pipelines.corpus.recognisers import readings
from pipelines.corpus.scan import scan
from pipelines.settings.corpus import CorpusConfig

RUNS = ("slack", "teams", "zendesk", "intercom")


def fail(*_: object, **__: object) -> Any:
    raise AttributeError("a secret of the page")


# --- parsers of other packages


WIKI_PAGE = "<page><title>T</title><ns>0</ns><id>{0}</id><revision><text>{1} text</text></revision></page>"
POST = '<row Id="{}" Body="&lt;p&gt;{} text&lt;/p&gt;" />'
MAIL = "From a@b.c Mon Jan  5 10:00:00 2026\nFrom: a@b.c\nContent-Type: text/html\n\n<p>{1} text</p>\n\n"


@pytest.mark.parametrize(
    ("parser", "file", "around", "row", "reason"),
    [
        ("mwparserfromhell.parse", "a.mediawiki", "<mediawiki>{}</mediawiki>", WIKI_PAGE, "bad_markup"),
        ("html_text.extract_text", "Posts.stackexchange", "<posts>{}</posts>", POST, "bad_markup"),
        ("html_text.etree_to_text", "a.mbox", "{}", MAIL, "bad_mail"),
    ],
)
def test_a_parser_that_fails_loses_one_row(tmp_path, patch, parser, file, around, row, reason):
    module, name = parser.split(".")
    real = getattr(importlib.import_module(module), name)

    def parse(page):
        text = page if isinstance(page, str) else page.text_content()
        return fail() if "bad" in text else real(page)

    patch(module, name, parse)
    rows = "".join(row.format(number, word) for number, word in enumerate(("good", "bad", "good")))
    (tmp_path / file).write_text(around.format(rows))
    items = read(tmp_path / file, Path(file).suffix[1:], mail_text="full")
    assert [item.text.removeprefix("T\n\n") for item in documents(items)] == ["good text"] * 2
    assert rejections(items) == [(2, reason)]
    assert "secret" not in str(items)


@pytest.mark.parametrize(
    ("module", "name", "file", "format"),
    [("html_text", "extract_text", "a.html", "html"), ("pipelines.corpus.pages", "markdown_text", "a.md", "markdown")],
)
def test_a_parser_that_fails_rejects_the_page(tmp_path, patch, module, name, file, format):
    patch(module, name, fail)
    (tmp_path / file).write_text("<p>text</p>")
    items = read(tmp_path / file, format)
    assert rejections(items) == [(1, "bad_markup")]
    assert "secret" not in str(items)


# --- files that are cut


@pytest.mark.parametrize("format", ["slack", "telegram", "whatsapp", "turns"])
@pytest.mark.parametrize("compression", [".gz", ".zst"])
def test_the_rows_before_the_cut_of_a_whole_file_are_kept(tmp_path, format, compression):
    import random

    rng = random.Random(2)
    texts = [f"message {number} {rng.random()}" for number in range(8_000)]
    if format == "whatsapp":
        name, data = "a.txt", "".join(f"[12.03.24, 10:15:32] Ann: {text}\n" for text in texts)
    elif format == "turns":
        calls = {str(at): {"turns": [{"speaker": "A", "text": text}]} for at, text in enumerate(texts)}
        name, data = "a.json", json.dumps(calls)
    else:
        key = "from" if format == "telegram" else "user"
        rows = [{"id": 1, "type": "message", "ts": "1", "date": "1", key: "U1", "text": text} for text in texts]
        name, data = "a.json", json.dumps(rows if format == "slack" else {"messages": rows})
    packed = gzip.compress(data.encode()) if compression == ".gz" else pa.compress(data.encode(), "zstd", asbytes=True)
    path = tmp_path / (name + compression)
    path.write_bytes(packed[: len(packed) * 3 // 4])
    items = read(path, format, **({"turns_field": "*.turns"} if format == "turns" else {}))
    kept = "\n".join(item.text for item in documents(items)).split("\n")
    assert len(kept) > 3_600
    assert kept[:-1] == texts[: len(kept) - 1]
    assert [reason for _, reason in rejections(items)].count("damaged") == 1
    assert {reason for _, reason in rejections(items)} <= {"damaged", "bad_json"}


# --- objects one after another


@pytest.mark.parametrize("format", RUNS)
@pytest.mark.parametrize("indent", [None, 2])
def test_objects_in_a_row_are_read_as_the_list_of_them(tmp_path, format, indent):
    data = example(format)
    value = [json.loads(line) for line in data.splitlines()] if format == "zendesk" else json.loads(data)
    parts = value if isinstance(value, list) else value["value" if format == "teams" else "conversations"]
    for folder, text in (("list", json.dumps(parts)), ("row", "\n".join(json.dumps(p, indent=indent) for p in parts))):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.json").write_text(text)
    wanted, found = (read(tmp_path / folder / "a.json", format) for folder in ("list", "row"))
    assert documents(wanted)
    assert [item.text for item in documents(found)] == [item.text for item in documents(wanted)]
    assert rejections(found) == rejections(wanted)
    if len(parts) > 1:
        head = head_of("a.json", (tmp_path / "row" / "a.json").read_bytes())
        assert format in {reading.format for reading in readings(head)}


@pytest.mark.parametrize("format", ["discord", "telegram", "messenger", "google_chat", "skype"])
def test_exports_one_after_another_share_no_dialogue(tmp_path, format):
    (tmp_path / "a.json").write_bytes(example(format) * 2)
    items = read(tmp_path / "a.json", format)
    assert len(documents(items)) == 2 * EXAMPLES[format].documents
    assert not rejections(items)


@given(st.lists(st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=5), max_size=3), max_size=6))
def test_values_in_a_row_are_those_that_were_written(values):
    data = "\n".join(json.dumps(value, indent=1) for value in values).encode()
    found = [value for _, value in json_parts(io.BytesIO(data), "".__eq__, limit_bytes=1000)]
    assert found == values or not values
    assert are_in_a_row(data, {"item"}) == (len(values) > 1)


def test_more_text_behind_a_value_is_damage():
    for rest in (b"]", b"}", b" x", b' "a"', b"7"):
        *_, (_, last) = json_parts(io.BytesIO(b'{"a": 1}' + rest), "a".__eq__, limit_bytes=100)
        assert last.reason == "bad_json"


@pytest.mark.parametrize("name", ["a.jsonl", "a"])
def test_a_name_that_hides_the_dialogues_is_told(name):
    turns = [{"role": "user", "content": "Is it you?"}, {"role": "assistant", "content": "Yes, it is."}]
    data = "\n".join(json.dumps({"messages": turns}, indent=1) for _ in range(3)).encode()
    (found,) = [r for r in readings(head_of(name, data)) if r.score > 0.9]
    assert found.format is None
    assert "rename the file to .json" in found.what


# --- kinds of parts that a reader of another package leaves out


class Leaky:
    spec = FormatSpec(name="leaky", document="a text", kinds={".lky": "whole"})

    def __init__(self, options):
        pass

    def read(self, file):
        yield 1, LeftOut("media")
        yield 1, LeftOut("Ann Lee called")
        yield 1, LeftOut(["x"])  # type: ignore[arg-type]
        yield 1, Dialogue(1, [("A", "hello")], left_out=(("Ann Lee", 2), ("other part", 1), ("poll", 3)))


def test_kinds_of_a_plug_in_come_from_a_list(tmp_path):
    (tmp_path / "a.lky").write_text("x")
    items = read(tmp_path / "a.lky", f"{__name__}:Leaky")
    kinds = [item.kind for item in items if isinstance(item, LeftOut)]
    assert kinds == ["media", "other part", "other part"]
    assert documents(items)[0].left_out == (("other part", 3), ("poll", 3))


# --- settings of a source, and separators


def test_a_source_has_its_own_pause(tmp_path):
    rows = [{"type": "message", "user": "U1", "ts": str(60 * minute), "text": f"m{minute}"} for minute in (0, 30, 90)]
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(json.dumps(rows))
    config = CorpusConfig.model_validate(
        {"format": "slack", "source": [{"pattern": "b.json", "format": "slack", "dialogue_gap_minutes": 20}]}
    )
    options = config.read_options()
    parts = scan(["."], base_dir=tmp_path, format="slack", options=options, secret=b"k")
    found = [item for part in parts for piece in part.pieces for item in read_documents(piece, options)]
    assert [item.text for item in documents(found)] == ["m0\nm30\nm90", "m0", "m30", "m90"]
    with pytest.raises(ValidationError):
        CorpusConfig.model_validate({"source": [{"pattern": "b", "dialogue_gap_minutes": 0}]})
    silent = CorpusConfig.model_validate({"source": [{"pattern": "b"}]}).model_dump()["source"][0]
    assert "dialogue_gap_minutes" not in silent


TEXTS = st.lists(st.text("abc é,\"'", max_size=8).map(str.strip).filter(bool), min_size=1, max_size=5)


@pytest.mark.parametrize("mark", ["+++$+++", "::", "|||", "<>"])
@settings(max_examples=30, deadline=None)
@given(rows=TEXTS, blank=st.sampled_from(["", " ", "\t"]))
def test_columns_between_several_signs(tmp_path_factory, mark, rows, blank):
    path = tmp_path_factory.mktemp("t") / "a.txt"
    cut = f"{blank}{mark}{blank}"
    path.write_text("\n".join(cut.join((str(at), "Ann", row)) for at, row in enumerate(rows)))
    fields: dict[str, Any] = {"column_names": ("id", "who", "text"), "delimiter": mark, "speaker_field": "who"}
    items = read(path, "csv", **fields)
    assert [item.text for item in documents(items)] == rows
    assert len(items) == len(rows)
    assert all(item.turns == ((0, len(item.text), "Ann"),) for item in documents(items))


@pytest.mark.parametrize("mark", ["", "a", "::a", '"', '""', "\n\n", "x" * 13, "= =", "^"])
def test_a_wrong_separator_is_refused(mark):
    with pytest.raises(ValidationError, match="delimiter"):
        CorpusConfig(delimiter=mark)


def test_the_column_speaker_of_older_corpora_is_not_read(tmp_path):
    (tmp_path / "a.csv").write_text("text,speaker\nhello,Ann\n")
    assert [item.turns for item in documents(read(tmp_path / "a.csv", "csv"))] == [None]
    assert SourceOptions(pattern="a").fields == ReadOptions().sources
