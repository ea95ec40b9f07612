"""Whether the compiled passes are used. It never changes an answer."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType

WORTHWHILE_ROWS = 500_000
"""Loading numba and its cached code takes about a second, in which numpy and mmh3 get through so many rows."""


def compiled(num_rows: int) -> ModuleType | None:
    """The compiled passes, if numba is installed and they pay for a job of this size."""
    name = "pipelines.dedup.compiled"
    if name in sys.modules:
        return sys.modules[name]
    if num_rows < WORTHWHILE_ROWS or importlib.util.find_spec("numba") is None:
        return None
    return importlib.import_module(name)
