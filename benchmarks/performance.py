"""Measures the parts of the performance table of docs/scale.md, keeps the figures, and renders the table.

    python benchmarks/performance.py --config reticent-demo/reticent.toml [--only PART ...] [--limit SECONDS]
    python benchmarks/performance.py --render

Each part is a benchmark of this folder, at a size at which all of them take some five minutes on two quiet cores, in a
process of its own that is ended after ``--limit`` seconds: no more than ten minutes for all. A part that fails or is
ended keeps the figures that it had, and the exit code is 1. Figures stand in ``results/performance.json``; ``--render``
measures nothing.

What is unfair: sizes are small, so that what is done once weighs more. The start of a command is timed by the clock,
and grows with the load; split, dedup, redact and step by the processor, and night as a share of a time like it.
"""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from common import RESULTS as ALL_RESULTS
from common import ROOT, command_line, git, heading, read_json, with_repository, write_json

from flows.docs.tables import page

RESULTS: Final = ALL_RESULTS / "performance.json"
PAGE: Final = ROOT / "docs" / "scale.md"
Row = tuple[str, str, str]
"""A row: the measured quantity, our figure, and the figure beside it."""


def _startup(found: Mapping[str, Any]) -> Iterator[Row]:
    seconds = found["median_seconds"]
    idle, flow = seconds["reticent run, nothing changed"], seconds["empty Prefect flow"]
    yield "`reticent run`, nothing changed", f"{idle:.2g} s", f"an empty Prefect flow: {flow:.2g} s"
    status, imports = seconds["reticent status"], seconds["import typer, pydantic"]
    yield "`reticent status`", f"{status:.2g} s", f"to import typer and pydantic: {imports:.2g} s"


def _split(found: Mapping[str, Any]) -> Iterator[Row]:
    ours, spacy = (_thousands(found["tokens_per_second"][name]) for name in ("rules", "spaCy"))
    yield "tokens and sentences", f"{ours} tokens/s", f"spaCy's tokenizer, tokens alone: {spacy}"


def _dedup(found: Mapping[str, Any]) -> Iterator[Row]:
    ours, plain = (found["cpu_seconds_a_million"][name] for name in ("Reticent", "Python set"))
    yield (
        "duplicates, from file to file",
        f"{ours:.2g} s a million sentences",
        f"a Python set of all texts: {plain:.2g} s",
    )


def _redact(found: Mapping[str, Any]) -> Iterator[Row]:
    yield (
        "redaction of dialogues by the policies that `init` writes",
        f"{found['chat']['times_batches']:.2g} times as fast",
        "Presidio's `BatchAnalyzerEngine`, sentences in batches of 256",
    )


def _step(found: Mapping[str, Any]) -> Iterator[Row]:
    ((_, shape),) = found["shapes"].items()
    ours = shape["ours"]
    yield (
        "a private step of a small GPT-2",
        f"{ours['time_over_plain']:.2f} × the time, {ours['memory_over_plain']:.2f} × the memory",
        "an ordinary step with the model's own loss",
    )


def _night(found: Mapping[str, Any]) -> Iterator[Row]:
    share, files = found["ratio"], found["files"]
    yield f"preparation with one new file of {files}", f"{share:.0%} of the time", f"the first {files - 1} files"


@dataclass(frozen=True)
class Part:
    """A benchmark.

    Attributes:
        arguments: script with its arguments: ``{config}`` is a project, ``{out}`` the file that is written. A script
            without such a file prints.
        rows: function from the document to rows of the table.
    """

    arguments: tuple[str, ...]
    rows: Callable[[Mapping[str, Any]], Iterator[Row]]


PARTS: Final = {
    "startup": Part(("startup.py", "--config", "{config}", "--runs", "3", "--out", "{out}"), _startup),
    "split": Part(("split.py", "--characters", "3000000", "--out", "{out}"), _split),
    "dedup": Part(
        ("dedup.py", "--sentences", "300000", "--repeats", "2", "--only", "Reticent", "--out", "{out}"), _dedup
    ),
    "redact": Part(
        ("default_redaction.py", "--sentences", "2000", "--workers", "1", "--rounds", "1", "--out", "{out}"), _redact
    ),
    "step": Part(
        (
            *("dp_step.py", "--shapes", "gpt2-256-5000", "--contenders", "plain", "ours"),
            *("--rounds", "5", "--threads", "1", "--quiet", "--output", "{out}"),
        ),
        _step,
    ),
    "night": Part(("increment.py", "--files", "10", "--dialogues", "20"), _night),
}


def measured(part: Part, config: Path, limit: float) -> dict[str, Any]:
    """Measures a part, and returns its figures with their time and place.

    Raises:
        OSError: the part wrote nothing.
        ValueError: the part wrote or printed no document.
        subprocess.SubprocessError: the part failed, or took too long.
    """
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "out.json"
        script, *arguments = (argument.format(out=out, config=config) for argument in part.arguments)
        command = [sys.executable, str(ROOT / "benchmarks" / script), *arguments]
        options = {"cwd": ROOT, "env": with_repository(), "stdout": subprocess.PIPE, "text": True}
        printed = subprocess.run(command, timeout=limit, check=True, **options).stdout
        text = out.read_text("utf-8") if "{out}" in part.arguments else printed[printed.index("{") :]
    return {
        "commit": _commit(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "cores": os.cpu_count(),
        "load": [round(load, 1), round(os.getloadavg()[0], 1)],
        "figures": json.loads(text),
    }


def _commit() -> str:
    """Returns the commit that is checked out; with a plus if other files than those that this writes differ from it."""
    others = ("--", ".", f":!{RESULTS.relative_to(ROOT)}", f":!{PAGE.relative_to(ROOT)}")
    changed = git("status", "--porcelain", "--untracked-files=no", *others)
    return git("rev-parse", "--short", "HEAD") + "+" * bool(changed)


def _thousands(number: float) -> str:
    return f"{round(number, -3):,.0f}"


def table(parts: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns the table of the measurements, and a line on their time and load."""
    lines = heading("what", "Reticent", "beside it")
    for name in PARTS:
        for row in PARTS[name].rows(parts[name]["figures"]) if name in parts else ():
            lines.append(f"| {' | '.join(row)} |")
    states: dict[str, list[str]] = {}
    for name in (name for name in PARTS if name in parts):
        at = parts[name]
        states.setdefault(f"{at['date']}, commit {at['commit']}, {at['cores']} cores", []).append(name)
    missing = [name for name in PARTS if name not in parts]
    said = "; ".join(
        f"{', '.join(names)}: {state} under a load of {min(loads)} to {max(loads)}"
        for state, names in states.items()
        for loads in [[load for name in names for load in parts[name]["load"]]]
    )
    return "\n".join([*lines, "", f"{said}." + f" Not measured: {', '.join(missing)}." * bool(missing)])


def main() -> int:
    parser = command_line(__doc__)
    parser.add_argument("--config", type=Path, default=ROOT / "reticent-demo/reticent.toml", help="a project that ran")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--limit", type=float, default=100.0, help="seconds that a part may take")
    parser.add_argument("--render", action="store_true", help="measure nothing")
    options = parser.parse_args()
    parts: dict[str, Any] = read_json(RESULTS) if RESULTS.exists() else {}
    failed = []
    for name in () if options.render else options.only:
        print(f"{name} …", flush=True)
        try:
            parts[name] = measured(PARTS[name], options.config.resolve(), options.limit)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            print(f"{name} keeps its figures: {error}", file=sys.stderr)
            failed.append(name)
            continue
        write_json(RESULTS, parts)
    PAGE.write_text(page(PAGE.read_text("utf-8"), "performance", table(parts), "make bench"), "utf-8")
    print(table(parts))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
