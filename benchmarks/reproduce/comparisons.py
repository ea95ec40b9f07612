"""Drawings of a paper's table beside ours: each figure over that of one row, because models and data differ."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from xml.etree.ElementTree import SubElement, tostring

from .drawings import COLOURS, Picture, canvas, text, ticks
from .verdicts import Results

NAMES_WIDTH, ROW, WIDTH, TOP = 250, 22, 620, 34
Value = Callable[[Mapping[str, Any]], float | None]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A table of a paper beside ours.

    Attributes:
        paper: short name of the paper.
        title: title below the drawing.
        baseline: identity of the row that all figures are divided by.
        rows: identities of the rows, by the name that is drawn.
    """

    paper: str
    title: str
    baseline: str
    rows: Mapping[str, str]


COMPARISONS: Final = (
    Comparison(
        paper="jft",
        title="JFT, Tables 2 and 3: perplexity a token over that before any fine-tuning (WikiText-2)",
        baseline="jft/table2/WikiText-2, no fine-tuning",
        rows={
            "No-DP": "jft/table2/WikiText-2, No-DP",
            "DPSGD": "jft/table3/WikiText-2, DPSGD",
            "redacted, low contextual": "jft/table2/WikiText-2, redacted, low contextual",
            "jft, low contextual": "jft/table2/WikiText-2, jft, low contextual",
            "redacted, high contextual": "jft/table2/WikiText-2, redacted, high contextual",
            "jft, high contextual": "jft/table2/WikiText-2, jft, high contextual",
            "jft + light noise": "jft/table3/WikiText-2, jft + light noise",
            "jft + light conservative noise": "jft/table3/WikiText-2, jft + light conservative noise",
        },
    ),
    Comparison(
        paper="strong",
        title="Li et al., Table 2: BLEU over that of full fine-tuning without privacy (E2E)",
        baseline="strong/table2/full, non-private, BLEU",
        rows={
            f"{method}, {level}": f"strong/table2/{method}, {level}, BLEU"
            for method in ("full", "LoRA", "prefix", "top2", "retrain")
            for level in ("non-private", "ε = 8")
            if (method, level) != ("full", "non-private")
        },
    ),
)


def ratios(comparison: Comparison, known: Results, value: Value) -> dict[str, tuple[float, float]]:
    """Returns the paper's ratio and ours by row, of the rows that have both figures."""

    def ours(name: str) -> float | None:
        found = [value(result) for result in known[name][1]]
        kept = [one for one in found if one is not None]
        return math.fsum(kept) / len(kept) if kept else None

    base, theirs = ours(comparison.baseline), known[comparison.baseline][0].number
    if not base or not theirs:
        return {}
    rows = {}
    for shown, name in comparison.rows.items():
        own, printed = ours(name), known[name][0].number
        if own is not None and printed is not None:
            rows[shown] = (printed / theirs, own / base)
    return rows


def write(known: Results, folder: Path, value: Value) -> list[Picture]:
    """Draws the comparisons that have rows.

    Args:
        known: results by cell.
        folder: folder of images.
        value: function that returns a result's figure in the paper's unit.
    """
    found = []
    for comparison in COMPARISONS:
        if rows := ratios(comparison, known, value):
            file = f"compared-{comparison.paper}.svg"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(_drawn(comparison.title, rows) + "\n", encoding="utf-8")
            found.append(Picture(paper=comparison.paper, file=file, title=comparison.title))
    return found


def _drawn(title: str, rows: Mapping[str, tuple[float, float]]) -> str:
    bottom = TOP + ROW * len(rows)
    told = "; ".join(f"{name}: paper {paper:.2f}, here {ours:.2f}" for name, (paper, ours) in rows.items())
    picture = canvas(WIDTH, bottom + 44, f"{title}: {told}")
    marks = ticks([0.0, *(ratio for pair in rows.values() for ratio in pair)])

    def across(ratio: float) -> float:
        return round(NAMES_WIDTH + (WIDTH - NAMES_WIDTH - 24) * ratio / marks[-1], 1)

    for mark in marks:
        line = {"x1": str(across(mark)), "x2": str(across(mark)), "y1": str(TOP), "y2": str(bottom), "stroke": "#ddd"}
        SubElement(picture, "line", line)
        text(picture, across(mark), bottom + 16, f"{mark:,.6g}", "middle")
    for number, (name, pair) in enumerate(rows.items()):
        level = TOP + ROW * number + ROW // 2
        text(picture, NAMES_WIDTH - 10, level + 4, name, "end")
        for ratio, look in zip(pair, _LOOKS, strict=True):
            SubElement(picture, "circle", {"cx": str(across(ratio)), "cy": str(level), "r": "5", **look})
    for number, (name, look) in enumerate(zip(("the paper", "here"), _LOOKS, strict=True)):
        at = NAMES_WIDTH + 100 * number
        SubElement(picture, "circle", {"cx": str(at), "cy": "16", "r": "5", **look})
        text(picture, at + 10, 20, name)
    return tostring(picture, encoding="unicode")


_LOOKS: Final[tuple[dict[str, str], ...]] = (
    {"fill": "#fff", "stroke": COLOURS[2], "stroke-width": "2"},
    {"fill": COLOURS[0], "stroke": COLOURS[0], "stroke-width": "2"},
)
"""Looks of the paper's mark and of ours: hollow and filled, so that they differ without colours."""
