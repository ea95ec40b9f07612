"""Results: one JSON for each cell, written as a whole, and all results in ``summary.json``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from common import read_json

from benchmarks.reproduce.cache import write_json

from .cells import Cell

SUMMARY: Final = "summary.json"
RESULTS: Final = Path(__file__).parents[1] / "results" / "gpu"
FINAL: Final = ("done", "failed")
"""States of cells that are not tried again. ``skipped``: a need of the cell is missing. ``cut``: the slice was over."""


def path_of(folder: Path, cell: Cell) -> Path:
    return folder / f"{cell.name.replace('/', '.')}.json"


def read(folder: Path, cell: Cell) -> dict[str, Any] | None:
    path = path_of(folder, cell)
    return read_json(path) if path.exists() else None


def restore(folder: Path, cells: Sequence[Cell]) -> int:
    """Restores results without a file of their own from the summary, and counts them."""
    path, count = folder / SUMMARY, 0
    if not path.exists():
        return 0
    known = {result["cell"]: result for result in read_json(path)["results"]}
    for cell in cells:
        if cell.name in known and read(folder, cell) is None:
            write_json(path_of(folder, cell), known[cell.name])
            count += 1
    return count


def write(folder: Path, cell: Cell, result: dict[str, Any], cells: Sequence[Cell]) -> None:
    """Writes the result of a cell, and the summary of all."""
    write_json(path_of(folder, cell), {"cell": cell.name, **result})
    found = [known for one in cells if (known := read(folder, one)) is not None]
    left = [one.name for one in cells if (read(folder, one) or {}).get("status") not in FINAL]
    write_json(folder / SUMMARY, {"results": found, "left": left})


def is_finished(folder: Path, cell: Cell, *, again: bool = False) -> bool:
    """Tells if a cell has run; a failed cell runs again only if asked for."""
    known = read(folder, cell)
    return known is not None and known["status"] in (("done",) if again else FINAL)
