"""Given and family names of all locales of the package ``faker``, in all scripts."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Collection, Iterator
from typing import Final

_GIVEN: Final = ("first_name", "first_romanized")
_FAMILY: Final = ("last_name", "last_romanized")
_NO_LISTS: Final = frozenset({"en"})
"""The base of English locales. Its list of family names holds many ordinary words."""

_NOT_LATIN: Final = "\u0250"


@functools.cache
def world_names() -> frozenset[str]:
    """Returns single given and family names in lower case, in the script of their country."""
    names = (name for locale in _locales() if locale not in _NO_LISTS for name in _names_of(locale, _GIVEN + _FAMILY))
    return frozenset(part for name in names for part in name.lower().split() if len(part) > 1)


@functools.cache
def given_names_abroad() -> frozenset[str]:
    """Returns single given names of all locales in lower case, of those in Latin letters."""
    names = (name for locale in _locales() for name in _names_of(locale, _GIVEN))
    return frozenset(part for name in names for part in name.lower().split() if max(part) < _NOT_LATIN)


def _locales() -> Iterator[str]:
    return (module.name for module in pkgutil.iter_modules(importlib.import_module("faker.providers.person").__path__))


def _names_of(locale: str, prefixes: tuple[str, ...]) -> Iterator[str]:
    provider = importlib.import_module(f"faker.providers.person.{locale}").Provider
    for attribute in dir(provider):
        values = getattr(provider, attribute)
        if attribute.startswith(prefixes) and isinstance(values, Collection) and not isinstance(values, str):
            yield from map(str, values)
