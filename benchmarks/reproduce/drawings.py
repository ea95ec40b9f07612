"""Drawings of results with the axes and series of the papers' figures; a series appears once it has a point."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from xml.etree.ElementTree import Element, SubElement, tostring

from .verdicts import Results, values_of

Point = tuple[float, float]
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 560, 300, 60, 26, 46
MOST_DOTS: Final = 25
"""Number of points from which a joined line has no dots."""
COLOURS: Final = ("#b34700", "#1f5c46", "#2a5db0", "#7b3f98", "#8a6d00", "#c2185b", "#59636e", "#00838f")


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A drawing that was written."""

    paper: str
    file: str
    title: str
    source: str = ""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure.

    Attributes:
        paper, place: paper, and its figure.
        title: title below the figure.
        x_name, y_name: names of the axes.
        series: cells of each line by its name, each with its x, or with the name of the figure that is its x.
        joined: true if points of a series are joined.
        is_log2: true if x is a logarithm to the base of two, of what the axis shows.
    """

    paper: str
    place: str
    title: str
    x_name: str
    y_name: str
    series: Mapping[str, Sequence[tuple[str, float | str]]]
    joined: bool = True
    is_log2: bool = False


def _gammas(place: str, name: str) -> list[tuple[str, float | str]]:
    return [(f"crt/{place}/WikiText-2, {name}, γ = {gamma:g}", gamma) for gamma in (0.0, 0.1, 0.3, 0.5)]


def _of_gamma(place: str, title: str, y_name: str) -> Figure:
    return Figure(
        paper="crt",
        place=place,
        title=title,
        x_name="γ, share that the policy misses",
        y_name=y_name,
        series={name: _gammas(place, name) for name in ("No-DP with mask", "CRT")},
    )


def _attacked(
    place: str, title: str, cells: str, names: Sequence[str], y_name: str = "exposure, bits", part: str = ""
) -> Figure:
    """A figure of attacks on the LSTMs of Selective DP; ``cells`` begins the names of its cells."""
    return Figure(
        paper="selective",
        place=f"{place}{part}",
        joined=False,
        title=f"Selective DP, {title}; a point a seed",
        x_name="perplexity a word",
        y_name=y_name,
        series={name: [(f"selective/{place}/{cells}, {name}", "perplexity_per_word")] for name in names},
    )


_LSTMS: Final = ("No-DP", "DPSGD", "S-DPSGD")
FIGURES: Final = (
    _attacked("figure3", "Figure 3 (b): exposure on WikiText-2", "exposure", _LSTMS),
    _attacked("figure3", "Figure 3 (c): membership of digits (WikiText-2)", "digits", _LSTMS, "% accuracy", "c"),
    _attacked("figure4", "Figure 4 (b): exposure on CustomerSim", "exposure", _LSTMS),
    _attacked("figure6", "Figure 6: a missed canary", "exposure of a missed canary", ("anonymised", "S-DPSGD")),
    Figure(
        paper="domain",
        place="figure1",
        joined=False,
        title="Domain privacy, Figure 1: leaks by keywords beside perplexity; means of three trainings",
        x_name="perplexity a token",
        y_name="% of texts",
        series={
            model: [(f"domain/figure1/{model}, keyword policy", "perplexity")]
            for model in ("Public", "Pub+Redacted", "Private", "JFT", "Redaction Schedule")
        },
    ),
    Figure(
        paper="jft",
        place="figure2",
        joined=False,
        title="JFT, Figure 2: exposure of canaries of ten copies against utility; a point a seed",
        x_name="perplexity a word",
        y_name="exposure, bits",
        series={
            name: [(f"jft/figure2/{name}", "perplexity_per_word")]
            for name in (
                "No-DP",
                "DPSGD",
                "CRT",
                "Redacted (missed)",
                "Redacted (not missed)",
                "jft (missed)",
                "jft (not missed)",
                "jft + light noise (missed)",
            )
        },
    ),
    _of_gamma("figure3", "CRT, Figure 3: the largest exposure of ten canaries", "exposure, bits"),
    _of_gamma("figure4", "CRT, Figure 4: membership inference", "AUC"),
    _of_gamma("figure5", "CRT, Figure 5: membership inference of groups of 20", "AUC of groups"),
    Figure(
        paper="crt",
        place="figure6",
        title="CRT, Figure 6: Bayesian ε that is left",
        x_name="γ",
        y_name="ε",
        series={
            f"ε' = {e:g}": [(f"crt/figure6/ε' = {e:g}, γ = {g:g}", g) for g in (0.05, 0.1, 0.2, 0.5)]
            for e in (1.0, 2.0, 3.0)
        },
    ),
    Figure(
        paper="strong",
        place="figure3",
        title="Li et al., Figure 3 (left): noise multiplier over batch size, ε = 3",
        x_name="batch size",
        is_log2=True,
        y_name="σ over batch size",
        series={
            "400 steps, rows of E2E": [
                (f"strong/figure3/noise over batch {b}, ε = 3", math.log2(b)) for b in (64, 256, 1024, 4096)
            ]
        },
    ),
    Figure(
        paper="strong",
        place="figure7",
        title="Li et al., Figure 7: noise by the square-root rule over the noise that is needed",
        x_name="batch size",
        is_log2=True,
        y_name="σ by the rule over σ needed",
        series={
            "50,000 rows, 50 epochs": [
                (f"strong/figure7/σ by the square-root rule over σ needed, batch {b}", math.log2(b))
                for b in (16, 64, 256, 1024)
            ]
        },
    ),
)


def write(known: Results, folder: Path) -> list[Picture]:
    """Draws the figures that have points."""
    found = []
    for figure in FIGURES:
        lines = {name: [points] for name, cells in figure.series.items() if (points := points_of(known, cells))}
        if not lines:
            continue
        file = f"reproduced-{figure.paper}-{figure.place}.svg"
        folder.mkdir(parents=True, exist_ok=True)
        picture = tostring(drawn(figure, lines), encoding="unicode")
        (folder / file).write_text(picture + "\n", encoding="utf-8")
        found.append(Picture(paper=figure.paper, file=file, title=figure.title))
    return found


def points_of(known: Results, cells: Sequence[tuple[str, float | str]]) -> list[Point]:
    """Returns means over seeds if x is a setting; a point for each seed if it was measured."""
    points: list[Point] = []
    for name, x in cells:
        results: Sequence[Mapping[str, Any]] = known[name][1]
        if isinstance(x, str):
            points += [(result["figures"][x], result["value"]) for result in results if result["value"] is not None]
        elif values := list(values_of(results).values()):
            points.append((x, math.fsum(values) / len(values)))
    return points


def canvas(width: float, height: float, label: str) -> Element:
    """Returns an empty drawing with a white ground and a label for readers who cannot see it."""
    font = {"font-family": "sans-serif", "font-size": "12", "role": "img", "aria-label": label}
    box = {"xmlns": "http://www.w3.org/2000/svg", "viewBox": f"0 0 {width} {height}"}
    picture = Element("svg", {**box, **font})
    SubElement(picture, "rect", {"width": str(width), "height": str(height), "fill": "#fff"})
    return picture


def drawn(figure: Figure, lines: Mapping[str, Sequence[Sequence[Point]]]) -> Element:
    """Returns the drawing of lines by the name of their series, with a dot for each point of a short one."""
    height = HEIGHT + BOTTOM + 18 * ((len(lines) + 2) // 3)
    picture = canvas(WIDTH, height, f"{figure.title}: {', '.join(lines)}")
    points = [point for rows in lines.values() for row in rows for point in row]
    across_ticks = ticks([x for x, _ in points] or [0.0])
    level_ticks = ticks([0.0, *(y for _, y in points)])
    (low_x, high_x), (low_y, high_y) = ((marks[0], marks[-1]) for marks in (across_ticks, level_ticks))
    right = WIDTH - 30

    def place(x: float, y: float) -> tuple[float, float]:
        across = LEFT + (right - LEFT) * (x - low_x) / (high_x - low_x)
        return round(across, 1), round(HEIGHT - (HEIGHT - TOP) * (y - low_y) / (high_y - low_y), 1)

    for y in level_ticks:
        _, level = place(low_x, y)
        ends = {"x1": str(LEFT), "x2": str(right), "y1": str(level), "y2": str(level), "stroke": "#ddd"}
        SubElement(picture, "line", ends)
        text(picture, LEFT - 6, level + 4, f"{y:,.6g}", "end")
    for x in across_ticks:
        across, _ = place(x, low_y)
        text(picture, across, HEIGHT + 18, f"{2**x:,.6g}" if figure.is_log2 else f"{x:,.6g}", "middle")
    text(picture, right, HEIGHT + 36, figure.x_name, "end")
    text(picture, 6, TOP - 12, figure.y_name)
    for number, (name, rows) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        for row in rows:
            spots = [place(*point) for point in row]
            if figure.joined:
                path = " ".join(f"{x},{y}" for x, y in spots)
                SubElement(picture, "polyline", {"points": path, "fill": "none", "stroke": colour})
            for x, y in spots if len(spots) < MOST_DOTS or not figure.joined else ():
                SubElement(picture, "circle", {"cx": str(x), "cy": str(y), "r": "3.5", "fill": colour})
        at, level = LEFT + number % 3 * 165, HEIGHT + BOTTOM + 12 + number // 3 * 18
        SubElement(picture, "circle", {"cx": str(at), "cy": str(level - 4), "r": "4", "fill": colour})
        text(picture, at + 8, level, name)
    return picture


def ticks(values: Sequence[float]) -> list[float]:
    """Returns round numbers from below the least value to above the largest, a step of 1, 2 or 5 times 10^n apart.

    There are three to seven of them; values that are all alike lie between two.
    """
    low, high = min(values), max(values)
    span = high - low or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / 5))
    step = next(power * factor for factor in (1, 2, 5, 10) if span / (power * factor) <= 5)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, max(last, first + 1) + 1)]


def text(picture: Element, x: float, y: float, said: str, anchor: str = "start") -> None:
    SubElement(picture, "text", {"x": f"{x:g}", "y": f"{y:g}", "text-anchor": anchor}).text = said
