"""Given and family names of all locales of the package ``faker``, in all scripts."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Collection, Iterator
from typing import Final

_PREFIXES: Final = ("first_name", "last_name", "first_romanized", "last_romanized")
_NO_LISTS: Final = frozenset({"en"})
"""The base of English locales. Its list of family names holds many ordinary words."""


@functools.cache
def world_names() -> frozenset[str]:
    """Returns single given and family names in lower case, in the script of their country."""
    locales = importlib.import_module("faker.providers.person")
    names = (
        name
        for module in pkgutil.iter_modules(locales.__path__)
        if module.name not in _NO_LISTS
        for name in _names_of(module.name)
    )
    return frozenset(part for name in names for part in name.lower().split() if len(part) > 1)


def _names_of(locale: str) -> Iterator[str]:
    provider = importlib.import_module(f"faker.providers.person.{locale}").Provider
    for attribute in dir(provider):
        values = getattr(provider, attribute)
        if attribute.startswith(_PREFIXES) and isinstance(values, Collection) and not isinstance(values, str):
            yield from map(str, values)
