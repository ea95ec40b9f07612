"""Looks up many phrases in a text at once, by whole words, in any case and with any punctuation between them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

_PIECE: Final = re.compile(r"[^\W_]+")
_MAX_GAP_CHARS: Final = 3
"""Maximum between two words of a phrase: "Smith, John", "Mary-Ann", a line break with an indent."""


def pieces(text: str) -> tuple[str, ...]:
    """Returns the words of a phrase for comparison: runs of letters and digits, case folded."""
    return tuple(match[0].casefold() for match in _PIECE.finditer(text))


class PhraseTable:
    """A table of phrases with labels. A lookup costs one dictionary access per word of the text.

    Args:
        phrases: pairs of phrase and label. Phrases without a letter or digit are ignored.
    """

    def __init__(self, phrases: Iterable[tuple[str, str]]) -> None:
        table: dict[str, dict[tuple[str, ...], str]] = {}
        for phrase, label in phrases:
            words = pieces(phrase)
            if words:
                table.setdefault(words[0], {}).setdefault(words, label)
        self._by_first = {
            first: sorted(entries.items(), key=lambda entry: -len(entry[0])) for first, entries in table.items()
        }

    def __bool__(self) -> bool:
        return bool(self._by_first)

    def find(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Yields the characters and label of every phrase, and only the longest one of those that begin at a word."""
        matches = list(_PIECE.finditer(text))
        words = [match[0].casefold() for match in matches]
        for i, word in enumerate(words):
            for phrase, label in self._by_first.get(word, ()):
                last = i + len(phrase) - 1
                if tuple(words[i : last + 1]) == phrase and all(
                    matches[j + 1].start() - matches[j].end() <= _MAX_GAP_CHARS for j in range(i, last)
                ):
                    yield matches[i].start(), matches[last].end(), label
                    break
