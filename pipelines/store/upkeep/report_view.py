"""The page of the full report that people open: with the run that made it, and examples of rows that are open.

The report itself depends on its inputs only, so the run and its date stand in the view below ``latest/`` alone. So do
the examples: they quote the text, and `reticent forget` removes the view and leaves the report.
"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

from pipelines.files import write_atomic
from pipelines.methods.registry import method
from pipelines.policies.sharding import SHARD
from pipelines.store.objects import runs
from pipelines.store.place.disk import made_whole, remove_tree, replace_link
from pipelines.store.place.roots import Roots
from pipelines.store.upkeep.samples import SampledFrom, redacted_rows, written_texts

_NAME: Final = "report"
_PAGE: Final = "report.html"
_DOCUMENT: Final = "report.json"
_NUM_EXAMPLES: Final = 5
_MOST_CHARACTERS: Final = 300


def report_view(
    roots: Roots, run_id: str, report: str, shards: Sequence[str], sampled: SampledFrom | None = None
) -> Path:
    """Makes the folder that ``latest/report`` shows, and returns it. Its name depends on the report and the shards.

    Args:
        run_id: run that made the page.
        report: key of the report.
        shards: keys of the rows that the report is about.
        sampled: text and model to show samples of; None for none.
    """
    target = _views(roots) / hashlib.sha256("\0".join([report, *shards]).encode()).hexdigest()[:16]
    if target.is_dir():
        return target
    from pipelines.report.render import Making, render_html  # jinja2, which a run with nothing to do does not load

    artifact = roots.object_dir("private", _NAME, report)
    document = roots.private_files(_NAME, report).json(_DOCUMENT)
    made = Making(
        run_id=run_id,
        started=runs.started_at(run_id),
        examples=_examples(roots, document, shards, target.name),
        redacted=() if sampled is None else redacted_rows(roots, sampled, target.name),
        written=() if sampled is None else written_texts(sampled),
    )
    with made_whole(target) as building:
        write_atomic(building / _PAGE, render_html(document, made).encode())
        (building / _DOCUMENT).symlink_to(os.path.relpath(artifact / _DOCUMENT, target))
    return target


def shown_report(roots: Roots) -> Path | None:
    """Returns the folder of the report that ``latest/report`` shows. None if it shows none."""
    document = roots.private / "latest" / _NAME / _DOCUMENT
    return document.resolve().parent if document.exists() else None


def forget_examples(roots: Roots) -> None:
    """Removes every page with examples. ``latest/report`` then shows the report without them, until a run comes."""
    if (report := shown_report(roots)) is not None:
        replace_link(roots.private / "latest" / _NAME, report)
    for view in _views(roots).glob("*"):
        remove_tree(view)


def _views(roots: Roots) -> Path:
    return roots.private / "views" / _NAME


def _examples(roots: Roots, report: dict[str, Any], shards: Sequence[str], seed: str) -> tuple[str, ...]:
    """Draws rows that are published, or that the model read without noise, as they were written."""
    name = report["training"].get("method")
    if not report["publishes_rows"] and not (name and method(name).trains_on_public_rows):
        return ()
    tables = [roots.private_files("shard", key).table(SHARD, "public") for key in shards]
    numbers = [table.num_rows for table in tables]
    drawn = sorted(random.Random(seed).sample(range(sum(numbers)), min(_NUM_EXAMPLES, sum(numbers))))  # noqa: S311
    found: list[str] = []
    first = 0
    for table, number in zip(tables, numbers, strict=True):
        inside = [place - first for place in drawn if first <= place < first + number]
        if inside:
            rows = islice(table.rows(["redacted_text"]), inside[-1] + 1)
            found += [row["redacted_text"] for place, row in enumerate(rows) if place in inside]
        first += number
    return tuple(text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]} …" for text in found)
