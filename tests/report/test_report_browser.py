"""Every page in a browser, at desk and phone width: nothing overflows, fails, or is asked of others; and it prints."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import pytest
from public_reports import published
from support import chrome

from pipelines.report.comparison import COMPARED, render_comparison
from pipelines.report.render import render_html

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(chrome.binary() is None, reason="Chromium is not installed"),
]


def comparison() -> dict[str, Any]:
    """Many methods with long names, an interval that spans orders, and one that failed."""
    none = {"mean": None, "low": None, "high": None}
    claim = {"notion": "confidentiality", "epsilon": 3.0, "delta": 1e-5}
    methods = [
        {
            **{"config": "a-settings-file-with-a-name-that-is-very-long-indeed.toml", "method": f"method_{number}"},
            **{"num_repetitions": 3, "epsilon_unamplified": 3.0 if number % 2 else None, "headline": claim},
            **{"train_seconds": 2.0, **dict.fromkeys(COMPARED, none)},
            "perplexity_per_word": {"mean": 40.0 + number, "low": 1.0, "high": 900.0},
            "bits_per_byte": {"mean": 1.5, "low": 1.4, "high": 1.6},
        }
        for number in range(9)
    ]
    failed = {"config": None, "method": "dpsgd", "repetition": 0, "state": "failed", "reason": "x" * 300}
    return {"methods": methods, "variants": [failed], "together": {"num_releases": 9, "epsilon": 9.1, "delta": 1e-5}}


def test_every_page_fits_and_needs_nothing_of_others(full: dict[str, Any], tmp_path: Path) -> None:
    pages = {
        "full": render_html(full),
        "public": render_html(published(full)),
        "comparison": render_comparison(comparison()),
    }
    tab = chrome.Chrome(tmp_path / "profile")
    try:
        for name, page in pages.items():
            file = tmp_path / f"{name}.html"
            file.write_text(page, "utf-8")
            for width, mobile in ((1280, False), (390, True)):
                tab.resize(width, 844, mobile=mobile)
                tab.open(file.as_uri())
                assert tab.js("document.documentElement.scrollWidth <= innerWidth"), (name, width)
                sideways = "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth).length"
                assert tab.js(sideways) == 0, (name, width)
                cut_off = "[...document.querySelectorAll('svg text')].filter(t => t.textContent.endsWith('…')).length"
                assert tab.js(cut_off) == 0, (name, width)
                assert tab.js(chrome.CUT_LABELS) == [], (name, width)
            printed = base64.b64decode(tab.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)["data"])
            assert len(re.findall(rb"/Type\s*/Page\b", printed)) >= 1
    finally:
        tab.close()
    assert tab.console == []
    assert [url for url in tab.requests if not url.startswith("file:")] == []
