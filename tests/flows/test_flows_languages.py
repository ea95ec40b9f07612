"""Corpora in German and in several languages, from ``reticent init`` to redacted text and warnings."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support.language_models import installed

from flows.commands.init import write_starter
from flows.running.fetching import fetch
from flows.running.spec import begin
from flows.running.unchanged import finish_unchanged
from pipelines.mask import MASK
from pipelines.report.figures import data_warnings
from pipelines.settings.loading import load_settings

REDACTION = ("split", "dedup_keys", "dedup_buckets", "dedup_resolve", "dedup_mask", "redact")
GERMAN = (
    "Gestern hat Petra Lindner in Leipzig angerufen. Ich habe das nicht gehört und war bei Siemens.",
    "Mein Name ist Uwe Brandt, und ich wohne in der Hauptstraße 12 in Bremen. Das Wetter ist nicht gut.",
    "Bitte schicken Sie mir die Rechnung noch einmal zu, weil ich sie nicht gefunden habe.",
)
ENGLISH = (
    "Yesterday I told Mary Jones that we would meet her in Boston. It was not raining at all.",
    "My name is Tom Brown, and I live at 12 Main Street. I am not at home today.",
)
ITALIAN = ("Mi chiamo Paolo Rossi e questa è la mia casa. Non è vero che sono andato via con lei.",)


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    yield from installed("de")


def redacted(folder: Path, texts: list[str]) -> tuple[Any, dict[str, str], dict[str, Any], str]:
    """The settings that ``init`` writes for the texts, their redacted text, the figures, and what ``init`` said."""
    folder.mkdir(exist_ok=True)
    source = folder / "in.jsonl"
    source.write_text("".join(json.dumps({"id": f"d{at}", "text": text}) + "\n" for at, text in enumerate(texts)))
    said: list[str] = []
    config = write_starter(folder / "out", [str(source)], dialogues=1, seed=0, say=said.append)
    settings = load_settings(config, os.environ)
    fetch(settings, *REDACTION)
    assert finish_unchanged(begin(config, os.environ, selected=REDACTION)) is not None
    latest = config.parent / "reticent-store" / "private" / "latest"
    rows = pl.scan_parquet(f"{latest / 'redacted'}/*.parquet").sort("doc_id", "sentence_index").collect()
    documents = pl.scan_parquet(f"{latest / 'documents'}/*.parquet").collect()
    ids = dict(zip(documents["doc_id"], documents["source_id"], strict=True))
    found: dict[str, str] = {}
    for doc_id, text in zip(rows["doc_id"], rows["redacted_text"], strict=True):
        found[ids[doc_id]] = f"{found.get(ids[doc_id], '')} {text}".strip()
    (path,) = (latest.parent / "objects" / "redact").glob("*/figures.json")
    figures: dict[str, Any] = json.loads(path.read_text())
    return settings.stages, found, figures, "\n".join(said)


@pytest.mark.slow
def test_a_german_corpus_is_read_with_its_model(tmp_path: Path, model: str) -> None:
    stages, found, figures, said = redacted(tmp_path / "project", [*GERMAN] * 8)
    redact = stages["redact"]
    assert (redact.language_of, redact.language, redact.model, redact.models) == ("document", "de", model, {})
    assert stages["split"].language == "de"
    assert "language: German 100%" in said
    assert "no model" not in said
    assert not any(name in text for text in found.values() for name in ("Petra", "Leipzig", "Brandt", "Hauptstraße"))
    assert "gehört" in found["d0"]
    assert figures["rows_without_model"] == {}
    assert figures["num_failed_closed"] == 0


@pytest.mark.slow
def test_a_mixed_corpus_is_read_in_each_language_and_the_rest_is_held_back(tmp_path: Path, model: str) -> None:
    stages, found, figures, said = redacted(tmp_path / "project", [*ENGLISH, *ENGLISH, *GERMAN, *ITALIAN])
    assert (stages["redact"].language, stages["redact"].models) == ("en", {"de": model})
    assert "python -m spacy download it_core_news_sm" in said
    assert not any(name in text for text in found.values() for name in ("Petra", "Leipzig", "Brandt", "Mary", "Boston"))
    assert "I told" in found["d0"]
    assert "gehört" in found["d4"]
    assert {*found["d7"].split()} == {MASK}
    assert figures["rows_without_model"] == {"it": 2}
    assert figures["num_failed_closed"] == 0
    config = (tmp_path / "project" / "out" / "reticent.toml").read_text()
    assert "# For it: python -m spacy download it_core_news_sm" in config
    (warning,) = data_warnings(
        {"documents_by_other_language": {"de": 3}, "num_documents": 8, "num_held_back": 0},
        {"conservative": None, "rows_without_model": figures["rows_without_model"]},
        {"num_public": 0},
    )
    assert "2 rows in a language without a model (2 it) are masked whole" in warning
    assert 'redact.models = {it = "it_core_news_sm"}' in warning
