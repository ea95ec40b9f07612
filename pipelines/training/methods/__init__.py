"""Training methods by name, one module each. A module offers ``plan``, ``train`` and ``event``.

Modules are named, not imported, so that settings can be checked without torch.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import Final

METHODS: Final[Mapping[str, str]] = {
    "crt": "pipelines.training.methods.crt",
}


def load_method(name: str) -> ModuleType:
    """Imports the module of a method.

    Raises:
        KeyError: no method has this name.
    """
    return importlib.import_module(METHODS[name])
