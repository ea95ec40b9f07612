"""Attributes of modules that are imported at their first use (PEP 562)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy(module: str, places: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns ``__getattr__`` and ``__dir__`` of a module.

    Args:
        module: name of the module.
        places: module that holds an attribute under the same name, or the submodule that the attribute is, by name.
    """

    def get(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        imported = importlib.import_module(places[name])
        return imported if places[name] == f"{module}.{name}" else getattr(imported, name)

    return get, lambda: sorted(set(places) | vars(sys.modules[module]).keys())
