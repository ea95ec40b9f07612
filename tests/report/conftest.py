"""Figures as the stages write them (see sources.json), and reports made of them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from public_reports import RAW, published

from pipelines.report.figures import Sources, build
from pipelines.report.render import render_html

LINEAGE = [
    ("split", "partition-b", "ffff00000001"),
    ("split", "partition-a", "aaaa00000002"),
    ("dedup_resolve", None, "a1b2c3d4e5f6"),
    ("guarantee", None, "0123456789ab"),
]


@pytest.fixture
def raw() -> dict[str, Any]:
    """The parsed data files; a copy to change."""
    return copy.deepcopy(RAW)


@pytest.fixture
def make_report() -> Callable[..., dict[str, Any]]:
    """Builds a full report of (changed) data files."""

    def make(files: dict[str, Any], **changes: Any) -> dict[str, Any]:
        values = {"lineage": LINEAGE, "settings": {"redact": {"collapse": True}}, **files, **changes}
        return build(Sources(**values), title="A report")

    return make


@pytest.fixture
def full(raw: dict[str, Any], make_report: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """The full report of the figures as they are."""
    return make_report(raw)


@pytest.fixture
def pages(full: dict[str, Any]) -> dict[str, str]:
    """The pages of both versions."""
    return {"full": render_html(full), "public": render_html(published(full))}
