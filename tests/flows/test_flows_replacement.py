"""``redact.replacement`` in runs: the way back from the last one, and what a whole run makes of surrogates."""

from __future__ import annotations

import json
import os
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support.patches import Patch
from support.project import small_project

from flows.commands.restore import restored_lines
from flows.commands.show import show_document, show_text_page
from flows.running.fetching import fetch
from flows.running.spec import begin
from flows.running.unchanged import finish_unchanged
from pipelines.errors import ConfigError, InputError
from pipelines.mask import MASK
from pipelines.settings.loading import load_settings
from pipelines.walks import default_stages

REDACTION = ("split", "dedup_keys", "dedup_buckets", "dedup_resolve", "dedup_mask", "redact")
SURROGATES = {"RETICENT__REDACT__REPLACEMENT": "surrogate"}
TURNS = (
    "USR: order 5551234567 is late\nSYS: order 5551234567 left at 9\nUSR: thank you",
    "USR: it is 5551234567 or 77",
)


def finished(config: Path, changes: dict[str, str], *stages: str) -> None:
    """A run of these stages, without an orchestrator; it is the latest."""
    environ = {**os.environ, **changes}
    fetch(load_settings(config, environ), *stages)
    assert finish_unchanged(begin(config, environ, selected=stages)) is not None


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("replacement")
    rows = [{"id": str(number), "text": text} for number, text in enumerate(TURNS)]
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    path = folder / "reticent.toml"
    path.write_text('[corpus]\ninputs = ["a.jsonl"]\n[redact]\npolicies = ["digits"]\n')
    finished(path, SURROGATES, *REDACTION)
    return path


def rows_of(config: Path, table: str) -> list[dict[str, Any]]:
    folder = config.parent / "reticent-store" / "private" / "latest" / table
    return pl.scan_parquet(f"{folder}/*.parquet").sort("doc_id", "sentence_index").collect().to_dicts()


def back(config: Path, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    file = config.parent / "answers.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [json.loads(line) for line in restored_lines(str(file), config, os.environ)]


def test_rows_of_a_run_come_back(config: Path) -> None:
    redacted = rows_of(config, "redacted")
    assert not any("5551234567" in row["redacted_text"] or MASK in row["redacted_text"] for row in redacted)
    fields = ("doc_id", "sentence_index", "redacted_text")
    restored = back(config, [{name: row[name] for name in fields} for row in redacted])
    originals = rows_of(config, "sentences")
    assert [row["text"] for row in restored] == [row["text"] for row in originals]
    assert [row["id"] for row in restored] == [row["doc_id"] for row in originals]
    # An answer quotes a whole document: its surrogates are those of all its sentences.
    first = next(row for row in redacted if "late" in row["redacted_text"])
    answer = {"id": first["doc_id"], "text": f"{first['redacted_text']}, we know"}
    assert back(config, [answer])[0]["text"] == "order 5551234567 is late, we know"


def test_what_only_a_sentence_tells_apart_is_refused_without_it(config: Path, patch: Patch) -> None:
    patch("flows.commands.restore", "restored_text", lambda text, table, **how: f"{text}: {len(list(table))}")
    from flows.commands.restore import Known
    from pipelines.policies.surrogates import Replaced

    known = Known()
    assert known.add("d", 0, Replaced("Sam Oakes", "Ann", "PERSON"))
    assert not known.add("d", 1, Replaced("Sam Oakes", "Eve", "PERSON"))
    assert known.restored("d", None, "Sam Oakes called") is None
    assert known.restored("d", None, "nobody called") == "nobody called: 1"
    assert known.restored("d", 1, "Sam Oakes called") == "Sam Oakes called: 1"
    with pytest.raises(InputError, match="line 1: sentence_index"):
        back(config, [{"doc_id": "d", "sentence_index": "x", "text": "a"}])


def test_a_page_shows_replaced_rows_as_masked(config: Path) -> None:
    document = show_document(config, {}, "redacted", rows=10, private=True)
    assert document["num_rows"] == 4  # no conservative policy: every row is flagged
    page = show_text_page(document, colour=False)
    assert "5551234567" not in page
    assert "MASK" not in page


def test_a_run_with_masks_has_no_way_back(config: Path) -> None:
    finished(config, {}, *REDACTION)
    with pytest.raises(ConfigError, match="wrote no surrogates"):
        back(config, [])
    finished(config, SURROGATES, *REDACTION)


@pytest.mark.slow
def test_a_whole_run_with_surrogates(tmp_path: Path) -> None:
    """Trained, claimed, reported: nothing of a secret in the public root, and no credit for redaction."""
    config = small_project(tmp_path, dialogues=20)
    finished(config, SURROGATES, *default_stages())
    objects = tmp_path / "reticent-store" / "private" / "objects"
    (claims,) = [json.loads(path.read_text()) for path in objects.glob("guarantee/*/claims.json")]
    by_notion = {claim["notion"]: claim for claim in claims["claims"]}
    assert "redact.replacement is surrogate" in by_notion["bayesian_confidentiality"]["refused"]
    assert "surrogate" in json.dumps(by_notion["confidentiality_of_caught_secrets"]["assumptions"])
    public = tmp_path / "reticent-store" / "public" / "latest" / "public"
    texts = pl.scan_parquet(f"{public}/*.parquet").collect()["redacted_text"].to_list()
    surrogates = pl.scan_parquet(f"{objects}/redact/*/surrogates.parquet").collect()
    assert surrogates.height > 20
    assert texts
    assert not any(s in text for text in texts for s in surrogates["surrogate"].to_list())


def test_a_run_links_the_mentions_of_a_person_and_shifts_dates(tmp_path: Path) -> None:
    turns = "USR: I am Anne Keller\nSYS: Hello Mrs Keller\nUSR: ANNE KELLER, born 1985-03-04\nSYS: so not 1985-03-14"
    (tmp_path / "a.jsonl").write_text(json.dumps({"id": "x", "text": turns}) + "\n")
    path = tmp_path / "reticent.toml"
    path.write_text(
        '[corpus]\ninputs = ["a.jsonl"]\n[redact]\npolicies = ["names", "regex"]\n'
        'names = ["Anne Keller", "Mrs Keller"]\npatterns = {DATE = "[0-9-]{10}"}\n'
        'replacement = "surrogate"\nsurrogate_persons = "gendered"\nshift_dates = 100\n'
    )
    finished(path, {}, *REDACTION)
    rows = rows_of(path, "redacted")
    one, two, three, four = (row["redacted_text"] for row in rows)
    first, last = one.removeprefix("I am ").split()
    assert two == f"Hello Mrs {last}"
    assert three.startswith(f"{first.upper()} {last.upper()}, born ")
    born, other = (date.fromisoformat(text[-10:]) for text in (three, four))
    assert (other - born).days == 10
    assert born != date(1985, 3, 4)
    found = back(path, [{**row, "redacted_text": row["redacted_text"].upper()} for row in rows])
    assert [row["text"].upper() for row in found] == [turn[5:].upper() for turn in turns.split("\n")]
    answer = {"doc_id": rows[0]["doc_id"], "text": f"so {first.lower()} is {last}"}
    assert back(path, [answer])[0]["text"] == "so anne is Keller"
