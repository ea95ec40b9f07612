"""Charts of a comparison: each figure by method with its interval, and the main one by epsilon."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from xml.etree.ElementTree import Element

from markupsafe import Markup

from pipelines.numbers import is_number, real, upper_bound
from pipelines.report.svg import WIDTH, Axis, dot, line, markup, new_chart, text, upright_whisker, whisker

_LINE_HEIGHT: Final = 16
_LETTERS: Final = 46  # of a name beside its figure
_LETTER_WIDTH: Final = 7.4
_APART: Final = 22.0  # points of equal epsilon
_COLUMN: Final = 90.0  # where they stand
_MOST_COLUMNS: Final = 4  # beyond them, epsilon is an axis
_LEGEND: Final = 290.0

Values = Mapping[str, float | None]
"""``mean``, ``low`` and ``high`` of a figure; None where there is none."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure of a comparison.

    Attributes:
        title: its name for people.
        least, most: limits of its values.
    """

    title: str
    least: float = -math.inf
    most: float = math.inf

    def axis(self, rows: Sequence[Values]) -> Axis:
        """An axis that has means and intervals on it."""
        values = (row[name] for row in rows for name in ("mean", "low", "high"))
        return Axis.over((value for value in values if value is not None), least=self.least, most=self.most)


def dot_plot(rows: Sequence[tuple[str, Values]], figure: Figure) -> Markup | None:
    """Draws a figure by method: a point, its interval, and above them the name. None if no method has it."""
    drawn = [(name, values) for name, values in rows if is_number(values["mean"])]
    if not drawn:
        return None
    axis = figure.axis([values for _, values in drawn])
    left, right = 8.0, WIDTH - 8.0

    def place(value: float) -> float:
        return left + (right - left) * axis.share(value)

    names = [textwrap.wrap(name, _LETTERS, break_on_hyphens=False) for name, _ in drawn]
    height = sum(_LINE_HEIGHT * (len(lines) + 1) + 6.0 for lines in names) + 50
    svg = new_chart(height, f"{figure.title}: " + "; ".join(_spoken(name, values) for name, values in drawn))
    text(svg, 0, 11, figure.title + _scale(axis), css="soft")
    for tick, label in axis.labelled_ticks():
        line(svg, place(tick), 22, place(tick), height - 24, "grid")
        text(svg, place(tick), height - 8, label, _anchor(axis.share(tick)))
    y = 36.0
    for lines, (_, values) in zip(names, drawn, strict=True):
        text(svg, WIDTH, y, real(values["mean"]), "end")
        for words in lines:
            text(svg, 0, y, words)
            y += _LINE_HEIGHT
        low, high = values["low"], values["high"]
        if low is not None and high is not None:
            whisker(svg, place(low), place(high), y - 5, 5)
        dot(svg, place(values["mean"] or 0.0), y - 5)
        y += _LINE_HEIGHT + 6
    return markup(svg)


def privacy_utility(points: Sequence[tuple[str, float, Values]], figure: Figure) -> Markup | None:
    """Draws a figure by epsilon; points without a finite epsilon stand in a column of their own.

    Args:
        points: name, epsilon, and the figure.
        figure: description of the figure.

    Returns:
        The chart with its legend, or None when nothing can be drawn.
    """
    drawn = [point for point in points if is_number(point[2]["mean"])]
    if not drawn:
        return None
    y_axis = figure.axis([values for _, _, values in drawn])
    left = max(58.0, 10 + _LETTER_WIDTH * max(len(label) for _, label in y_axis.labelled_ticks()))
    top, right, bottom = 22.0, WIDTH - 110.0, 230.0
    first, last, unbounded = left + 36, right - 24, WIDTH - 52.0
    bounded = [epsilon for _, epsilon, _ in drawn if math.isfinite(epsilon)]
    x_axis = Axis.over(bounded, least=0.0) if bounded else None
    ticks = [] if x_axis is None else x_axis.labelled_ticks()
    columns = list(dict.fromkeys(upper_bound(epsilon) for epsilon in sorted(bounded)))
    if len(columns) <= _MOST_COLUMNS:
        # A column for each epsilon: points of one stand side by side, and an axis would give each another epsilon.
        x_axis = Axis(-0.5, len(columns) - 0.5, is_log=False) if columns else None
        ticks = [(float(place), label) for place, label in enumerate(columns)]

    def across(epsilon: float) -> float:
        if x_axis is None or not math.isfinite(epsilon):
            return unbounded
        place = float(columns.index(upper_bound(epsilon))) if len(columns) <= _MOST_COLUMNS else epsilon
        return first + (last - first) * x_axis.share(place)

    svg = new_chart(
        _LEGEND + sum(_LINE_HEIGHT * len(lines) + 6 for lines in _legend(drawn)),
        f"{figure.title} by epsilon: " + "; ".join(_spoken(name, values) for name, _, values in drawn),
    )
    text(svg, 0, 11, figure.title + _scale(y_axis), css="soft")

    def height(value: float) -> float:
        return bottom - (bottom - top) * y_axis.share(value)

    for tick, label in y_axis.labelled_ticks():
        line(svg, left, height(tick), WIDTH, height(tick), "grid")
        text(svg, left - 6, height(tick) + 4, label, "end")
    if x_axis is not None:
        for tick, label in ticks:
            text(svg, first + (last - first) * x_axis.share(tick), bottom + 18, label, "middle")
        text(svg, (left + right) / 2, bottom + 34, "ε" + _scale(x_axis), "middle", css="soft")
    if len(bounded) < len(drawn):
        line(svg, right + 14, top, right + 14, bottom, "grid")
        text(svg, unbounded, bottom + 18, "no ε", "middle")
    places: dict[float, list[int]] = {}
    for number, (_, epsilon, _) in enumerate(drawn):
        places.setdefault(across(epsilon), []).append(number)
    for middle, numbers in places.items():
        for at, number in enumerate(numbers):
            # Side by side, so that whiskers do not hide others.
            x = middle + (at - (len(numbers) - 1) / 2) * min(_APART, _COLUMN / len(numbers))
            _point(svg, x, drawn[number][2], height, str(number + 1))
    y = _LEGEND
    for lines in _legend(drawn):
        for words in lines:
            text(svg, 0, y, words)
            y += _LINE_HEIGHT
        y += 6
    return markup(svg)


def _point(svg: Element, x: float, values: Values, height: Callable[[float], float], name: str) -> None:
    low, high = values["low"], values["high"]
    if low is not None and high is not None:
        upright_whisker(svg, height(low), height(high), x, 4)
    dot(svg, x, height(values["mean"] or 0.0))
    text(svg, x + 5, height(values["mean"] or 0.0) - 4, name)


def _legend(drawn: Sequence[tuple[str, float, Values]]) -> list[list[str]]:
    return [
        textwrap.wrap(f"{number}  {name}: {real(values['mean'])}", _LETTERS + 10, break_on_hyphens=False)
        for number, (name, _, values) in enumerate(drawn, 1)
    ]


def _scale(axis: Axis) -> str:
    return " (logarithmic)" if axis.is_log else ""


def _anchor(share: float) -> str:
    return "start" if share < 0.06 else "end" if share > 0.94 else "middle"


def _spoken(name: str, values: Values) -> str:
    interval = "" if values["low"] is None else f" ({real(values['low'], 3)} to {real(values['high'], 3)})"
    return f"{name} {real(values['mean'], 3)}{interval}"
