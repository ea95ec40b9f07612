"""The performance table of docs/scale.md: what it renders, and what becomes of a part that fails."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import performance
import pytest
from support.patches import Patch

from flows.docs.tables import page


def test_the_readme_says_what_was_measured_last() -> None:
    measured = json.loads(performance.RESULTS.read_text("utf-8"))
    text = performance.PAGE.read_text("utf-8")
    assert page(text, "performance", performance.table(measured), "make bench") == text, "run `make bench`"


def test_a_part_that_was_not_measured_is_named_and_one_measured_elsewhere_says_when() -> None:
    at = {"commit": "abc+", "date": "2026-11-23", "cores": 2, "load": [3.0, 1.5]}
    split = {**at, "figures": {"tokens_per_second": {"rules": 412_345.0, "spaCy": 301_000.0}}}
    night = {**at, "commit": "def", "figures": {"ratio": 0.125, "files": 10}}
    text = performance.table({"night": night, "split": split})
    assert "| tokens and sentences | 412,000 tokens/s | spaCy's tokenizer, tokens alone: 301,000 |" in text
    assert "| preparation with one new file of 10 | 12% of the time | the first 9 files |" in text
    assert "split: 2026-11-23, commit abc+, 2 cores under a load of 1.5 to 3.0; night: 2026-11-23, commit def" in text
    assert "Not measured: startup, dedup, redact, step." in text


@pytest.mark.parametrize(("body", "limit"), [("raise SystemExit(1)", 20.0), ("import time; time.sleep(60)", 0.2)])
def test_a_part_that_fails_or_takes_too_long_keeps_its_figures(
    body: str, limit: float, tmp_path: Path, patch: Patch
) -> None:
    (tmp_path / "part.py").write_text(body)
    patch.constant(performance, "PAGE", tmp_path / "scale.md")
    patch.constant(performance, "RESULTS", tmp_path / "performance.json")
    patch.constant(performance, "PARTS", {"split": performance.Part((str(tmp_path / "part.py"),), performance._split)})
    performance.PAGE.write_text("<!-- performance: made by `make bench` -->\n<!-- end -->\n")
    figures = {"tokens_per_second": {"rules": 1_000.0, "spaCy": 2_000.0}}
    kept = {"split": {"commit": "abc", "date": "then", "cores": 2, "load": [1.0, 1.0], "figures": figures}}
    performance.RESULTS.write_text(json.dumps(kept))
    patch.constant(sys, "argv", ["performance.py", "--only", "split", "--limit", str(limit)], read_by="argparse")
    assert performance.main() == 1
    assert json.loads(performance.RESULTS.read_text()) == kept
    assert "commit abc" in performance.PAGE.read_text()
