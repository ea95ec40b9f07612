"""A corpus of copies: what is new in one copy is new in all, and what repeats there repeats everywhere."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.tables import write_rows

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import growth_copies

from pipelines.artifacts import Source, Target
from pipelines.corpus.tables import SENTENCES

TEXTS = ["Hello.", "Hello.", "My number is 17."]


def write_sentences(folder: Path) -> None:
    rows = ({"sentence_index": number, "text": text} for number, text in enumerate(TEXTS))
    write_rows(folder / "sentences.parquet", "sentences", rows, doc_id="0123456789", token_ends=[1], speaker="SYS")


def copied(original: Path, folder: Path, number: int) -> list[dict[str, Any]]:
    outside = SimpleNamespace(pieces=(SimpleNamespace(first_row=number),))
    ctx = SimpleNamespace(outside=outside, out=Target(folder=folder))
    assert growth_copies.copier(original)(ctx) == {"num_sentences": len(TEXTS)}  # type: ignore[arg-type]
    return list(Source(folder=folder).table(SENTENCES).rows())


@pytest.fixture
def original(tmp_path: Path) -> Path:
    folder = tmp_path / "original" / "reticent-store" / "private" / "objects" / "split" / "key"
    folder.mkdir(parents=True)
    write_sentences(folder)
    (tmp_path / "original" / "corpus").mkdir()
    (tmp_path / "original" / "corpus" / "a.jsonl").write_bytes(bytes(1 << 20))
    return tmp_path / "original"


def test_each_copy_has_its_own_documents_and_what_occurs_once_stays_alone(original: Path, tmp_path: Path) -> None:
    rows = []
    for number in (1, 26):
        (tmp_path / str(number)).mkdir()
        rows += copied(original, tmp_path / str(number), number)
    texts = ["Hello.", "Hello.", "My number is 17. 1", "Hello.", "Hello.", "My number is 17. 26"]
    assert [row["text"] for row in rows] == texts
    assert [row["doc_id"] for row in rows] == ["0001456789"] * 3 + ["001a456789"] * 3
    assert {row["fold"] for row in rows} == {"train"}


def test_the_project_has_the_buckets_that_its_text_would_have_as_input(original: Path, tmp_path: Path) -> None:
    settings = "[corpus]\npartition_documents = {partition_documents}\n"
    config = growth_copies.write_copies(tmp_path / "copies", original, 4_096, settings)
    assert growth_copies.input_bytes(config.parent) == 4 << 30
    assert config.read_text() == "[corpus]\npartition_documents = 1\n[dedup]\nbuckets = 4\n"
