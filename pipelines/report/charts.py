"""Inline SVG charts: no script, no style of their own, readable as text, and escaped by the XML writer.

Every figure that a chart shows is also in a table beside it.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import SubElement

from markupsafe import Markup

from pipelines.numbers import count, is_number, percent, real
from pipelines.report.svg import WIDTH, Axis, coordinate, dot, line, markup, new_chart, rect, text, whisker

_LETTER_WIDTH, _CAPITAL_WIDTH = 7.1, 8.8
_BAR_HEIGHT = 14
_ROW_HEIGHT = 24
_MAX_BARS = 14
_MOST_LETTERS = 28  # of a line of a label; a longer one takes several
_LINE_HEIGHT = 14


def coverage_bars(masked_tokens_by_label: Mapping[str, int]) -> Markup | None:
    """Draws bars of masked tokens by label, longest first; the rest beyond `_MAX_BARS` is summed up.

    Returns:
        The chart, or None when nothing was masked.
    """
    ranked = sorted(((n, label) for label, n in masked_tokens_by_label.items() if n > 0), key=lambda x: (-x[0], x[1]))
    if not ranked:
        return None
    if len(ranked) > _MAX_BARS:
        rest = ranked[_MAX_BARS - 1 :]
        ranked = [*ranked[: _MAX_BARS - 1], (sum(n for n, _ in rest), f"{len(rest)} other labels")]
    largest = max(n for n, _ in ranked)
    labels = [textwrap.wrap(label, _MOST_LETTERS) or [""] for _, label in ranked]
    heights = [_ROW_HEIGHT + _LINE_HEIGHT * (len(lines) - 1) for lines in labels]
    svg = new_chart(
        sum(heights) + 4, "Masked tokens by label: " + ", ".join(f"{label} {count(n)}" for n, label in ranked)
    )
    left = 8 + max(
        sum(_CAPITAL_WIDTH if letter.isupper() else _LETTER_WIDTH for letter in words)
        for lines in labels
        for words in lines
    )
    room = WIDTH - left - 64
    top = 4.0
    for (num_tokens, _), lines, height in zip(ranked, labels, heights, strict=True):
        length = max(1.0, room * num_tokens / largest)
        for number, words in enumerate(lines):
            text(svg, left - 8, top + 11 + _LINE_HEIGHT * number, words, "end")
        rect(svg, left, top, length, _BAR_HEIGHT, "fill-private")
        text(svg, left + length + 6, top + 11, count(num_tokens))
        top += height
    return markup(svg)


def shard_bar(parts: Sequence[tuple[str, str, int]]) -> Markup | None:
    """Draws a stacked bar.

    Args:
        parts: (name, CSS class, number of rows), from left to right.

    Returns:
        The chart with its legend, or None when there are no rows.
    """
    total = sum(n for _, _, n in parts)
    if total <= 0 or any(n < 0 for _, _, n in parts):
        return None
    svg = new_chart(
        44 + _ROW_HEIGHT * len(parts),
        "Training records: " + ", ".join(f"{name} {count(n)} ({percent(n / total)})" for name, _, n in parts),
    )
    left = 0.0
    for name, css, num_rows in parts:
        length = WIDTH * num_rows / total
        if num_rows:
            part = rect(svg, left, 4, length, 28, css)
            SubElement(part, "title").text = f"{name}: {count(num_rows)}"
        left += length
    for row, (name, css, num_rows) in enumerate(parts):
        top = 44 + row * _ROW_HEIGHT
        rect(svg, 0, top, 12, 12, css)
        text(svg, 20, top + 11, f"{name}: {count(num_rows)} ({percent(num_rows / total)})")
    return markup(svg)


@dataclass(frozen=True)
class Interval:
    """A row of `interval_plot`: an estimate and its bounds, all fractions; None if not measured."""

    name: str
    estimate: float | None
    lower: float | None
    upper: float | None


def interval_plot(rows: Sequence[Interval]) -> Markup | None:
    """Draws estimates and bounds on a logarithmic axis, which has no zero: an estimate of 0 is an arrow.

    Returns:
        The chart, or None when no row holds a positive number.
    """
    values = [v for r in rows for v in (r.estimate, r.lower, r.upper) if is_number(v) and v is not None and v > 0]
    if not values:
        return None
    low = min(-1, math.floor(math.log10(min(values))))
    high = 0
    left, right = 64.0, WIDTH - 16.0

    def place(value: float) -> float:
        share = 0.0 if value <= 0 else (math.log10(value) - low) / (high - low)
        return left + (right - left) * min(1.0, max(0.0, share))

    height = 34 * len(rows) + 30
    svg = new_chart(height, "Miss rates with their bounds: " + "; ".join(_spoken(row) for row in rows))
    for exponent in range(low, high + 1, max(1, math.ceil((high - low) / 4))):
        x = place(10.0**exponent)
        line(svg, x, 6, x, height - 24, "grid")
        text(svg, x, height - 8, percent(10.0**exponent), "middle" if exponent < high else "end")
    for index, row in enumerate(rows):
        y = 22 + 34 * index
        text(svg, 4, y + 4, row.name)
        if row.upper is None and row.estimate is None:
            text(svg, left + 6, y + 4, "not measured", css="soft")
            continue
        if row.upper is not None:
            start = place(row.lower) if row.lower is not None else left
            whisker(svg, start, place(row.upper), y, 7, is_open=not row.lower)
        if row.estimate is not None and row.estimate > 0:
            dot(svg, place(row.estimate), y, 5.0)
        elif row.estimate is not None:
            corners = ((left, y), (left + 10, y - 6), (left + 10, y + 6))
            points = " ".join(f"{coordinate(x)},{coordinate(y)}" for x, y in corners)
            SubElement(svg, "polygon", {"points": points, "class": "fill-accent"})
    return markup(svg)


def learning_curves(
    curves: Mapping[str, Sequence[tuple[float, float]]], x_name: str, y_name: str, *, has_diagonal: bool = False
) -> Markup | None:
    """Draws curves over a shared axis; colour and dash tell the first three apart.

    Args:
        curves: (x, y) points in order, by the curve's name; curves without two finite points are left out.
        x_name, y_name: what the axes measure.
        has_diagonal: true for a line from (0, 0) to (1, 1).

    Returns:
        The chart with its legend, or None when nothing can be drawn.
    """
    drawn = {
        name: finite
        for name, points in curves.items()
        if len(finite := [(x, y) for x, y in points if is_number(x) and is_number(y)]) >= 2
    }
    if not drawn:
        return None
    xs = [x for points in drawn.values() for x, _ in points]
    ys = [y for points in drawn.values() for _, y in points]
    if min(xs) == max(xs):
        return None
    across = Axis(min(xs), max(xs), is_log=False)
    upright = Axis.linear(ys, least=min(0.0, *ys), most=1.0 if max(*xs, *ys) == 1.0 else math.inf)
    left, top, right, bottom = 52.0, 22.0, WIDTH - 8.0, 200.0

    def place(x: float, y: float) -> tuple[float, float]:
        return left + (right - left) * across.share(x), bottom - (bottom - top) * upright.share(y)

    spoken = "; ".join(f"{name} from {real(p[0][1], 3)} to {real(p[-1][1], 3)}" for name, p in drawn.items())
    svg = new_chart(244 + _ROW_HEIGHT * len(drawn), f"{y_name} by {x_name}: {spoken}")
    text(svg, 0, 11, y_name, css="soft")
    for tick, label in upright.labelled_ticks():
        _, y = place(across.low, tick)
        line(svg, left, y, right, y, "grid")
        text(svg, left - 6, y + 4, label, "end")
    for tick, label in across.labelled_ticks():
        if tick == int(tick) or not all(x == int(x) for x in xs):  # there is no epoch one and a half
            x, _ = place(tick, upright.low)
            text(svg, x, bottom + 18, label, "end" if x > right - 12 else "middle")
    text(svg, right, bottom + 34, x_name, "end", css="soft")
    if has_diagonal:
        line(svg, *place(0.0, 0.0), *place(1.0, 1.0), "whisker")
    for index, (name, points) in enumerate(drawn.items()):
        path = " ".join(f"{coordinate(x)},{coordinate(y)}" for x, y in (place(*point) for point in points))
        css = f"curve curve-{index % 3}"
        SubElement(svg, "polyline", {"points": path, "class": css})
        y = 248 + index * _ROW_HEIGHT
        line(svg, 0, y, 28, y, css)
        text(svg, 36, y + 4, name)
    return markup(svg)


def _spoken(row: Interval) -> str:
    if row.estimate is None and row.upper is None:
        return f"{row.name} not measured"
    bound = f", at most {percent(row.upper, upper=True)}" if row.upper is not None else ""
    estimate = percent(row.estimate, upper=row.lower is None)  # gamma and delta2 are rounded up wherever they stand
    return f"{row.name} estimated {estimate}{bound}"
