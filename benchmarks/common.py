"""Helpers that benchmarks share: command lines, results, time and memory, and a model without dropout."""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
RESULTS: Final = ROOT / "benchmarks" / "results"


def command_line(
    description: str | None,
    *,
    data_dir: bool | None = None,
    work: str | None = None,
    out: Path | str | None = None,
    prog: str | None = None,
) -> argparse.ArgumentParser:
    """Returns a parser whose help is a module's docstring, with the options that many benchmarks have.

    Args:
        description: docstring of the module.
        data_dir: true for a required ``--data-dir``, false for an optional one, None for none.
        work: default of ``--work``, the folder of intermediate files; None for no such option.
        out: default of ``--out``, the file of results; an empty string for no default, None for no such option.
        prog: name of the command, if it is no script.
    """
    parser = argparse.ArgumentParser(
        prog=prog, description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if data_dir is not None:
        parser.add_argument("--data-dir", type=Path, required=data_dir, help="the folder of data sets")
    if work is not None:
        parser.add_argument("--work", type=Path, default=Path(work), help="the folder of intermediate files")
    if out is not None:
        parser.add_argument("--out", type=Path, default=Path(out) if out else None, help="the file of results")
    return parser


def read_json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def read_lines(path: Path) -> list[Any]:
    """Returns the documents of a file of JSON lines; none if there is no such file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def write_json(path: Path | None, document: Any, **options: Any) -> str:
    """Writes a document as JSON, unless the path is None, and returns its text."""
    text = json.dumps(document, **{"indent": 1, **options})
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")
    return text


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]], **options: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, **options) + "\n" for row in rows), encoding="utf-8")


def append_line(path: Path, row: Mapping[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row, sort_keys=True) + "\n")


def heading(*titles: str, right: bool = False) -> list[str]:
    """Returns the first two lines of a table in Markdown."""
    rest = "---:|" if right else "---|"
    return [f"| {' | '.join(titles)} |", "|---|" + rest * (len(titles) - 1)]


def cpu_seconds() -> float:
    """Returns the processor time of this process and of the processes that it waited for."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def peak_bytes() -> int:
    """Returns the largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def with_repository(**variables: str) -> dict[str, str]:
    """Returns this process's environment with the repository on Python's path, and further variables."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, **variables}


def git(*arguments: str, folder: Path = ROOT, check: bool = True) -> str:
    """Returns the output of a git command; without ``check``, an empty text if the command fails."""
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=check)
    return done.stdout.strip()


def installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def least_seconds(contestants: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, tuple[float, float]]:
    """Returns the least seconds of each contestant, by the clock and by this process's processor time, in turns."""
    best = dict.fromkeys(contestants, (math.inf, math.inf))
    for _ in range(rounds):
        for name, run in contestants.items():
            clock, processor = time.perf_counter(), time.process_time()
            run()
            took = time.perf_counter() - clock, time.process_time() - processor
            best[name] = (min(best[name][0], took[0]), min(best[name][1], took[1]))
    return best


def run_for_json(command: Sequence[str], **variables: str) -> dict[str, Any]:
    """Runs a command with further environment variables, and returns the document in the last line of its output."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, **variables})
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def gpt2_config(*, vocab: int, length: int, width: int, layers: int, heads: int, **more: Any) -> Any:
    """Returns the configuration of a GPT-2 without dropout, whose token 0 begins and ends a text."""
    from transformers import GPT2Config

    return GPT2Config(
        vocab_size=vocab, n_positions=length, n_embd=width, n_layer=layers, n_head=heads, resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0, **more,
    )  # fmt: skip
