"""A command that runs the measurements of a GPU, in slices, without a network: ``make gpu PYTHON=…``.

    python -m benchmarks.gpu --out FOLDER [--slice-minutes 8] [--models FOLDER] [--data-dir DATA] [--only exactness]
    python -m benchmarks.gpu --out FOLDER --device cpu --tiny     # every cell at toy size: does it run?
    python -m benchmarks.gpu --list
    python -m benchmarks.gpu --render

A call ends before its slice is over and says what is left; given again, it goes on. What is done is kept, one JSON for
each cell, and all of it in ``summary.json``, from which alone a later call goes on as well. A cell whose packages are
not installed is skipped, with the reason, and tried again by the next call. ``--models`` is a folder of models: each a
folder as ``transformers`` saves it, or in parts of at most 50 MB (`benchmarks.gpu.parts`). ``--data-dir`` holds
``wikitext2/``; without it the texts are this project's own documentation. ``--render`` writes docs/gpu.md.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path += [str(ROOT / "benchmarks"), str(ROOT / "tests"), str(ROOT / "tests" / "dp")]  # checks that tests have too

from common import command_line, installed, peak_bytes  # noqa: E402

from benchmarks.reproduce import results as reproduced  # noqa: E402
from benchmarks.reproduce.cache import write_json  # noqa: E402

from . import page, parts, results, slices  # noqa: E402
from .cells import CELLS, Cell, Place  # noqa: E402

PACKAGES = ("torch", "numpy", "transformers", "opacus", "spacy", "cupy-cuda13x", "cupy-cuda12x", "triton")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command, and returns the exit status: 1 if a cell failed or does not hold."""
    given = parsed(arguments)
    if given.list:
        for cell in CELLS:
            print(f"{cell.name}: {cell.what}; about {cell.seconds:g} s")
        return 0
    if given.render:
        page.write(given.out or results.RESULTS)
        return 0
    if given.cell:
        answer(given)
        return 0
    if given.out is None:
        raise SystemExit("--out: the folder of results")
    cells = chosen(given.only)
    given.out.mkdir(parents=True, exist_ok=True)
    if (kept := results.restore(given.out, CELLS)) > 0:
        print(f"{kept} results from {results.SUMMARY}")
    joined = given.joined or Path(tempfile.gettempdir()) / f"reticent-models-{os.getuid()}"
    models, waiting = parts.models_in(given.models, joined)
    for name, reason in waiting.items():
        print(f"model {name} is not used: {reason}")
    about = machine(given.device, tiny=given.tiny, commit=given.commit)
    print(", ".join(f"{name} {value}" for name, value in about.items() if name != "versions"), flush=True)
    place = place_of(given, models, Path(tempfile.gettempdir()))
    task = slices.Slice(seconds=60 * given.slice_minutes, out=given.out, place=place, about=about, again=given.again)
    left = slices.run_slice(cells, CELLS, task, slices.started)
    print(f"{len(left)} of {len(cells)} cells are left{': ' if left else ''}{', '.join(left)}")
    known = [found for cell in cells if (found := results.read(given.out, cell)) is not None]
    wrong = [one for one in known if one["status"] == "failed" or one.get("figures", {}).get("passed") is False]
    return int(bool(wrong))


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = command_line(__doc__, prog="python -m benchmarks.gpu", data_dir=False)
    parser.add_argument("--out", type=Path, help="the folder of results")
    parser.add_argument("--slice-minutes", type=float, default=8.0)
    parser.add_argument("--models", type=Path, help="a folder of models, whole or in parts")
    parser.add_argument("--joined", type=Path, help="where models in parts are put together")
    parser.add_argument("--only", action="append", default=[], help="GROUP[/CELL]; may be given again")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--tiny", action="store_true", help="toy sizes: a test that everything runs")
    parser.add_argument("--commit", help="commit of these files, if they came without git")
    parser.add_argument("--again", action="store_true", help="run again what failed")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--render", action="store_true", help="write docs/gpu.md")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    parser.add_argument("--answer", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--model", action="append", default=[], help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def chosen(only: Sequence[str]) -> list[Cell]:
    """Returns the cells that are asked for.

    Raises:
        SystemExit: a pattern names no cell.
    """

    def matches(cell: Cell, pattern: str) -> bool:
        return cell.name == pattern or cell.name.startswith(pattern.rstrip("/") + "/")

    for pattern in only:
        if not any(matches(cell, pattern) for cell in CELLS):
            raise SystemExit(f"--only {pattern}: no cell; --list shows them")
    return [cell for cell in CELLS if not only or any(matches(cell, pattern) for pattern in only)]


def answer(given: argparse.Namespace) -> None:
    """Runs one cell in this process and writes its figures, or its error."""
    cell = next(cell for cell in CELLS if cell.name == given.cell)
    models = {name: Path(folder) for name, _, folder in (text.partition("=") for text in given.model)}
    place = place_of(given, models, Path(tempfile.mkdtemp(prefix="cell-")))
    said: dict[str, Any]
    began = time.monotonic()
    try:
        figures = cell.run(place)
        said = {"status": "done", "figures": figures, "run_seconds": round(time.monotonic() - began, 1)}
        said["peak_megabytes"] = peak_megabytes(given.device)
    except ModuleNotFoundError as error:
        said = {"status": "skipped", "reason": f"not installed: {error.name}"}
    except Exception as error:
        first = next(iter(str(error).strip().splitlines()), "")
        said = {"status": "failed", "reason": f"{type(error).__name__}: {first}"[:500]}
    finally:
        shutil.rmtree(place.scratch, ignore_errors=True)
    write_json(given.answer, said)


def place_of(given: argparse.Namespace, models: Mapping[str, Path], scratch: Path) -> Place:
    return Place(device=given.device, tiny=given.tiny, data_dir=given.data_dir, models=models, scratch=scratch)


def peak_megabytes(device: str) -> int:
    """Returns the most memory that was in use: of the GPU's allocator, or of this process."""
    if device == "cuda":
        import torch

        return round(torch.cuda.max_memory_allocated() / 2**20)
    return round(peak_bytes() / 2**20)


def machine(device: str, *, tiny: bool, commit: str | None) -> dict[str, Any]:
    """Returns device, commit and versions for a result; no name of a machine or a person.

    Raises:
        SystemExit: there is no GPU.
    """
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("torch sees no GPU here; --device cpu --tiny tries every cell at toy size")
    name = torch.cuda.get_device_name() if device == "cuda" else f"CPU, {platform.machine()}"
    return {
        "device": name,
        "kind": device,
        "num_gpus": torch.cuda.device_count() if device == "cuda" else 0,
        "tiny": tiny,
        "commit": commit or commit_here(),
        "python": platform.python_version(),
        "cuda": torch.version.cuda if device == "cuda" else None,
        "versions": {package: found for package in PACKAGES if (found := installed(package)) is not None},
    }


def commit_here() -> str:
    """Returns the commit of this checkout, if it is one."""
    return reproduced.commit() if shutil.which("git") and (ROOT / ".git").exists() else "unknown"


if __name__ == "__main__":
    raise SystemExit(main())
