"""Drawings and tables of the results of `audit_methods.py`: exposure against utility and against γ, and ROC curves.

    python benchmarks/audit_plots.py [--out docs/images]

Reads ``results/audit_methods.json``; writes ``audit-exposure.svg``, ``audit-miss-rates.svg`` and ``audit-roc.svg``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from xml.etree.ElementTree import Element, tostring

from common import RESULTS as ALL_RESULTS
from common import command_line, heading, read_json
from reproduce.drawings import Figure, drawn

Cells = Sequence[Mapping[str, Any]]
Point = tuple[float, float]
RESULTS = ALL_RESULTS / "audit_methods.json"
PUBLIC = "crt, public canaries"
SVG = "http://www.w3.org/2000/svg"


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
    """Draws a panel for each corpus, with the same colours and one legend in each."""
    corpora = list(dict.fromkeys(str(cell["corpus"]) for cell in cells))
    drawings = {name: of([cell for cell in cells if cell["corpus"] == name]) for name in corpora}
    names = list(dict.fromkeys(name for lines in drawings.values() for name in lines))
    picture = Element("svg")
    for number, (corpus, lines) in enumerate(drawings.items()):
        figure = Figure(paper="", place="", title=corpus, x_name=x_name, y_name=f"{corpus}: {y_name}", series={})
        panel = drawn(figure, {name: lines.get(name, []) for name in names})
        _, _, width, height = panel.attrib["viewBox"].split()
        panel.attrib |= {"x": f"{number * int(width)}", "width": width, "height": height}
        picture.append(panel)
    picture.attrib |= {"xmlns": SVG, "viewBox": f"0 0 {len(corpora) * int(width)} {height}"}
    return picture


def shown(cell: Mapping[str, Any]) -> str:
    return str(cell["method"]).replace("/conservative_light_noise", ", light noise")


if __name__ == "__main__":
    main()
