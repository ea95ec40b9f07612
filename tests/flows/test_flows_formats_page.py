"""Every example of a format: `reticent init` recognises it and reads all of it, and the page "Formats" shows it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from flows.arguments import app
from flows.commands.survey import survey
from flows.docs.formats import PAGE, all_examples, formats_page
from pipelines.corpus.formats import FORMATS
from pipelines.corpus.items import Document, Rejected
from pipelines.corpus.options import ReadOptions
from pipelines.corpus.readers import read_documents
from pipelines.corpus.scan import scan
from pipelines.corpus.split import Splitter

CASES = all_examples()
FLAT = ("jsonl", "json", "csv", "tsv", "parquet", "huggingface")
LEAST = dict.fromkeys((*FLAT, "turns", "diarised"), 0.7) | {"txt": 0.5}
"""The least confidence in the format of an example, where it may be less than 0.9."""


@pytest.mark.parametrize(("format", "example"), CASES, ids=lambda value: getattr(value, "file_name", str(value)))
def test_an_example_is_recognised_and_read(tmp_path: Path, format: str, example: Any) -> None:
    path = tmp_path / "in" / example.file_name
    path.parent.mkdir(parents=True)
    path.write_bytes(example.data)
    command = ["init", str(tmp_path / "out"), "--input", str(tmp_path / "in"), "--yes", "--json"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.exception
    document = json.loads(done.stdout.splitlines()[-1])
    (source,) = document["sources"]
    (kind,) = survey([str(tmp_path / "in")]).kinds
    assert document["not_read"] == []
    assert source["format"] == format
    assert source["documents"] == example.documents
    assert kind.found.num_input_rows == example.rows
    assert not kind.found.reasons
    assert source["has_speakers"] == bool(example.speakers)
    assert len(source["sample"]) == min(3, example.documents)
    assert kind.look.score >= LEAST.get(format, 0.9)
    documents = _documents(path, kind.look)
    assert "SCENARIO" not in str(documents)
    assert all(item.text[turn.start : turn.end].strip() for item in documents for turn in item.turns or ())
    if source["has_speakers"]:
        assert _speakers(documents) == example.speakers


def _documents(path: Path, look: Any) -> list[Document]:
    options = ReadOptions(**dict(look.fields))
    (part,) = scan([path], base_dir=Path("/"), format=look.format, options=options, secret=b"k")
    found = [item for piece in part.pieces for item in read_documents(piece, options)]
    assert not any(isinstance(item, Rejected) for item in found)
    return [item for item in found if isinstance(item, Document)]


def _speakers(documents: list[Document]) -> int:
    named = {turn.speaker for item in documents for turn in item.turns or () if turn.speaker}
    if named:
        return len(named)
    split = Splitter().split_each(documents, lambda item: (item.text, item.layout))
    return len({sentence.speaker for _, sentences in split for sentence in sentences if sentence.speaker})


def test_every_format_has_an_example() -> None:
    assert set(FORMATS) - {format for format, _ in CASES} <= {"mail", "mbox"}


def test_the_page_of_formats_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == formats_page(), "run: make docs"
