"""``reticent show``: masks carry their labels and colours; the original stays where it is unless asked for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from looked_at import finished_run
from typer.testing import CliRunner

from flows.arguments import app
from flows.commands.show import mask_labels, show_document, show_text_page, use_colour
from pipelines.errors import ConfigError


@pytest.fixture(scope="module")
def config() -> Path:
    return finished_run()


def secrets(config: Path) -> set[str]:
    found = set()
    for path in (config.parent / "corpus").glob("*.jsonl"):
        for line in path.read_text().splitlines():
            row = json.loads(line) if line.startswith("{") else {}
            found |= {row["text"][s["start"] : s["end"]] for s in row.get("spans", ())}
    return {secret for secret in found if len(secret) > 5}


def everything(config: Path, table: str = "redacted", **choices: Any) -> dict[str, Any]:
    return show_document(config, {}, table, rows=10_000, **choices)


def test_every_mask_has_the_labels_of_its_spans(config: Path) -> None:
    rows = everything(config)["rows"]
    masked = [row for row in rows if row["masks"]]
    assert len(masked) > 50
    assert all(len(row["masks"]) == row["redacted_text"].count("<MASK>") for row in rows)
    labels = {label for row in masked for mask in row["masks"] for label in mask}
    assert {"NAME", "PHONE", "DUPLICATE", "PERSON"} <= labels
    assert "?" not in labels


def test_a_page_says_labels_and_never_the_original(config: Path) -> None:
    text = show_text_page(everything(config), colour=False)
    assert "<MASK>" not in text
    assert "\x1b" not in text
    assert re.search(r"\[MASK:[A-Z+]*NAME", text)
    with_original = show_text_page(everything(config, show_text=True), colour=False)
    told = {s for s in secrets(config) if s in with_original}
    hidden = {s for s in told if s not in text}
    assert len(told) > 40
    assert len(hidden) > 0.6 * len(told)  # the others are those that the policies missed


def test_colours_differ_by_label_and_can_be_declined(config: Path) -> None:
    page = show_text_page(everything(config), colour=True)
    assert {"NAME", "ORDER"} <= set(re.findall(r"\x1b\[7;\d+m ([A-Z_]+)", page))
    assert len(set(re.findall(r"\x1b\[7;(\d+)m", page))) > 3
    assert use_colour({}, is_terminal=True, asked_for_none=False)
    assert not use_colour({}, is_terminal=False, asked_for_none=False)
    assert not use_colour({"NO_COLOR": "1"}, is_terminal=True, asked_for_none=False)
    assert not use_colour({"TERM": "dumb"}, is_terminal=True, asked_for_none=False)
    assert not use_colour({}, is_terminal=True, asked_for_none=True)


def test_choices_narrow_what_is_shown(config: Path) -> None:
    total = everything(config)["num_rows"]
    names = everything(config, label="name")
    assert 0 < names["num_rows"] < total
    assert all(any("NAME" in mask for mask in row["masks"]) for row in names["rows"])
    duplicates = everything(config, label="duplicate")
    assert {mask for row in duplicates["rows"] for [mask] in row["masks"]} == {"DUPLICATE"}
    private = everything(config, private=True)
    assert all(row["masks"] or row["is_flagged"] for row in private["rows"])
    doc = private["rows"][0]["doc_id"]
    assert {row["doc_id"] for row in everything(config, doc=doc[:10])["rows"]} == {doc}
    assert everything(config, "public", private=True)["num_rows"] == 0
    shards = everything(config, "private")["num_rows"] + everything(config, "public")["num_rows"]
    assert 0 < shards <= total


def test_unstable_secrets_are_shown_with_what_they_change(config: Path) -> None:
    found = everything(config, "stability")["rows"]
    measured = pl.scan_parquet(f"{config.parent}/reticent-store/private/latest/stability/*.parquet").collect()
    unstable = measured.filter(~pl.col("is_stable"))
    told = [
        (row["doc_id"], row["sentence_index"], secret["start_token"], secret["end_token"], secret["reason"])
        for row in found
        for secret in row["unstable"]
    ]
    wanted = unstable.select("doc_id", "sentence_index", "start_token", "end_token", "reason").rows()
    assert sorted(told) == sorted(wanted)
    assert 0 < len(told) < len(measured)
    assert all(row["masks"] for row in found)
    assert "changes what else is masked" in show_text_page(everything(config, "stability"), colour=False)
    assert "unstable" not in everything(config)["rows"][0]


@pytest.mark.parametrize("table", ["redacted", "private", "public", "stability"])
def test_pages_part_the_rows(config: Path, table: str) -> None:
    whole = everything(config, table)["rows"]
    first = show_document(config, {}, table, rows=7)
    pages = [show_document(config, {}, table, rows=7, page=p)["rows"] for p in range(1, first["num_pages"] + 1)]
    assert [row for page in pages for row in page] == whole
    with pytest.raises(ConfigError, match="there is no page"):
        show_document(config, {}, table, rows=7, page=first["num_pages"] + 1)


def test_the_command(config: Path) -> None:
    done = CliRunner().invoke(app, ["show", "--config", str(config), "--rows", "3", "--json"])
    document = json.loads(done.output)
    assert document["schema_version"] == 1
    assert len(document["rows"]) == 3
    assert "text" not in document["rows"][0]
    plain = CliRunner().invoke(app, ["show", "private", "--config", str(config), "--label", "NAME"]).output
    assert "NAME" in plain
    assert "\x1b" not in plain
    with pytest.raises(ConfigError, match="no redacted text"):
        everything(config, "sentences")


def _row(text: str, spans: list[tuple[int, int, str]], **flags: bool) -> dict[str, Any]:
    made = [{"start_token": a, "end_token": b, "label": label} for a, b, label in spans]
    return {"redacted_text": text, "spans": made, "is_duplicate": False, "failed_closed": False, **flags}


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (_row("a <MASK> b <MASK>", [(5, 6, "B"), (1, 3, "A")]), [["A"], ["B"]]),
        (_row("a <MASK>", [(1, 3, "A"), (2, 4, "B"), (4, 5, "C")]), [["A", "B", "C"]]),  # one run of tokens
        (_row("<MASK> <MASK> <MASK>", [(0, 2, "A"), (1, 3, "B")]), [["A"], ["A", "B"], ["B"]]),  # not collapsed
        (_row("say <MASK>", []), [["?"]]),  # stood in the original
        (_row("<MASK>", [(0, 1, "A")], is_duplicate=True), [["DUPLICATE"]]),
        (_row("<MASK>", [], failed_closed=True), [["FAILED_CLOSED"]]),
        (_row("nothing", []), []),
    ],
)
def test_labels_of_masks(row: dict[str, Any], expected: list[list[str]]) -> None:
    assert mask_labels(row) == expected


def test_text_cannot_steer_the_terminal() -> None:
    row = {
        **_row("\x1b]0;title\x07 \x9b31m \ue000 <MASK>", []),
        "doc_id": "d",
        "sentence_index": 0,
        "masks": [["A\x1b[2J"]],
        "is_flagged": False,
    }
    page = show_text_page({"rows": [row], "table": "redacted", "page": 1, "num_pages": 1, "num_rows": 1}, colour=False)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", page)
    assert page.count("[MASK:") == 1
