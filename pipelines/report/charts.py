"""Inline SVG charts: no script, no style of their own, readable as text, and escaped by the XML writer.

Every chart is 400 units wide, so that its letters keep a readable size on a phone; colours come from the page's
classes, so that light, dark and print agree; and every figure that a chart shows is also in a table beside it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from xml.etree.ElementTree import Element, SubElement, tostring

from markupsafe import Markup

from pipelines.report.numbers import count, is_number, percent, real

WIDTH: Final = 400
_LABEL_WIDTH = 128
_BAR_HEIGHT = 14
_ROW_HEIGHT = 24
_MAX_BARS = 14
_LETTERS = 18  # of a label that fit in its column


def coverage_bars(masked_tokens_by_label: Mapping[str, int]) -> Markup | None:
    """Bars of masked tokens by label, longest first; the rest beyond `_MAX_BARS` is summed up.

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
    svg = _svg(
        len(ranked) * _ROW_HEIGHT + 4,
        "Masked tokens by label: " + ", ".join(f"{label} {count(n)}" for n, label in ranked),
    )
    room = WIDTH - _LABEL_WIDTH - 64
    for row, (num_tokens, label) in enumerate(ranked):
        top = row * _ROW_HEIGHT + 4
        length = max(1.0, room * num_tokens / largest)
        _text(svg, _LABEL_WIDTH - 8, top + 11, _shortened(label), "end")
        _rect(svg, _LABEL_WIDTH, top, length, _BAR_HEIGHT, "fill-private")
        _text(svg, _LABEL_WIDTH + length + 6, top + 11, count(num_tokens))
    return _markup(svg)


def shard_bar(parts: Sequence[tuple[str, str, int]]) -> Markup | None:
    """One stacked bar.

    Args:
        parts: (name, CSS class, number of rows), from left to right.

    Returns:
        The chart with its legend, or None when there are no rows.
    """
    total = sum(n for _, _, n in parts)
    if total <= 0 or any(n < 0 for _, _, n in parts):
        return None
    svg = _svg(
        44 + _ROW_HEIGHT * len(parts),
        "Training records: " + ", ".join(f"{name} {count(n)} ({percent(n / total)})" for name, _, n in parts),
    )
    left = 0.0
    for name, css, num_rows in parts:
        length = WIDTH * num_rows / total
        if num_rows:
            rect = _rect(svg, left, 4, length, 28, css)
            SubElement(rect, "title").text = f"{name}: {count(num_rows)}"
        left += length
    for row, (name, css, num_rows) in enumerate(parts):
        top = 44 + row * _ROW_HEIGHT
        _rect(svg, 0, top, 12, 12, css)
        _text(svg, 20, top + 11, f"{name}: {count(num_rows)} ({percent(num_rows / total)})")
    return _markup(svg)


@dataclass(frozen=True)
class Interval:
    """One row of `interval_plot`: an estimate and what bounds it, all fractions; None where not measured."""

    name: str
    estimate: float | None
    lower: float | None
    upper: float | None


def interval_plot(rows: Sequence[Interval]) -> Markup | None:
    """Point estimates and bounds on a logarithmic axis, which has no zero: an estimate of 0 is drawn as an arrow.

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
    svg = _svg(height, "Miss rates with their bounds: " + "; ".join(_spoken(row) for row in rows))
    for exponent in range(low, high + 1, max(1, math.ceil((high - low) / 4))):
        x = place(10.0**exponent)
        _line(svg, x, 6, x, height - 24, "grid")
        _text(svg, x, height - 8, percent(10.0**exponent), "middle" if exponent < high else "end")
    for index, row in enumerate(rows):
        y = 22 + 34 * index
        _text(svg, 4, y + 4, row.name)
        if row.upper is None and row.estimate is None:
            _text(svg, left + 6, y + 4, "not measured", css="soft")
            continue
        start = place(row.lower) if row.lower is not None else left
        if row.upper is not None:
            _line(svg, start, y, place(row.upper), y, "whisker")
            _line(svg, place(row.upper), y - 7, place(row.upper), y + 7, "whisker")
        if row.lower is not None and row.lower > 0:
            _line(svg, start, y - 7, start, y + 7, "whisker")
        if row.estimate is not None and row.estimate > 0:
            SubElement(svg, "circle", {"cx": _n(place(row.estimate)), "cy": _n(y), "r": "5", "class": "fill-accent"})
        elif row.estimate is not None:
            points = f"{_n(left)},{_n(y)} {_n(left + 10)},{_n(y - 6)} {_n(left + 10)},{_n(y + 6)}"
            SubElement(svg, "polygon", {"points": points, "class": "fill-accent"})
    return _markup(svg)


def learning_curves(curves: Mapping[str, Sequence[tuple[float, float]]], x_name: str, y_name: str) -> Markup | None:
    """One line a curve over a shared axis, the first three apart by colour and dash.

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
    svg = _svg(244 + _ROW_HEIGHT * len(drawn), f"{y_name} by {x_name}: {spoken}")
    _text(svg, 0, 11, y_name, css="soft")
    for part in range(5):
        y = bottom - (bottom - top) * part / 4
        _line(svg, left, y, right, y, "grid")
        _text(svg, left - 6, y + 4, real(y_low + (y_high - y_low) * part / 4, 3), "end")
    for part, anchor in ((0, "start"), (1, "middle"), (2, "end")):
        value = x_low + (x_high - x_low) * part / 2
        if part != 1 or value == int(value):  # there is no epoch one and a half
            _text(svg, left + (right - left) * part / 2, bottom + 18, real(value), anchor)
    _text(svg, right, bottom + 34, x_name, "end", css="soft")
    for index, (name, points) in enumerate(drawn.items()):
        path = " ".join(
            f"{_n(left + (right - left) * (x - x_low) / (x_high - x_low))},"
            f"{_n(bottom - (bottom - top) * (y - y_low) / (y_high - y_low))}"
            for x, y in points
        )
        css = f"curve curve-{index % 3}"
        SubElement(svg, "polyline", {"points": path, "class": css})
        y = 248 + index * _ROW_HEIGHT
        _line(svg, 0, y, 28, y, css)
        _text(svg, 36, y + 4, name)
    return _markup(svg)


def privacy_utility(points: Sequence[tuple[str, float, Mapping[str, float | None]]], title: str) -> Markup | None:
    """A figure by epsilon, both logarithmic; points without a finite epsilon stand in a column of their own.

    Args:
        points: name, epsilon, and ``mean``, ``low``, ``high`` of the figure; low and high may be None.
        title: what the figure is.

    Returns:
        The chart with its legend, or None when nothing can be drawn.
    """
    drawn = [point for point in points if is_number(point[2]["mean"]) and (point[2]["mean"] or 0) > 0]
    if not drawn:
        return None
    ys = [math.log(y) for _, _, v in drawn for y in (v["mean"], v["low"], v["high"]) if y is not None and y > 0]
    y_low, y_high = min(ys) - 0.05, max(ys) + 0.05
    finite = [math.log(e) for _, e, _ in drawn if math.isfinite(e) and e > 0]
    x_low, x_high = (min(finite) - 0.3, max(finite) + 0.3) if finite else (0.0, 1.0)
    left, top, right, bottom = 66.0, 22.0, WIDTH - 90.0, 230.0
    unbounded = WIDTH - 46.0
    spoken = "; ".join(f"{name} {real(v['mean'], 3)}" for name, _, v in drawn)
    svg = _svg(276 + _ROW_HEIGHT * len(drawn), f"{title} by epsilon: {spoken}")
    _text(svg, 0, 11, title, css="soft")

    def height(value: float) -> float:
        return bottom - (bottom - top) * (math.log(value) - y_low) / (y_high - y_low)

    for part in range(5):
        value = math.exp(y_low + (y_high - y_low) * part / 4)
        _line(svg, left, height(value), WIDTH - 8.0, height(value), "grid")
        _text(svg, left - 6, height(value) + 4, real(value, 3), "end")
    for exponent in range(-3, 6):
        for digit in (1, 3):
            value = digit * 10.0**exponent
            if x_low <= math.log(value) <= x_high:
                x = left + (right - left) * (math.log(value) - x_low) / (x_high - x_low)
                _text(svg, x, bottom + 18, real(value), "middle")
    _text(svg, right, bottom + 34, "ε", "end", css="soft")
    _text(svg, unbounded, bottom + 18, "no ε", "middle")
    for number, (name, epsilon, values) in enumerate(drawn, 1):
        x = unbounded
        if math.isfinite(epsilon) and epsilon > 0:
            x = left + (right - left) * (math.log(epsilon) - x_low) / (x_high - x_low)
        x += (number % 3 - 1) * 9  # points of equal epsilon stand side by side
        mean, low, high = values["mean"] or 1.0, values["low"], values["high"]
        if low is not None and high is not None and low > 0:
            _line(svg, x, height(low), x, height(high), "whisker")
        SubElement(svg, "circle", {"cx": _n(x), "cy": _n(height(mean)), "r": "4", "class": "fill-accent"})
        _text(svg, x + 6, height(mean) + 4, str(number))
        _text(svg, 0, 270 + number * _ROW_HEIGHT - 14, f"{number}  {name}: {real(mean)}")
    return _markup(svg)


def _spoken(row: Interval) -> str:
    if row.estimate is None and row.upper is None:
        return f"{row.name} not measured"
    bound = f", at most {percent(row.upper, upper=True)}" if row.upper is not None else ""
    return f"{row.name} estimated {percent(row.estimate)}{bound}"


def _shortened(label: str) -> str:
    return label if len(label) <= _LETTERS else label[: _LETTERS - 1] + "…"


def _svg(height: float, spoken: str) -> Element:
    svg = Element(
        "svg", {"viewBox": f"0 0 {WIDTH} {_n(height)}", "role": "img", "aria-label": spoken, "class": "chart"}
    )
    SubElement(svg, "title").text = spoken
    return svg


def _text(svg: Element, x: float, y: float, text: str, anchor: str = "start", css: str = "") -> None:
    attributes = {"x": _n(x), "y": _n(y), "text-anchor": anchor}
    if css:
        attributes["class"] = css
    SubElement(svg, "text", attributes).text = text


def _rect(svg: Element, x: float, y: float, width: float, height: float, css: str) -> Element:
    return SubElement(svg, "rect", {"x": _n(x), "y": _n(y), "width": _n(width), "height": _n(height), "class": css})


def _line(svg: Element, x1: float, y1: float, x2: float, y2: float, css: str) -> None:
    SubElement(svg, "line", {"x1": _n(x1), "y1": _n(y1), "x2": _n(x2), "y2": _n(y2), "class": css})


def _n(value: float) -> str:
    """A coordinate: two decimals are finer than a pixel, and the bytes do not hang on the last bit of a float."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _markup(svg: Element) -> Markup:
    written: Any = tostring(svg, encoding="unicode", short_empty_elements=False)
    return Markup(written)  # noqa: S704 -- the XML writer has escaped every text and attribute
