"""Finds patterns of file names for the tables ``[[corpus.source]]`` that `reticent init` writes."""

from __future__ import annotations

import glob
import os.path
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from fnmatch import translate
from typing import Final

from pipelines.corpus.formats import COMPRESSIONS, suffix_of

FEW_NAMES: Final = 20
"""Number of files that may be listed by name."""
_FEW: Final = 4
_STEM_CHARS: Final = 3
_CLASSES: Final = ("[0-9]", "[0-9a-f]", "[0-9A-Za-z]")


def patterns_for(names: Sequence[str], others: Collection[str]) -> tuple[str, ...]:
    """Returns a few patterns that match all of some files and none of the others.

    Args:
        names: names of the files in the corpus, with ``/``
        others: names of files that no pattern may match

    Returns:
        Patterns for ``corpus.source.pattern``. The files' own names if no pattern separates them.
    """
    for patterns in _candidates(names):
        if not any(matches(other, patterns) for other in others) and all(matches(name, patterns) for name in names):
            return patterns
    return by_name(names)


def by_name(names: Sequence[str]) -> tuple[str, ...]:
    """Returns a pattern for each name. Longer paths come first, because a short pattern matches their ends too."""
    return tuple(glob.escape(name) for name in sorted(names, key=lambda name: (-name.count("/"), name)))


def usual_pattern(names: Sequence[str]) -> tuple[str, ...]:
    """Returns the patterns by suffix, or ``*`` for files without a common one, whatever else they match."""
    ends = _ends(names)
    return tuple(f"*{end}" for end in ends) if all(ends) and len(ends) <= _FEW else ("*",)


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Checks if one of the patterns matches a file's name, as `pipelines.corpus.options.source_of` does."""
    return _compiled(tuple(patterns)).match(name) is not None


_KNOWN: dict[tuple[str, ...], re.Pattern[str]] = {}


def _compiled(patterns: tuple[str, ...]) -> re.Pattern[str]:
    if patterns not in _KNOWN:
        _KNOWN.clear()  # one at a time is used
        _KNOWN[patterns] = re.compile("|".join(f"(?:{translate(p)})|(?:{translate(f'*/{p}')})" for p in patterns))
    return _KNOWN[patterns]


def _ends(names: Sequence[str]) -> list[str]:
    """Returns the distinct suffixes with their case and with the suffix of a compression, as patterns."""
    found = set()
    for name in names:
        suffix = suffix_of(name)
        if suffix and not name.lower().endswith((suffix, *(suffix + mark for mark in COMPRESSIONS))):
            suffix = ""
        found.add(glob.escape(name[name.lower().rindex(suffix) :]) if suffix else "")
    return sorted(found)


def _candidates(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yields patterns that match all of the names, simple ones first."""
    ends = _ends(names)
    has_ends = all(ends) and len(ends) <= _FEW
    if has_ends:
        yield tuple(f"*{end}" for end in ends)
    bases = Counter(name.rpartition("/")[2] for name in names)
    if len(bases) <= _FEW and (len(bases) < len(names) or len(names) == 1):
        yield tuple(glob.escape(base) for base in sorted(bases))
    folders = sorted({name.rpartition("/")[0] for name in names})
    tails = [f"*{end}" for end in ends] if has_ends else ["*"]
    if "" not in folders:
        above = os.path.commonpath(folders)
        if above:
            yield tuple(f"{glob.escape(above)}/{tail}" for tail in tails)
        if 1 < len(folders) <= _FEW:
            yield tuple(f"{glob.escape(folder)}/{tail}" for folder in folders for tail in tails)
        yield tuple(f"*/{tail}" for tail in tails)
    elif len(folders) == 1 and len(names) > FEW_NAMES and not has_ends:
        yield ("*",)
    yield from _shapes(list(bases), tails)
    if not has_ends:
        yield ("*",)


def _shapes(bases: Sequence[str], tails: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yields patterns by the common beginning of names, or by the kind of their first character or of their suffix."""
    if len(bases) < 2:
        return
    start = _common_start(bases)
    if len(start) >= _STEM_CHARS:
        yield tuple(f"{glob.escape(start)}{tail}" for tail in tails)
    for characters in _CLASSES:
        if all(re.match(characters, base) for base in bases):
            yield tuple(f"{characters}{tail}" for tail in tails)
        if all(re.search(rf"\.{characters}[^.]*\Z", base) for base in bases):
            yield (f"*.{characters}*",)


def _common_start(names: Sequence[str]) -> str:
    low, high = min(names), max(names)
    same = next((at for at, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
    return low[:same]
