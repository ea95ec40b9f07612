"""What a fresh interpreter has loaded after a piece of code."""

from __future__ import annotations

import subprocess
import sys


def loaded_after(code: str) -> set[str]:
    """Names of all modules, those of packages and those inside them.

    Raises:
        subprocess.CalledProcessError: the code failed; its error is printed.
    """
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return set(done.stdout.split())
