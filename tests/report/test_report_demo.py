"""The page that the built-in job shows: how long it is, how many sheets it prints on, and its samples."""

from __future__ import annotations

import base64
import re
from html import unescape
from pathlib import Path

import pytest
from support import chrome
from support.chrome import CUT_LABELS
from support.project import reticent
from support.shared_server import shared_server

pytestmark = pytest.mark.slow
MOST_WORDS, MOST_SHEETS = 5_600, 13
"""With 1,000 dialogues there are 355 words more, and the limits of that report are 6,000 words and 14 sheets."""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the full report of a small demo."""
    folder = tmp_path_factory.mktemp("demo")
    done = reticent("demo", "tour", "--dialogues", "60", cwd=folder, **shared_server())
    assert done.returncode == 0, done.stderr
    return folder / "tour/reticent-store/private/latest/report/report.html"


def shown(page: str) -> str:
    """All that a page says, charts and closed parts as well."""
    return unescape(re.sub("<[^>]+>", " ", re.sub(r"<(style|title)>.*?</\1>", "", page, flags=re.DOTALL)))


def test_the_report_is_short_enough_to_be_read(report: Path) -> None:
    assert 4_000 < len(shown(report.read_text("utf-8")).split()) <= MOST_WORDS


@pytest.mark.skipif(chrome.binary() is None, reason="Chromium is not installed")
def test_the_report_prints_on_few_sheets(report: Path, tmp_path: Path) -> None:
    tab = chrome.Chrome(tmp_path / "profile")
    try:
        tab.open(report.resolve().as_uri())
        assert tab.js(CUT_LABELS) == []
        printed = base64.b64decode(tab.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)["data"])
    finally:
        tab.close()
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) <= MOST_SHEETS


def test_the_report_of_made_up_text_shows_samples(report: Path) -> None:
    page = report.read_text("utf-8")
    samples = page[page.index('id="samples"') : page.index("<section", page.index('id="samples"'))]
    pairs = re.findall(r"<li>(.*?)<br>→ (.*?)</li>", samples)
    assert len(pairs) == 3
    for before, after in pairs:
        assert "&lt;MASK&gt;" in after
        assert "MASK" not in before
    written = re.findall(r"<li>(.*?)</li>", samples[samples.index("temperature") :])
    assert written
    assert all(text.strip() for text in written)
