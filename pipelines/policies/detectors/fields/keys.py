"""Says what a field holds, by its name: a secret, a person, a place, a number, a header or a cookie."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Sequence
from typing import Final

from pipelines.policies.english.word_lists import word_lists

MARKS: Final = "\u064b-\u065f\u0900-\u0963\u0966-\u0dff\u0e31-\u0e4e"
"""Marks of vowels, which belong to a word in Arabic, in Indic scripts and in Thai."""

_PARTS: Final = re.compile(rf"(?:[^\W\d_]|[{MARKS}])+|\d+")
_NO_PART: Final = re.compile(rf"[^\w{MARKS}]|_")
_OWN_LETTERS: Final = str.maketrans("ıłøđ", "ilod")
"""Letters that Unicode does not take apart into a letter and a mark."""

_MISREAD: Final = str.maketrans("01345", "oleas")
"""Digits that a scanner reads in place of letters. It also reads "rn" for "m"."""

_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_MOST_PARTS: Final = 4
_MAX_KEY: Final = 64


@functools.lru_cache(maxsize=4096)
def plain(word: str) -> str:
    """Returns a word in small letters without marks on them."""
    apart = unicodedata.normalize("NFD", word.casefold())
    return unicodedata.normalize("NFC", "".join(c for c in apart if not unicodedata.combining(c))).translate(
        _OWN_LETTERS
    )


def _list(name: str) -> frozenset[str]:
    return frozenset(map(plain, word_lists("fields")[name]))


KINDS: Final = (
    "header",
    "cookie",
    "phrase",
    "secret",
    "version",
    "person",
    "user",
    "number",
    "place",
    "perhaps",
    "role",
)
"""Kinds of fields. A name may have several, as that of an account that is a person's name."""

NO_VALUE: Final = _list("no_value")
"""Values that tell nothing."""

_TABLES: Final = {kind: _list(kind) for kind in KINDS}
_KINDS_OF: Final = {
    name: frozenset(kind for kind, table in _TABLES.items() if name in table)
    for name in frozenset().union(*_TABLES.values())
}
"""Kinds by the known name of a field."""

_KNOWN: Final = _TABLES["secret"] | _TABLES["phrase"]
_ENDS: Final = frozenset(known[at:] for known in _KNOWN for at in range(len(known)))
THINGS: Final = _list("things")
"""Words for what a field describes, as in ``order_id``."""
_NAME: Final = frozenset({"name", "names", "owner", "id", "by", "address", "key"})


def parts_of(key: str) -> list[str]:
    """Returns the words of a name in camel, snake or kebab case."""
    return [plain(part) for piece in _CAMEL.split(key) for part in _PARTS.findall(piece)]


@functools.lru_cache(maxsize=8192)
def kinds_of(key: str) -> frozenset[str]:
    """Returns the kinds of a field. Parts of a name in camel, snake or kebab case count from its end."""
    if len(key) > _MAX_KEY:
        return frozenset()
    parts = parts_of(key)
    for first in range(max(0, len(parts) - _MOST_PARTS), len(parts)):
        joined = "".join(parts[first:])
        kinds = _KINDS_OF.get(joined, frozenset())
        if not kinds and joined.rstrip("0123456789") != joined:
            kinds = frozenset({"secret"}) if joined.rstrip("0123456789") in _TABLES["secret"] else kinds
        if kinds:
            before = parts[first - 1] if first else ""
            is_thing = before in THINGS and parts[first] in _NAME
            # The last letters of a longer name say nothing: "last_t", "go_to".
            is_weak = bool(before) and (len(joined) <= 2 and joined not in {"id", "ip"})
            return frozenset() if is_thing or is_weak else kinds
    misread = "m".join((key.translate(_MISREAD) if any(map(str.isalpha, key)) else key).rsplit("rn", 1))
    return kinds_of(misread) if misread != key else frozenset()


def may_end_secret(word: str) -> bool:
    """Returns true if a run of letters and digits may be the last one of a name of a secret or a phrase.

    Either the name's known part ends with it, or it ends with the known part. Digits behind the part do not count.
    """
    word = plain(word)
    letters = word.rstrip("0123456789")
    return letters in _ENDS or any(letters[at:] in _KNOWN or word[at:] in _KNOWN for at in range(len(letters)))


@functools.lru_cache(maxsize=4096)
def _joint(word: str) -> str:
    """Returns the letters and digits of a word, as in a name of several words that are written as one."""
    return _NO_PART.sub("", plain(word))


def may_name_secret(word: str) -> bool:
    """Returns true if a word may be the last one of the name of a secret or a phrase."""
    return _joint(word) in _ENDS or not kinds_of(word).isdisjoint(("secret", "phrase"))


def kinds_of_words(words: Sequence[str]) -> tuple[frozenset[str], int]:
    """Returns the kinds of a field that is named in words, and the number of the last words that name it."""
    joined = ""
    found: tuple[frozenset[str], int] | None = None
    for number in range(1, min(_MOST_PARTS, len(words)) + 1):
        joined = _joint(words[-number]) + joined
        if number > 1 and joined in _KINDS_OF:
            found = _KINDS_OF[joined], number
    if found is not None:
        return found
    return (kinds_of(words[-1]), 1) if words else (frozenset(), 0)
