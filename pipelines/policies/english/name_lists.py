"""Given and family names of a few dozen countries in Latin letters, from the data of the package ``faker``."""

from __future__ import annotations

import functools
import importlib
from typing import Final

LOCALES: Final = (
    "cs_CZ da_DK de_DE en_GB en_IN en_KE en_NG en_NZ en_US es_ES es_MX fi_FI fr_FR hr_HR hu_HU id_ID it_IT nl_NL no_NO "
    "pl_PL pt_BR ro_RO sv_SE tr_TR vi_VN"
)


@functools.cache
def personal_names() -> frozenset[str]:
    """Single names in lower case, given and family names together."""
    return given_names() | _names("last_names")


@functools.cache
def given_names() -> frozenset[str]:
    """Single given names in lower case."""
    return _names("first_names")


def _names(prefix: str) -> frozenset[str]:
    names: set[str] = set()
    for locale in LOCALES.split():
        provider = importlib.import_module(f"faker.providers.person.{locale}").Provider
        for attribute in dir(provider):
            if attribute.startswith(prefix):
                names.update(part for name in getattr(provider, attribute) for part in name.lower().split())
    return frozenset(name for name in names if len(name) > 1)
