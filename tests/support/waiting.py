"""Starts commands that a test interrupts, and waits until something has happened."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.project import prefect_home


def start(*arguments: str | Path, cwd: Path, **environment: str) -> subprocess.Popen[bytes]:
    """Starts ``reticent`` in a session of its own, so that a signal can reach it and its children together.

    Args:
        arguments: words after ``reticent``.
        cwd: folder in which it runs, and that gets its error output, in ``stderr.txt``.
        environment: further variables.
    """
    with (cwd / "stderr.txt").open("wb") as error:
        return subprocess.Popen(
            [sys.executable, "-m", "flows.cli", *map(str, arguments)],
            cwd=cwd,
            env={**os.environ, "PREFECT_HOME": str(prefect_home(cwd / ".prefect")), **environment},
            stdout=subprocess.DEVNULL,
            stderr=error,
            start_new_session=True,
        )


def slowness() -> float:
    """Returns how many times as long work may take by the clock as on a machine with nothing else to do."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def wait_for(
    what: str,
    condition: Callable[[], Any],
    seconds: float = 60,
    *,
    process: subprocess.Popen[Any] | None = None,
    pause: float = 0.1,
) -> Any:
    """Waits until a function returns something true, and returns that.

    Args:
        what: name of what is waited for, for the message.
        condition: function to call again and again.
        seconds: time after which the test fails.
        process: process without which it cannot happen. Its end fails the test.
        pause: seconds between two calls.

    Raises:
        AssertionError: the time is over, or the process has ended.
    """
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert process is None or process.poll() is None, f"the process ended before {what}"
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(pause)
    return found
