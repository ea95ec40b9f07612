"""Inline SVG charts: no script, no style of their own, readable as text, and escaped by the XML writer.

Every figure that a chart shows is also in a table beside it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import SubElement

from markupsafe import Markup

from pipelines.report.numbers import count, is_number, percent, real
from pipelines.report.svg import WIDTH, coordinate, dot, line, markup, new_chart, rect, text, whisker

_LABEL_WIDTH = 128
_BAR_HEIGHT = 14
_ROW_HEIGHT = 24
_MAX_BARS = 14
_LETTERS = 18  # of a label that fit in its column


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
    svg = new_chart(
        len(ranked) * _ROW_HEIGHT + 4,
        "Masked tokens by label: " + ", ".join(f"{label} {count(n)}" for n, label in ranked),
    )
    room = WIDTH - _LABEL_WIDTH - 64
    for row, (num_tokens, label) in enumerate(ranked):
        top = row * _ROW_HEIGHT + 4
        length = max(1.0, room * num_tokens / largest)
        text(svg, _LABEL_WIDTH - 8, top + 11, _shortened(label), "end")
        rect(svg, _LABEL_WIDTH, top, length, _BAR_HEIGHT, "fill-private")
        text(svg, _LABEL_WIDTH + length + 6, top + 11, count(num_tokens))
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


def learning_curves(curves: Mapping[str, Sequence[tuple[float, float]]], x_name: str, y_name: str) -> Markup | None:
    """Draws curves over a shared axis; colour and dash tell the first three apart.

    Args:
        curves: (x, y) points in order, by the curve's name; curves without two finite points are left out.
        x_name, y_name: what the axes measure.

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
    x_low, x_high, y_low, y_high = min(xs), max(xs), min(ys), max(ys)
    if x_high == x_low:
        return None
    if y_high == y_low:
        y_low, y_high = y_low - 0.5, y_high + 0.5
    left, top, right, bottom = 52.0, 22.0, WIDTH - 8.0, 200.0
    spoken = "; ".join(f"{name} from {real(p[0][1], 3)} to {real(p[-1][1], 3)}" for name, p in drawn.items())
    svg = new_chart(244 + _ROW_HEIGHT * len(drawn), f"{y_name} by {x_name}: {spoken}")
    text(svg, 0, 11, y_name, css="soft")
    for part in range(5):
        y = bottom - (bottom - top) * part / 4
        line(svg, left, y, right, y, "grid")
        text(svg, left - 6, y + 4, real(y_low + (y_high - y_low) * part / 4, 3), "end")
    for part, anchor in ((0, "start"), (1, "middle"), (2, "end")):
        value = x_low + (x_high - x_low) * part / 2
        if part != 1 or value == int(value):  # there is no epoch one and a half
            text(svg, left + (right - left) * part / 2, bottom + 18, real(value), anchor)
    text(svg, right, bottom + 34, x_name, "end", css="soft")
    for index, (name, points) in enumerate(drawn.items()):
        path = " ".join(
            f"{coordinate(left + (right - left) * (x - x_low) / (x_high - x_low))},"
            f"{coordinate(bottom - (bottom - top) * (y - y_low) / (y_high - y_low))}"
            for x, y in points
        )
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
    return f"{row.name} estimated {percent(row.estimate)}{bound}"


def _shortened(label: str) -> str:
    return label if len(label) <= _LETTERS else label[: _LETTERS - 1] + "…"
