"""Drawings and tables of the results of `audit_methods.py`: exposure against utility and against γ, and ROC curves.

    python benchmarks/audit_plots.py [--out docs/images]

Reads ``results/audit_methods.json``; writes ``audit-exposure.svg``, ``audit-miss-rates.svg`` and ``audit-roc.svg``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

from common import RESULTS as ALL_RESULTS
from common import command_line, heading, read_json
from reproduce.drawings import canvas, text

Cells = Sequence[Mapping[str, Any]]
Point = tuple[float, float]
RESULTS = ALL_RESULTS / "audit_methods.json"
COLOURS = {
    "no_dp": "#b34700",
    "redacted": "#8a6d00",
    "crt": "#1f5c46",
    "dpsgd": "#2a5db0",
    "jft": "#7b3f98",
    "jft, light noise": "#59636e",
    "crt, public canaries": "#c2185b",
}
PUBLIC = "crt, public canaries"
WIDTH, HEIGHT, LEFT, TOP = 380, 250, 52, 34
"""The size of one panel, in units, and the distance of the drawing from its left side and top."""


def main() -> None:
    given = command_line(__doc__, out="docs/images").parse_args()
    cells: Cells = read_json(RESULTS)["cells"]
    for name, picture in (
        ("exposure", panels(cells, exposure, "bits a byte of held-out text", "mean exposure, 20 copies")),
        ("miss-rates", panels(cells, miss_rates, "γ, share of canaries that is missed", "largest exposure of ten")),
        ("roc", panels(cells, roc, "false positive rate", "true positive rate")),
    ):
        (given.out / f"audit-{name}.svg").write_text(tostring(picture, encoding="unicode") + "\n", encoding="utf-8")
    print(*table(cells), "", *rates_table(cells), sep="\n")


def table(cells: Cells) -> list[str]:
    """Returns a table with a row for each corpus, method and number of copies, over its seeds."""
    rows: dict[tuple[str, str, int], list[Mapping[str, Any]]] = {}
    for cell in cells:
        if not cell["public_share"]:
            rows.setdefault((cell["corpus"], cell["method"], cell["copies"]), []).append(cell)
    titles = ("corpus", "method", "copies", "mean exposure, each seed", "largest", "p of “no memory”, each seed")
    lines = heading(*titles, "bits a byte", "best membership AUC")
    for (corpus, method, copies), found in sorted(rows.items(), key=lambda row: (row[0][0], row[0][2], row[0][1])):
        own = [next(group for group in cell["groups"] if group["name"] == "missed, trained on") for cell in found]
        best = [cell["best_attack"] for cell in found if cell["best_attack"]]
        told = (
            *(corpus, f"`{method}`", copies, ", ".join(f"{group['mean']:.2f}" for group in own)),
            f"{max(group['maximum'] for group in own):.1f} of {found[0]['ceiling']:.1f}",
            ", ".join(f"{group['p_value']:.2g}" for group in own),
            ", ".join(f"{cell['bits_per_byte']:.2f}" for cell in found),
            ", ".join(f"{one['auc']:.2f} ({one['low']:.2f} – {one['high']:.2f})" for one in best),
        )
        lines.append("| " + " | ".join(map(str, told)) + " |")
    return lines


def rates_table(cells: Cells) -> list[str]:
    """Returns a table of the leaks of a share γ of missed canaries, over seeds."""
    rows: dict[tuple[str, str, float], list[Mapping[str, Any]]] = {}
    for cell in cells:
        if cell["copies"] > 1:
            kind = "the conservative policy as well" if cell["public_share"] else "the policies"
            name = PUBLIC if cell["public_share"] else cell["method"]
            points = cell["by_miss_rate"].get(kind, [])
            for point in points if len(points) > 1 else ():
                rows.setdefault((cell["corpus"], name, point["rate"]), []).append(point)
    titles = ("corpus", "method", "γ", "mean exposure", "largest of ten", "AUC", "AUC of overlapping groups of 20")
    lines = heading(*titles, "seeds")
    figures = ("mean_exposure", "largest_of_ten", "auc", "auc_of_groups")
    for (corpus, name, rate), found in sorted(rows.items()):
        told = [", ".join("" if p[key] is None else f"{p[key]:.2f}" for p in found) for key in figures]
        lines.append(f"| {corpus} | `{name}` | {rate:g} | {' | '.join(told)} | {len(found)} |")
    return lines


def exposure(cells: Cells) -> dict[str, list[list[Point]]]:
    """Returns a point for each training by method: the model's utility and the exposure of its missed canaries."""
    found: dict[str, list[list[Point]]] = {}
    for cell in cells:
        if cell["copies"] > 1 and not cell["public_share"]:
            mean = next(group["mean"] for group in cell["groups"] if group["name"] == "missed, trained on")
            found.setdefault(shown(cell), []).append([(cell["bits_per_byte"], mean)])
    return found


def miss_rates(cells: Cells) -> dict[str, list[list[Point]]]:
    """Returns a line for each training, by γ of the policies, and by γ of the conservative policy as well."""
    found: dict[str, list[list[Point]]] = {}
    for cell in cells:
        for kind, name in (("the policies", shown(cell)), ("the conservative policy as well", PUBLIC)):
            points = cell["by_miss_rate"].get(kind, []) if cell["copies"] > 1 else []
            if len(points) > 1:
                found.setdefault(name, []).append([(point["rate"], point["largest_of_ten"]) for point in points])
    return found


def roc(cells: Cells) -> dict[str, list[list[Point]]]:
    """Returns ROC curves by perplexity of the released model."""
    found: dict[str, list[list[Point]]] = {}
    for cell in cells:
        if cell["roc_of_perplexity"]:
            points = [(float(x), float(y)) for x, y in cell["roc_of_perplexity"]]
            found.setdefault(shown(cell), []).append(points)
    return found


def panels(cells: Cells, of: Callable[[Cells], Mapping[str, list[list[Point]]]], x_name: str, y_name: str) -> Element:
    """Draws a panel for each corpus, with one legend."""
    corpora = list(dict.fromkeys(str(cell["corpus"]) for cell in cells))
    drawn = {name: of([cell for cell in cells if cell["corpus"] == name]) for name in corpora}
    names = list(dict.fromkeys(name for lines in drawn.values() for name in lines))
    width = WIDTH * len(corpora)
    picture = canvas(width, HEIGHT + 78, f"{y_name} by {x_name}: {', '.join(names)}")
    for number, name in enumerate(corpora):
        panel(picture, number * WIDTH, name, drawn[name], x_name, y_name)
    for number, name in enumerate(names):
        at = LEFT + number * 120
        SubElement(picture, "circle", {"cx": str(at), "cy": str(HEIGHT + 62), "r": "4", "fill": colour(name)})
        text(picture, at + 8, HEIGHT + 66, name)
    return picture


def panel(
    picture: Element, left: float, title: str, lines: Mapping[str, list[list[Point]]], x_name: str, y_name: str
) -> None:
    points = [point for rows in lines.values() for row in rows for point in row] or [(0.0, 0.0)]
    low_x, high_x = bounds(x for x, _ in points)
    low_y, high_y = bounds([0.0, *(y for _, y in points)])
    right, bottom = left + WIDTH - 20, HEIGHT

    def place(point: Point) -> tuple[float, float]:
        x = left + LEFT + (right - left - LEFT) * (point[0] - low_x) / (high_x - low_x)
        return round(x, 1), round(bottom - (bottom - TOP) * (point[1] - low_y) / (high_y - low_y), 1)

    text(picture, left + LEFT, 14, f"{title}: {y_name}")
    for part in range(5):
        x = low_x + (high_x - low_x) * part / 4
        y = low_y + (high_y - low_y) * part / 4
        across, height = place((x, y))
        ends = {"x1": str(left + LEFT), "x2": str(right), "y1": str(height), "y2": str(height), "stroke": "#ddd"}
        SubElement(picture, "line", ends)
        text(picture, left + LEFT - 6, height + 4, f"{y:.3g}", "end")
        text(picture, across, bottom + 18, f"{x:.3g}", "middle")
    text(picture, right, bottom + 36, x_name, "end")
    for name, rows in lines.items():
        for row in rows:
            spots = [place(point) for point in row]
            path = " ".join(f"{x},{y}" for x, y in spots)
            SubElement(picture, "polyline", {"points": path, "fill": "none", "stroke": colour(name)})
            for x, y in spots if len(spots) < 10 else ():
                SubElement(picture, "circle", {"cx": str(x), "cy": str(y), "r": "3", "fill": colour(name)})


def bounds(values: Iterable[float]) -> Point:
    """Returns the least and the greatest value, which differ."""
    known = list(values)
    return min(known), max(max(known), min(known) + 1e-6)


def shown(cell: Mapping[str, Any]) -> str:
    return str(cell["method"]).replace("/conservative_light_noise", ", light noise")


def colour(name: str) -> str:
    return COLOURS.get(name, "#000")


if __name__ == "__main__":
    main()
