"""Results: one JSON for each finished cell and seed, which is never overwritten, unless you ask for it."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from common import RESULTS as ALL_RESULTS
from common import git, read_json

from .cache import write_json
from .cells import Cell, Scale

RESULTS: Final = ALL_RESULTS / "reproduce"


def path_of(folder: Path, cell: Cell, scale: Scale, seed: int) -> Path:
    name = re.sub(r"[^a-z0-9.]+", "-", cell.name.lower().replace("ε", "eps")).strip("-")
    return folder / cell.paper / cell.place / f"{name}.{scale}.{seed}.json"


def read(folder: Path, cell: Cell, scale: Scale, seed: int) -> dict[str, Any] | None:
    path = path_of(folder, cell, scale, seed)
    return read_json(path) if path.exists() else None


def read_all(folder: Path, cell: Cell, scale: Scale) -> list[dict[str, Any]]:
    found = (read(folder, cell, scale, seed) for seed in range(cell.runs_seeds))
    return [result for result in found if result is not None]


def write(
    folder: Path,
    cell: Cell,
    scale: Scale,
    seed: int,
    *,
    figures: Mapping[str, Any],
    settings: Mapping[str, Any],
    seconds: float,
    cpu_seconds: float | None = None,
    base: Mapping[str, Any] | None = None,
    same_run_as: str | None = None,
    again: bool = False,
) -> Path:
    """Writes a result with the machine and commit that made it.

    Raises:
        FileExistsError: a result exists, and ``again`` is not set.
    """
    path = path_of(folder, cell, scale, seed)
    if path.exists() and not again:
        raise FileExistsError(f"{cell.identity}, seed {seed}: there is a result; --again makes it anew")
    document = {
        "cell": cell.identity,
        "scale": scale,
        "seed": seed,
        "value": figures.get(cell.measure),
        "figures": dict(figures),
        "settings": dict(settings),
        "starting_point": None if base is None else dict(base),
        "wall_seconds": round(seconds, 1),
        **({"cpu_seconds": round(cpu_seconds, 1)} if cpu_seconds is not None else {}),
        **({"same_run_as": same_run_as} if same_run_as else {}),
        **machine(),
    }
    write_json(path, document)
    return path


def machine() -> dict[str, Any]:
    """Returns device and commit, for a result; no name of a machine or a person."""
    import torch

    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"CPU, {platform.machine()}"
    return {"device": device, "cpus": os.cpu_count(), "torch": torch.__version__, "commit": commit()}


def commit() -> str:
    """Returns the commit of this checkout, with ``+`` if files differ from it."""
    rooms = ("pipelines", "flows", "tasks", "benchmarks")
    changed = git("status", "--porcelain", "--untracked-files=no", "--", *rooms, check=False)
    return (git("rev-parse", "--short=12", "HEAD", check=False) or "unknown") + ("+" if changed else "")


def unfinished(folder: Path, cells: Sequence[Cell], scale: Scale) -> list[tuple[Cell, int]]:
    """Returns cells and seeds without a result: first seeds of headline cells, of other cells, then further seeds."""
    missing = [
        (cell, seed)
        for cell in cells
        for seed in range(cell.runs_seeds)
        if not path_of(folder, cell, scale, seed).exists()
    ]
    return sorted(missing, key=lambda one: (not one[0].headline, one[1], one[0].minutes))
