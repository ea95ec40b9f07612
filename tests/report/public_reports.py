"""The data files of the tests here, the public version with all that settings can put into it, and pages as read."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from pipelines.report.public import public_version

RAW = json.loads((Path(__file__).parent / "sources.json").read_text("utf-8"))
_VOID = {"meta", "br", "hr", "img", "input", "link", "wbr"}


def published(
    full: dict[str, Any],
    files: dict[str, Any] | None = None,
    *,
    publishes_rows: bool = True,
    publishes_counts: bool = True,
) -> dict[str, Any]:
    """The public version of a full report, with rows and rates unless the settings say otherwise."""
    shown = {**full, "publishes_rows": publishes_rows}
    return public_version(shown, (files or RAW)["claims"], publishes_counts=publishes_counts)


class Page(HTMLParser):
    """A page's tags and text; fails on tags that do not match."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(attrs) == len(dict(attrs)), f"an attribute is given twice in <{tag}>"
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def all(self, name: str) -> list[dict[str, str | None]]:
        return [attrs for tag, attrs in self.tags if tag == name]


def said(html: str, between: str = "") -> str:
    """What a page says, in one line; ``between`` stands where a tag was."""
    return " ".join(between.join(Page(html).text).split())
