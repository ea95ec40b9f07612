"""The data files of the tests here, and the public version with all that settings can put into it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pipelines.report.public import public_version

RAW = json.loads((Path(__file__).parent / "sources.json").read_text("utf-8"))


def published(full: dict[str, Any], files: dict[str, Any] | None = None, **settings: Any) -> dict[str, Any]:
    """The public version of a full report, with rows and rates unless the settings say otherwise."""
    settings = {"publishes_rows": True, "publishes_counts": True, **settings}
    return public_version(full, (files or RAW)["claims"], **settings)
