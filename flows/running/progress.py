"""Displays of a run's progress, on the terminal and in Prefect. They show only stage names and counts."""

from __future__ import annotations

import contextvars
import logging
import math
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flows.printing import steer
from flows.verbosity import is_quiet, is_verbose
from pipelines.graph import GRAPH
from pipelines.printable import printable
from pipelines.store.building.workers import PARTITIONS
from tasks.builders import StageProgress

_INTERVAL_SECONDS = 0.1
_QUIET_INTERVAL_SECONDS = 15.0
_SERVER_INTERVAL_SECONDS = 3.0
_LEAST_SECONDS = 2.0
_log = logging.getLogger(__name__)


class Console:
    """Progress on standard error: one moving line on a terminal, one line per event otherwise, none when quiet.

    The time left is an estimate from the pace since the first part was finished, so that slow starts do not distort it.
    """

    def __init__(self) -> None:
        self._quiet = is_quiet(os.environ)
        self._tty = sys.stderr.isatty() and not is_verbose(os.environ)
        self._begun: dict[str, tuple[float, int]] = {}
        self._last = 0.0
        self._width = 0

    def say(self, text: str) -> None:
        """Prints a line at once."""
        if self._quiet:
            return
        text = printable(text)
        if self._tty:
            steer(sys.stderr, "\r" + text.ljust(self._width)[:110])
            self._width = len(text)
        else:
            sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def progress(self, stage: str, done: int, total: int | None, message: str) -> None:
        """Shows a stage's progress, at a limited rate."""
        now = time.monotonic()
        began, first = self._begun.setdefault(stage, (now, done))
        if done < first or first == 0:  # another pass of the stage, or the time before its first part
            began, first = self._begun[stage] = (now, done)
        interval = _INTERVAL_SECONDS if self._tty or is_verbose(os.environ) else _QUIET_INTERVAL_SECONDS
        if now - self._last < interval:
            return
        self._last = now
        name = GRAPH[stage].shown_name if stage in GRAPH else stage
        share = f"{done:,}/{total:,}" if total else (f"{done:,}" if done else "")
        left = _time_left(now - began, done - first, total - done) if total else ""
        self.say(" ".join(part for part in (name, share, message, left) if part))

    def reading(self, done: int, total: int | None, message: str = "") -> None:
        """Shows the reading of input files."""
        self.progress("input", done, total, message)

    def copying(self, done: int, total: int | None, message: str = "") -> None:
        """Shows the copying of published files."""
        self.progress("mirror", done, total, message)

    def close(self) -> None:
        """Clears the moving line."""
        if self._tty and self._width:
            steer(sys.stderr, "\r" + " " * min(self._width, 110) + "\r")
            sys.stderr.flush()


def _time_left(seconds: float, num_done: int, num_left: int) -> str:
    """Says how long a stage still takes; empty while nothing can be estimated."""
    if seconds < _LEAST_SECONDS or num_done < 1 or num_left < 1:
        return ""
    rest = seconds * num_left / num_done
    if rest < 60:
        return f"(about {math.ceil(rest)} s left)"
    return f"(about {math.ceil(rest / 60)} min left)" if rest < 5400 else f"(about {rest / 3600:.1f} h left)"


@contextmanager
def never_in_the_way(what: str) -> Iterator[None]:
    """Turns errors of a display into warnings, because a restarting server must not fail a run."""
    try:
        yield
    except Exception as error:
        _log.warning("could not %s: %s", what, type(error).__name__)


class ServerProgress:
    """Progress artifacts of the stages of one run, sent by a thread of their own every few seconds.

    Stages that are over before the first sending never appear, so a run that changes nothing sends nothing. Use as a
    context manager; call as a `StageProgress`.
    """

    def __init__(self, also: StageProgress | None = None, interval_seconds: float = _SERVER_INTERVAL_SECONDS) -> None:
        self._also = also
        self._interval = interval_seconds
        self._lock = threading.Lock()
        self._percent: dict[str, float] = {}
        self._contexts: dict[str, contextvars.Context] = {}
        self._sent: dict[str, float] = {}
        self._artifacts: dict[str, Any] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._send_now_and_then, name="reticent-progress", daemon=True)

    def __call__(self, stage: str, done: int, total: int | None, message: str) -> None:
        """Notes a stage's progress. This is cheap, because a thread sends it."""
        if self._also is not None:
            self._also(stage, done, total, message)
        counts_partitions = stage in GRAPH and GRAPH[stage].partitioned
        if not total or stage not in GRAPH or counts_partitions != (message == PARTITIONS):
            return
        with self._lock:
            self._percent[stage] = round(100.0 * min(done / total, 1.0), 1)
            # The first report's context says which task run the artifact belongs to.
            self._contexts.setdefault(stage, contextvars.copy_context())

    def _send_now_and_then(self) -> None:
        while not self._over.wait(self._interval):
            self.send()

    def send(self) -> None:
        """Sends what has changed since the last time."""
        with self._lock:
            changed = {s: p for s, p in self._percent.items() if self._sent.get(s) != p}
        for stage, percent in changed.items():
            if stage not in self._artifacts and percent >= 100.0:
                continue  # the stage ended before its progress was ever shown
            with never_in_the_way("show progress"):
                self._contexts[stage].run(self._send_one, stage, percent)
                self._sent[stage] = percent

    def _send_one(self, stage: str, percent: float) -> None:
        from prefect.artifacts import create_progress_artifact, update_progress_artifact

        if stage in self._artifacts:
            update_progress_artifact(self._artifacts[stage], progress=percent)
        else:
            key = f"reticent-progress-{stage.replace('_', '-')}"
            self._artifacts[stage] = create_progress_artifact(percent, key, f"Progress of {GRAPH[stage].shown_name}")

    def __enter__(self) -> ServerProgress:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._over.set()
        if kind is None or issubclass(kind, Exception):  # an interrupted run must not wait for a server
            self._thread.join(self._interval)
            if kind is None:
                self._percent.update(dict.fromkeys(self._artifacts, 100.0))
            self.send()
