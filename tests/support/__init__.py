"""What tests of more than one folder share, each in one place; pytest's ``pythonpath`` makes it importable."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
REPOSITORY = TESTS.parent


def child_environment(**variables: str) -> dict[str, str]:
    """The environment for a Python process that imports what tests import, and what is given."""
    paths = [str(REPOSITORY), str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **variables}


def run_command(
    command: Sequence[str | Path], *, check: bool = False, timeout: float = 600, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end, and keeps what it prints. The options are those of `subprocess.run`."""
    return subprocess.run(command, capture_output=True, text=True, check=check, timeout=timeout, **options)
