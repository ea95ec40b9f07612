"""Looks up many phrases in a text at once: by whole words, whatever their case and the punctuation between them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

_PIECE: Final = re.compile(r"[^\W_]+")
_MAX_GAP_CHARS: Final = 3
"""Between two words of a phrase: "Smith, John", "Mary-Ann", a line break with an indent."""


def pieces(text: str) -> tuple[str, ...]:
    """The words of a phrase as they are compared: runs of letters and digits, case folded."""
    return tuple(match[0].casefold() for match in _PIECE.finditer(text))


class PhraseTable:
    """Phrases with a label each; a lookup costs one dictionary access a word of the text.

    Args:
        phrases: pairs of phrase and label; those without a letter or digit are left out.
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
        """Every place where a phrase stands, as characters; at one place the longest phrase only."""
        found = list(_PIECE.finditer(text))
        words = [match[0].casefold() for match in found]
        for i, word in enumerate(words):
            for phrase, label in self._by_first.get(word, ()):
                last = i + len(phrase) - 1
                if tuple(words[i : last + 1]) == phrase and all(
                    found[j + 1].start() - found[j].end() <= _MAX_GAP_CHARS for j in range(i, last)
                ):
                    yield found[i].start(), found[last].end(), label
                    break
