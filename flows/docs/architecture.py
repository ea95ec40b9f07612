"""Draws the imports between packages and lists their sizes for ``docs/architecture.md`` (``make docs``)."""

from __future__ import annotations

import importlib
from collections import Counter, defaultdict
from pathlib import Path

from flows.docs.layers import reached, svg

_ROOT = Path(__file__).resolve().parents[2]
PAGE = _ROOT / "docs" / "architecture.md"
PICTURE = _ROOT / "docs" / "images" / "rooms.svg"
BEGIN, END = "<!-- begin: made by `make docs` -->", "<!-- end -->"
_TOPS = ("reticent", "flows", "tasks", "pipelines")


def room_of(module: str) -> str:
    """Returns the package of a module: the library's packages by name, `base` for its single modules."""
    top, *rest = module.split(".")
    if top != "pipelines":
        return top
    return rest[0] if rest and (_ROOT / "pipelines" / rest[0]).is_dir() else "base"


def imports() -> dict[str, set[str]]:
    """Returns the imported rooms by room. Imports inside functions count, imports for type checkers do not."""
    import grimp

    graph = grimp.build_graph(*_TOPS, exclude_type_checking_imports=True)
    found: dict[str, set[str]] = defaultdict(set)
    for module in graph.modules:
        found[room_of(module)] |= {room_of(name) for name in graph.find_modules_directly_imported_by(module)}
    return {room: rooms - {room} for room, rooms in found.items()}


def arrows(found: dict[str, set[str]]) -> list[tuple[str, str]]:
    """Returns the arrows to draw, without those that follow from others and without `base`, which all rooms import.

    Rooms that import each other, directly or through others, are all drawn with each other.
    """
    leads_to = reached((room, other) for room, others in found.items() for other in others)
    drawn = []
    for room in sorted(found):
        direct = found[room] - {"base", room}
        shown = {r for r in direct if not any(r in leads_to[o] and room not in leads_to[o] for o in direct - {r})}
        drawn += [(room, other) for other in sorted(shown)]
    return drawn


def drawing(found: dict[str, set[str]]) -> str:
    """Returns the picture of the rooms, as SVG."""
    return svg(arrows(found), "Which room imports which")


def sizes() -> str:
    """Returns a table of all packages with their own lines of Python, their share and their description."""
    own: Counter[str] = Counter()
    for top in _TOPS:
        for path in (_ROOT / top).rglob("*.py"):
            own[".".join(path.relative_to(_ROOT).parts[:-1])] += len(path.read_text("utf-8").splitlines())
    total = sum(own.values())
    rows = ["| room | lines | share | with rooms inside | what it is |", "|---|---|---|---|---|"]
    for name, count in sorted(own.items()):
        inside = sum(lines for other, lines in own.items() if f"{other}.".startswith(f"{name}."))
        title = (importlib.import_module(name).__doc__ or "").splitlines()[0]
        whole = f"{inside:,}" if inside > count else ""
        rows.append(f"| `{name.replace('.', '/')}` | {count:,} | {count / total:.1%} | {whole} | {title} |")
    return "\n".join([*rows, f"| all | {total:,} | | | |"])


def page(text: str) -> str:
    """Replaces the part of the page between the marks."""
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n\n{sizes()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
    PICTURE.write_text(drawing(imports()), "utf-8")
