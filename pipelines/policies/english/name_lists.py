"""Given and family names of a few dozen countries in Latin letters, from the data of the package ``faker``."""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Iterable, Iterator
from typing import Final

from pipelines.policies.english.common_words import AMBIGUOUS_WORDS, COMMON_WORDS
from pipelines.policies.english.word_lists import listed_words, word_lists
from pipelines.policies.english.world_names import given_names_abroad

_PART: Final = re.compile(r"[^\W\d_a-z]+(?![a-z])|[^\W\d_]?[a-zß-ÿ]+")
_SHORT: Final = 2
_SHORTEST_RARE: Final = 4
_SMALL_WORDS: Final = word_lists("given_names")["small_words"]
PROGRAMS: Final = word_lists("rows")["programs"] | word_lists("ordinary")["programs"]
"""Words that tell of programs, and names of programs."""

_OWN_WORK: Final = word_lists("ordinary")["own_work"]
"""What somebody keeps in a file of one's own. A word of no dictionary beside it is a handle: "tbrandvold_notes.py"."""

_HANDLE: Final = 6
_OF_CODE: Final = (
    PROGRAMS
    | word_lists("ordinary")["technical"]
    | word_lists("technical")["modules"]
    | word_lists("technical")["code"]
)
_WORDS: Final = COMMON_WORDS | word_lists("ordinary_words")["words"] | _OF_CODE
LOCALES: Final = (
    "cs_CZ da_DK de_DE en_GB en_IN en_KE en_NG en_NZ en_US es_ES es_MX fi_FI fr_FR hr_HR hu_HU id_ID it_IT nl_NL no_NO "
    "pl_PL pt_BR ro_RO sv_SE tr_TR vi_VN"
)


@functools.cache
def personal_names() -> frozenset[str]:
    """Returns single given and family names in lower case."""
    return given_names() | _single_names("last_names")


@functools.cache
def given_names() -> frozenset[str]:
    """Returns single given names in lower case."""
    return _single_names("first_names")


@functools.cache
def rare_given_names() -> frozenset[str]:
    """Returns given names in Latin letters of all countries of ``faker`` that stand in none of our lists of words."""
    rare = frozenset(name for name in given_names_abroad() if len(name) >= _SHORTEST_RARE)
    return rare - COMMON_WORDS - listed_words()


@functools.cache
def rare_names_in_small_letters() -> frozenset[str]:
    """Returns the `rare_given_names` that also count in small letters."""
    return frozenset(name for name in rare_given_names() - _SMALL_WORDS if len(name) > _SHORTEST_RARE)


@functools.cache
def all_names() -> frozenset[str]:
    """Returns `personal_names`, `more_given_names` and `rare_given_names`."""
    return personal_names() | more_given_names() | rare_given_names()


def has_name(words: Iterable[str]) -> bool:
    """Returns true if one of some words in lower case is a listed name, and is not mostly used as an ordinary word."""
    names = all_names()
    return any(word in names and (word in AMBIGUOUS_WORDS or word not in COMMON_WORDS) for word in words)


@functools.lru_cache(maxsize=65_536)
def names_somebody(identifier: str) -> bool:
    """Returns true if a part of a name in code is a listed name or a handle, and no word of programs."""
    parts = [part.lower() for part in _PART.findall(identifier) if len(part) > _SHORT]
    if any(part in all_names() and part not in COMMON_WORDS and part not in _OF_CODE for part in parts):
        return True
    return not _OWN_WORK.isdisjoint(parts) and any(len(part) >= _HANDLE and part not in _WORDS for part in parts)


@functools.cache
def more_given_names() -> frozenset[str]:
    """Returns given names and short forms that ``faker`` lacks. The gate's list of words does not know them."""
    return frozenset[str]().union(*word_lists("given_names").values()) - _SMALL_WORDS


def names_of(locale: str, prefix: str) -> Iterator[str]:
    """Yields the names of a locale from all lists of ``faker`` whose attribute begins with a prefix."""
    provider = importlib.import_module(f"faker.providers.person.{locale}").Provider
    for attribute in dir(provider):
        if attribute.startswith(prefix):
            yield from getattr(provider, attribute)


def _single_names(prefix: str) -> frozenset[str]:
    names = (name for locale in LOCALES.split() for name in names_of(locale, prefix))
    return frozenset(part for name in names for part in name.lower().split() if len(part) > 1)
