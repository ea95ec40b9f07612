"""Lists packages with their sizes and imports for ``docs/architecture.md`` (``make docs``)."""

from __future__ import annotations

import importlib
from collections import Counter, defaultdict
from pathlib import Path

from flows.docs.tables import page

_ROOT = Path(__file__).resolve().parents[2]
PAGE = _ROOT / "docs" / "architecture.md"
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


def direct_imports(found: dict[str, set[str]]) -> str:
    """Returns a table of the rooms that each room imports.

    Rooms that it reaches through another one are left out, and so is `base`. No import of other rooms goes round.
    """
    rooms = {room: others - {"base"} for room, others in found.items() if room != "base"}
    rows = ["| room | imports |", "|---|---|"]
    for room, others in sorted(rooms.items()):
        shown = sorted(others - {far for other in others for far in _reached(rooms, other)})
        rows += [f"| `{room}` | {', '.join(f'`{other}`' for other in shown)} |"] if shown else []
    return "\n".join(rows)


def _reached(found: dict[str, set[str]], room: str) -> set[str]:
    """Returns the rooms that a room imports, directly or through others."""
    return found[room].union(*(_reached(found, other) for other in found[room]))


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


if __name__ == "__main__":
    both = f"\n{direct_imports(imports())}\n\n{sizes()}\n"
    PAGE.write_text(page(PAGE.read_text("utf-8"), "rooms", both), "utf-8")
