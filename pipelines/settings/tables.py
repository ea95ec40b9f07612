"""The settings class of each table that configures stages, as an import path: a table is imported when it is used."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Final

from pipelines.config import StageConfig

STAGE_TABLES: Final[Mapping[str, str]] = {
    name: f"pipelines.settings.{name}:{name.title()}Config"
    for name in (
        *("corpus", "split", "dedup", "redact", "sample", "estimate", "gate", "shard", "train", "guarantee", "report"),
        *("audit", "synthesize"),
    )
}
"""Tables of stages by name, in the order of the documentation; each value is ``module:Class``."""


def settings_of(*tables: str) -> dict[str, str]:
    """Returns the settings class of some tables."""
    return {table: STAGE_TABLES[table] for table in tables}


def config_class(reference: str) -> type[StageConfig]:
    """Imports the settings class that ``module:Class`` names."""
    module, _, name = reference.partition(":")
    found: type[StageConfig] = getattr(importlib.import_module(module), name)
    return found
