"""Pictures of the pages in the documentation: ``make screenshots``.

PYTHONPATH=tests python -m support.screenshots PROJECT OUT
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

import reticent
from flows.commands.sign import sign_document
from flows.docs import demo
from flows.review.server import ReviewServer
from flows.review.session import ReviewSession
from pipelines.miss_rate.review_items import Item, Mask, Neighbour
from pipelines.miss_rate.review_log import DecisionLog
from support.chrome import Chrome

REVIEWED = "To zebediah quill at 12 Elm Street, Springfield, and call 555 0143 on Monday"
MASKS = {"12 Elm Street": "LOCATION", "Springfield": "LOCATION", "555 0143": "NUMBER", "Monday": "DATE"}
BEFORE = (("USR", "My parcel has not come. The order is 843-58572-7002."), ("SYS", "Whom was it sent to?"))
AFTER = (("SYS", "Thank you. It is on its way."), ("USR", "That is good to hear."))


def take(project: Path, out: Path) -> list[Path]:
    """Photographs the top of the full report of a project's last run, its page to sign, and the review page.

    It also records the run's figures for the README (`flows.docs.demo`).

    Args:
        project: the folder of a settings file whose run is finished, on text that is not private: the built-in job.
        out: where ``report.png``, ``sign-off.webp`` and ``review-page.png`` are written.
    """
    report = reticent.open_run(project).report
    assert report is not None, "the last run has no report"
    demo.record(json.loads(report.with_suffix(".json").read_text("utf-8")))
    page = Path(sign_document(project / "reticent.toml", os.environ, None)["page"])
    with tempfile.TemporaryDirectory() as folder:
        browser = Chrome(Path(folder) / "profile", 1200, 900)
        try:
            browser.open(report.resolve().as_uri())
            browser.screenshot(out / "report.png")
            browser.resize(960, 900)
            browser.open(page.resolve().as_uri())
            bottom = browser.js("document.querySelector('.sign-off').getBoundingClientRect().bottom")
            browser.screenshot(out / "sign-off.webp", height=bottom)
            browser.resize(1100, 800)
            review(browser, Path(folder) / "reviews", out / "review-page.png")
        finally:
            browser.close()
    return [out / name for name in ("report.png", "sign-off.webp", "review-page.png")]


def review(browser: Chrome, folder: Path, picture: Path) -> None:
    """Opens the review page on a made-up sentence, marks the name that no policy masked, and photographs it."""
    words = list(re.finditer(r"\w+", REVIEWED))
    starts, ends = zip(*(word.span() for word in words), strict=True)
    places = {text: REVIEWED.index(text) for text in MASKS}
    masks = tuple(Mask(places[text], places[text] + len(text), label) for text, label in MASKS.items())
    item = Item("0" * 32, REVIEWED, starts, ends, masks, "USR", ("d", 0), 0, _said(BEFORE), _said(AFTER))
    server = ReviewServer(ReviewSession([item], DecisionLog(folder / "decisions.jsonl"), "ana").api())
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        browser.open(server.url)
        browser.wait("!document.getElementById('work').hidden")
        word = "[...document.querySelectorAll('#sentence button')].find((b) => b.textContent.startsWith('%s'))"
        browser.drag(word % "zebediah", word % "quill")
        browser.screenshot(picture)
    finally:
        server.shutdown()
        server.server_close()


def _said(turns: Sequence[tuple[str, str]]) -> tuple[Neighbour, ...]:
    return tuple(Neighbour(speaker, text) for speaker, text in turns)


if __name__ == "__main__":
    print(*take(Path(sys.argv[1]), Path(sys.argv[2])), sep="\n")
