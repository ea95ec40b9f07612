"""A command that reproduces the five papers' tables and figures, cell by cell.

    nice -n 10 python -m benchmarks.reproduce --data-dir DATA [--work build/reproduce] [--only PAPER/PLACE]
    python -m benchmarks.reproduce --list [--only jft/table2]
    python -m benchmarks.reproduce --render

What is done is kept, one JSON for each cell and seed below ``benchmarks/results/reproduce``: stop the command and give
it again. Models and corpora are kept in the work folder. Nothing finished is made anew without ``--again``.
``--base`` makes the starting point and no cell; ``--minutes`` stops after so long, between two cells. Figures that a
finished run of another cell has are taken first, even with ``--minutes 0``. Figures of one
run are of one run. ``--render`` writes docs/reproductions.md and its drawings. At ``--scale paper`` models are those of
the papers, from the local cache of the hub (`hf download openai-community/gpt2`, `distilbert/distilgpt2`,
`FacebookAI/roberta-base`); ``--model openai-community/gpt2=FOLDER`` takes one from a folder, and ``=made`` stands for
one that is pre-trained here. ``--render --data-dir DATA`` also draws the curves that authors published, if DATA has
``paper_results/``.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from flows.environment import DEFAULTS

sys.path.append(str(Path(__file__).parents[1]))  # benchmarks import each other by name

from common import command_line

from . import base, page, results, verdicts
from .cells import SCALES, Cell, Impossible, Scale, Train, expected_hours
from .papers import CELLS
from .running import NotReadyError, Workplace, of_same_run, run_cell


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command, and returns the exit status."""
    parser = command_line(__doc__, prog="python -m benchmarks.reproduce", data_dir=False, work="build/reproduce")
    parser.add_argument("--results", type=Path, default=results.RESULTS)
    parser.add_argument("--scale", choices=SCALES, default="small")
    parser.add_argument("--model", action="append", default=[], metavar="NAME=FOLDER", help="folder of a hub model")
    parser.add_argument("--only", action="append", default=[], help="PAPER[/PLACE[/CELL]]; may be given again")
    parser.add_argument("--headline", action="store_true", help="headline cells alone")
    parser.add_argument("--quick", action="store_true", help="only cells without training")
    parser.add_argument("--seeds", type=int, help="largest number for each cell")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--base", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--render", action="store_true")
    given = parser.parse_args(arguments)
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    cells = chosen(given.only, headline=given.headline, quick=given.quick)
    if given.list:
        print("\n".join(listed(cells, given.results, given.scale)))
        return 0
    if given.render:
        page.write(given.results, given.scale, data_dir=given.data_dir)
        return 0
    if given.data_dir is None and not given.quick:
        parser.error("--data-dir: the folder of data sets")
    place = Workplace(
        data_dir=given.data_dir or Path(),
        work=given.work.absolute(),
        results=given.results,
        minutes=given.minutes,
        models=dict(text.split("=", 1) for text in given.model),
    )
    if given.base:
        folder = base.starting_point(place.data_dir, place.work, base.RECIPES[given.scale], given.minutes)
        print("not complete yet: give the command again" if folder is None else base.written(folder))
        return 0 if folder is not None else 1
    return run_all(cells, place, given)


def chosen(only: Sequence[str], *, headline: bool = False, quick: bool = False) -> list[Cell]:
    """Returns the cells that are asked for.

    Raises:
        SystemExit: a pattern names no cell.
    """
    for pattern in only:
        if not any(cell.matches(pattern) for cell in CELLS):
            raise SystemExit(f"--only {pattern}: no cell; --list shows them")
    found = [cell for cell in CELLS if not only or any(cell.matches(pattern) for pattern in only)]
    return [cell for cell in found if (cell.headline or not headline) and not (quick and isinstance(cell.run, Train))]


def listed(cells: Sequence[Cell], folder: Path, scale: str) -> list[str]:
    """Returns a line for each cell, and the hours that are left."""
    lines = []
    for cell in cells:
        if isinstance(cell.run, Impossible):
            state = f"{verdicts.without_run(cell.run).word}: {cell.run.reason}"
        else:
            done = len(results.read_all(folder, cell, scale))  # type: ignore[arg-type]
            state = f"{done} of {cell.runs_seeds}, {cell.minutes:g} min each"
        mark = "*" if cell.headline else " "
        lines.append(f"{mark} {cell.identity}: {cell.printed or 'no figure in the copy'} {cell.unit}; {state}")
    hours = expected_hours(results.unfinished(folder, cells, scale))  # type: ignore[arg-type]
    return [*lines, f"{len(cells)} cells, * headline; {hours:.1f} hours of processor time to come"]


def run_all(cells: Sequence[Cell], place: Workplace, given: argparse.Namespace) -> int:
    """Runs missing cells, headline first, seed by seed, and returns 1 if a cell failed."""
    deadline = time.monotonic() + 60 * given.minutes
    if given.again:
        todo = [(cell, seed) for cell in cells for seed in range(cell.runs_seeds)]
    else:
        todo = results.unfinished(place.results, cells, given.scale)
    failed = False
    free = {(cell.identity, seed) for cell, seed in todo if not given.again and is_free(cell, seed, place, given.scale)}
    for cell, seed in sorted(todo, key=lambda one: (one[0].identity, one[1]) not in free):
        if given.seeds is not None and seed >= given.seeds:
            continue
        if time.monotonic() > deadline and (cell.identity, seed) not in free:
            print("time is over; the same command goes on")
            break
        started = time.monotonic()
        try:
            path = run_cell(cell, given.scale, seed, place, again=given.again)
        except NotReadyError as error:
            print(error)
            return 1
        except Exception as error:
            # The other cells go on after an error (a server did not start, the disk is full); this one is tried again.
            print(f"{cell.identity}, seed {seed}: failed: {type(error).__name__}: {error}", flush=True)
            failed = True
            continue
        value = results.read(place.results, cell, given.scale, seed)
        shown = value["value"] if value is not None else None
        print(
            f"{cell.identity}, seed {seed}: {shown} {cell.unit}, {time.monotonic() - started:.0f} s, {path.name}",
            flush=True,
        )
    return int(failed)


def is_free(cell: Cell, seed: int, place: Workplace, scale: Scale) -> bool:
    """Tells if a finished run has the cell's figure, too."""
    return isinstance(cell.run, Train) and of_same_run(cell, scale, seed, place) is not None


if __name__ == "__main__":
    raise SystemExit(main())
