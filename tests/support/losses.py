"""The privacy losses of a step, computed by the library once for each kind of step."""

from __future__ import annotations

import functools
import sys


def remember_losses() -> None:
    """Where the library is imported: tables of 100,000 losses, for the same few steps again and again."""
    if (tables := sys.modules.get("pipelines.accounting.loss_tables")) is not None:
        tables.step_tables = functools.lru_cache(32)(tables.step_tables)  # nobody changes one
