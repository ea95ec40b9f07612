"""Decides if compiled passes are used. The choice never changes an answer."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType

WORTHWHILE_ROWS = 500_000
"""Rows from which compiled passes pay: numpy and mmh3 process this many while numba and its cached code load."""


def compiled(num_rows: int) -> ModuleType | None:
    """Returns the compiled passes if numba is installed and they pay for a job of this size."""
    name = "pipelines.dedup.compiled"
    if name in sys.modules:
        return sys.modules[name]
    if num_rows < WORTHWHILE_ROWS or importlib.util.find_spec("numba") is None:
        return None
    return importlib.import_module(name)
