"""Many strings by their hashes: which of them may stand in a text, in a fraction of the memory that they take.

`StringIndex` holds strings as Python objects, some 300 bytes each. Eight bytes of hash are enough to say that a string
stands nowhere, which is what is true of nearly all. What may stand somewhere is then looked up as text.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, combinations, islice, pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from pipelines.gate.strings import joined_digits, runs_of_digits

_Hashes = npt.NDArray[np.int64]
_TEXTS: Final = 4_096
"""Texts whose words are looked up at once."""


class HashedStrings:
    """A filter that names strings which may stand in texts, aligned to words and with numbers grouped in any way.

    Every string that `StringIndex.find` would find is named; others only where two hashes of 64 bits agree. Hashes are
    Python's own, which differ from process to process: nothing that is written may depend on them.

    Args:
        strings: normalised strings; repeats make no difference.
    """

    def __init__(self, strings: Iterable[str]) -> None:
        singles, pairs, wholes, digits = (array("q") for _ in range(4))
        lengths = set[int]()
        for string in strings:
            if " " not in string:
                singles.append(hash(string))
            else:
                words = string.split(" ")
                lengths.add(len(words))
                pairs.append(hash((words[0], words[1])))
                wholes.append(hash(string))
            if (joined := joined_digits(string)) is not None:
                digits.append(hash(joined))
        self._singles, self._pairs, self._wholes, self._digits = map(_sorted, (singles, pairs, wholes, digits))
        self._lengths = sorted(lengths)

    def named_in(self, texts: Iterable[Sequence[str]]) -> set[str]:
        """Returns the strings that may stand in some texts, in the form of `key_of`.

        Args:
            texts: texts, each as the words of `pipelines.gate.strings.words_of`.
        """
        return {key for _, key in self.candidates_in(texts)}

    def candidates_in(self, texts: Iterable[Sequence[str]]) -> Iterator[tuple[int, str]]:
        """Yields where strings may stand, in no order: the number of a text, and the form of `key_of`.

        Args:
            texts: texts in the form that `named_in` takes.
        """
        texts = iter(texts)
        first = 0
        while batch := list(islice(texts, _TEXTS)):
            stops = np.cumsum(list(map(len, batch)))
            for number, word in _those_in(self._singles, list(chain.from_iterable(batch))):
                yield first + _text_of(number, stops), word
            if len(self._wholes):
                numbers, runs = _apart(self._longer(batch))
                yield from ((first + numbers[number], run) for number, run in _those_in(self._wholes, runs))
            if len(self._digits):
                numbers, runs = _apart((n, run) for n, text in enumerate(batch) for _, _, run in runs_of_digits(text))
                yield from ((first + numbers[number], run) for number, run in _those_in(self._digits, runs))
            first += len(batch)

    def _longer(self, texts: Sequence[Sequence[str]]) -> Iterator[tuple[int, str]]:
        """Runs of words, as long as strings are, that begin as one of them does, with the numbers of their texts."""
        hashes = list(map(hash, chain.from_iterable(map(pairwise, texts))))
        stops = np.cumsum([max(0, len(words) - 1) for words in texts])
        for number in np.flatnonzero(_are_in(self._pairs, hashes)).tolist():
            text = _text_of(number, stops)
            words = texts[text]
            at = number - int(stops[text - 1] if text else 0)
            for length in self._lengths:
                if at + length > len(words):
                    break
                yield text, " ".join(words[at : at + length])

    def parts_of(self, words: Iterable[str]) -> set[str]:
        """Returns parts of words, whole ones too, that may be strings of one word."""
        parts = (word[start:end] for word in words for start, end in combinations(range(len(word) + 1), 2))
        found = set[str]()
        while batch := list(islice(parts, 64 * _TEXTS)):
            found.update(part for _, part in _those_in(self._singles, batch))
        return found


def key_of(string: str) -> str:
    """Returns what strings share that stand for each other: the digits of a number, all of any other string."""
    joined = joined_digits(string)
    return string if joined is None else joined


def _sorted(hashes: array[int]) -> _Hashes:
    return np.unique(np.frombuffer(hashes, dtype=np.int64)) if hashes else np.empty(0, dtype=np.int64)


def _are_in(known: _Hashes, hashes: Sequence[int]) -> npt.NDArray[np.bool_]:
    if not len(known):
        return np.zeros(len(hashes), dtype=bool)
    asked, places = np.unique(np.array(hashes, dtype=np.int64), return_inverse=True)  # in order, for the caches' sake
    at = np.minimum(np.searchsorted(known, asked), len(known) - 1)
    agree: npt.NDArray[np.bool_] = known[at] == asked
    return agree[places]


def _those_in(known: _Hashes, texts: Sequence[str]) -> Iterator[tuple[int, str]]:
    numbers = np.flatnonzero(_are_in(known, [hash(text) for text in texts])).tolist()
    return ((number, texts[number]) for number in numbers)


def _text_of(number: int, stops: npt.NDArray[np.int64]) -> int:
    """The text that a piece is of, by the numbers of pieces up to the end of each text."""
    return int(np.searchsorted(stops, number, side="right"))


def _apart(pairs: Iterable[tuple[int, str]]) -> tuple[list[int], list[str]]:
    both = list(pairs)
    return [number for number, _ in both], [text for _, text in both]
