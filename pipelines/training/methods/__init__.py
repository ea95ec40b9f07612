"""Training methods by name, one module each. A module offers ``prepare(corpus, settings)``; see ``base.py``.

Modules are named, not imported, so that settings can be checked without torch.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import Final

_HERE = "pipelines.training.methods"
METHODS: Final[Mapping[str, str]] = {
    name: f"{_HERE}.{name}"
    for name in ("crt", "jft", "dpsgd", "redaction_schedule", "sdpsgd_lstm", "redacted", "anonymized", "no_dp")
}

PRIVATE_ROOT_ONLY: Final = frozenset({"redacted", "anonymized", "no_dp"})
"""Methods whose model has no bound on what it tells of private rows: it is not published."""

ONE_PROCESS_ONLY: Final = frozenset({"sdpsgd_lstm"})
"""Methods whose steps are not shared among processes: its updates go from span to span through a record."""


def load_method(name: str) -> ModuleType:
    """Imports the module of a method.

    Raises:
        KeyError: no method has this name.
    """
    return importlib.import_module(METHODS[name])
