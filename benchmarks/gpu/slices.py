"""A runner of cells, each in a process of its own, until the time of a slice is over."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from common import with_repository

from . import results
from .cells import Cell, Place

MARGIN_SECONDS: Final = 15.0
"""Time of a slice for ending a cell and writing results."""

_ENDS: Final = 3


@dataclass(frozen=True, kw_only=True)
class Slice:
    """The work of one call.

    Attributes:
        seconds: time after which every cell has ended.
        out: the folder of results.
        place: surroundings of cells.
        about: device, versions and commit, for each result.
        again: true if failed cells run again.
    """

    seconds: float
    out: Path
    place: Place
    about: Mapping[str, Any]
    again: bool = False


def obstacle(cell: Cell, device: str) -> str | None:
    """Returns the reason why a cell cannot run here, or None."""
    missing = [name for name in cell.needs if importlib.util.find_spec(name) is None]
    if device == "cpu":
        missing = [name for name in missing if name != "cupy"]
    if missing:
        return f"not installed: {', '.join(missing)}"
    if device == "cpu" and cell.name == "exactness/layers-bfloat16" and not has_lstm_in_bfloat16():
        return "this processor has no LSTM in bfloat16: it needs AVX-512 or AMX"
    return None


def has_lstm_in_bfloat16() -> bool:
    """Tells if oneDNN has a kernel for an LSTM in bfloat16 on this processor."""
    import torch

    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            torch.nn.LSTM(2, 2)(torch.zeros(1, 1, 2))
    except RuntimeError:
        return False
    return True


def run_slice(
    cells: Sequence[Cell],
    every: Sequence[Cell],
    given: Slice,
    start: Callable[[Cell, Path, Slice], subprocess.Popen[bytes]],
) -> list[str]:
    """Runs unfinished cells that fit, checks side by side, and returns the names of the cells that are left.

    A cell that was cut takes at least twice the time that it had; a cell that had a whole slice has failed.
    """
    deadline = time.monotonic() + given.seconds
    usable = given.seconds - MARGIN_SECONDS
    ready: list[Cell] = []
    for cell in cells:
        if results.is_finished(given.out, cell, again=given.again):
            continue
        reason = obstacle(cell, given.place.device)
        if reason is None:
            ready.append(cell)
            continue
        print(f"{cell.name}: skipped, {reason}", flush=True)
        results.write(given.out, cell, {"status": "skipped", "reason": reason, **given.about}, every)

    def work(cell: Cell, *, is_first: bool) -> tuple[Cell, dict[str, Any]] | None:
        left = deadline - time.monotonic() - MARGIN_SECONDS
        known = results.read(given.out, cell) or {}
        wanted = min(usable, max(cell.seconds, 2 * known.get("allowed_seconds", 0.0)))
        if left < wanted and (not is_first or left <= 0):
            return None
        begun = time.monotonic()
        found = run_cell(cell, given, left, start)
        took = time.monotonic() - begun
        if found["status"] == "cut" and left >= 0.9 * usable:
            found = {"status": "failed", "reason": f"takes longer than a slice of {given.seconds:.0f} s"}
        return cell, {**found, "seconds": round(took, 1), **given.about}

    def note(done: tuple[Cell, dict[str, Any]] | None) -> None:
        if done is not None:
            cell, found = done
            results.write(given.out, cell, found, every)
            print(f"{cell.name}: {found['status']}, {found['seconds']:.0f} s{_shown(found)}", flush=True)

    together = [cell for cell in ready if not cell.is_timed]
    with ThreadPoolExecutor(max(1, min(8, (os.cpu_count() or 2) // 2))) as pool:
        for future in as_completed([pool.submit(work, cell, is_first=True) for cell in together]):
            note(future.result())
    for number, cell in enumerate(cell for cell in ready if cell.is_timed):
        note(work(cell, is_first=not together and number == 0))
    return [cell.name for cell in cells if not results.is_finished(given.out, cell)]


def _shown(found: Mapping[str, Any]) -> str:
    if "reason" in found:
        return f": {found['reason']}"
    passed = found.get("figures", {}).get("passed")
    return "" if passed is None else ", holds" if passed else ", DOES NOT HOLD"


def run_cell(
    cell: Cell, given: Slice, seconds: float, start: Callable[[Cell, Path, Slice], subprocess.Popen[bytes]]
) -> dict[str, Any]:
    """Runs one cell in at most so many seconds, and returns its status and figures."""
    with tempfile.TemporaryDirectory(prefix="cell-") as scratch:
        answer = Path(scratch) / "answer.json"
        process = start(cell, answer, given)
        try:
            process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return {"status": "cut", "allowed_seconds": round(seconds, 1), "reason": "the slice was over"}
        finally:
            _end(process)
        if not answer.exists():
            return {"status": "failed", "reason": f"its process ended with {process.returncode} and no word"}
        said: dict[str, Any] = json.loads(answer.read_text("utf-8"))
        return said


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a cell's process and the processes that it started, which are of its group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=_ENDS)


def started(cell: Cell, answer: Path, given: Slice) -> subprocess.Popen[bytes]:
    """Starts a process of its own for a cell, so that an error of the device or full memory ends with the process."""
    place = given.place
    line = [sys.executable, "-m", "benchmarks.gpu", "--cell", cell.name, "--answer", str(answer)]
    line += ["--device", place.device, *(["--tiny"] if place.tiny else [])]
    line += ["--data-dir", str(place.data_dir)] if place.data_dir is not None else []
    for name, folder in place.models.items():
        line += ["--model", f"{name}={folder}"]
    environment = with_repository(HF_HUB_OFFLINE="1", TMPDIR=str(answer.parent))
    return subprocess.Popen(line, env=environment, start_new_session=True)
