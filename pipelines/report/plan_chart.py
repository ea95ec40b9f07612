"""Chart of a plan: total noise by batch size. A drawing of its own, with its colours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.etree.ElementTree import SubElement, tostring

from pipelines.numbers import real
from pipelines.report.svg import WIDTH, Axis, coordinate, dot, line, new_chart, text

_STYLE = (
    "svg{font:12px sans-serif;background:#fff}text{fill:#1f2328}.soft{fill:#59636e}.grid{stroke:#d8dee4}"
    ".limit{stroke:#b34700;stroke-dasharray:4 3}.curve{fill:none;stroke-width:2}.curve-0{stroke:#1f5c46}"
    ".curve-1{stroke:#2a5db0;stroke-dasharray:7 3}.curve-2{stroke:#7b3f98;stroke-dasharray:2 3}"
    ".fill-accent{fill:#b34700}"
)
_ROW = 20.0

Point = tuple[float, float]


def plan_chart(
    curves: Mapping[str, Sequence[Point]], chosen: Mapping[str, Point], recommended: str, limit: float
) -> str:
    """Draws a curve for each unit, with its chosen batch size, as a whole SVG file.

    Args:
        curves: (gradients of a step, total noise) by name, at most three.
        chosen: chosen point of each curve.
        recommended: name of the recommended curve.
        limit: total noise from which the plan warns.
    """
    points = [*(point for row in curves.values() for point in row), *chosen.values()]
    heights = [*(y for _, y in points), limit]
    across, upright = Axis.over(x for x, _ in points), Axis.over(heights)
    if not upright.is_log:
        upright = Axis.over([0.0, *heights], least=0.0)
    left, top, right, bottom = 46.0, 26.0, WIDTH - 10.0, 210.0

    def place(point: Point) -> Point:
        return left + (right - left) * across.share(point[0]), bottom - (bottom - top) * upright.share(point[1])

    spoken = "; ".join(f"{name} {real(chosen[name][1], 3)} at {real(chosen[name][0], 3)}" for name in curves)
    svg = new_chart(bottom + 48 + _ROW * (len(curves) + 1), f"Total noise: {spoken}")
    svg.attrib |= {"xmlns": "http://www.w3.org/2000/svg", "width": str(2 * WIDTH)}
    SubElement(svg, "style").text = _STYLE
    text(svg, 0, 12, "Total noise: σ / (B √T)")
    for tick, label in upright.labelled_ticks():
        _, y = place((across.low, tick))
        line(svg, left, y, right, y, "grid")
        text(svg, left - 6, y + 4, label, "end")
    for tick, label in across.labelled_ticks():
        x, _ = place((tick, upright.low))
        line(svg, x, bottom, x, bottom + 4, "grid")
        text(svg, x, bottom + 17, label, "middle")
    text(svg, right, bottom + 33, "gradients of records in an average step", "end", css="soft")
    _, y = place((across.low, limit))
    line(svg, left, y, right, y, "limit")
    for index, (name, row) in enumerate(curves.items()):
        path = " ".join(f"{coordinate(x)},{coordinate(y)}" for x, y in map(place, row))
        css = f"curve curve-{index % 3}"
        SubElement(svg, "polyline", {"points": path, "class": css})
        dot(svg, *place(chosen[name]), 5.0 if name == recommended else 3.0)
        y = bottom + 52 + _ROW * index
        line(svg, 0, y - 4, 28, y - 4, css)
        text(svg, 36, y, f"{name}{' (recommended)' if name == recommended else ''}")
    y = bottom + 52 + _ROW * len(curves)
    line(svg, 0, y - 4, 28, y - 4, "limit")
    text(svg, 36, y, "noise drowns the signal above this line (an estimate)")
    return tostring(svg, encoding="unicode") + "\n"
