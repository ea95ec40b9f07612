"""Our own wording in what is published: "Poisson" is a name, and a way to sample.

``own_words.json`` is made by ``make own-words``, which renders reports and model cards of many settings and keeps what
they say around the places that are filled in. No source text is read, so that a comment, a docstring or the author of a
paper cannot widen it.

The rule. A masked string is ours where it stands in a run of our own wording, together with the words beside it: two on
each side, up to the end of the line or to a place that is filled in. The same name anywhere else in the same file is a
find, and so is one that stands in such a place. What we cite is part of such a run like all other words.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from pipelines.gate.strings import MAX_PIECES, words_of

OWN_WORDS: Final = Path(__file__).with_name("own_words.json")
_FORMAT_WORDS: Final = Path(__file__).with_name("format_words.json")
"""Words of the file formats of ``tokenizers`` and ``transformers``: "fuse" may be a masked name, and is a setting."""

HOLE: Final = "\ue000"
"""Stands in a rendered text for a value that is filled in. No text says it: it is for private use."""
START: Final = "^"
END: Final = "$"
NUMBER: Final = "#"
"""Stands for any number, in however many groups of digits."""
_NEIGHBOURS: Final = 2

Run = tuple[str, ...]
"""Words that stand in a line one after the other, with `START` and `END` where the line begins and ends there."""


def runs_of(line: str) -> Iterator[str]:
    """The runs of a rendered line, as ``own_words.json`` lists them.

    A single word with a place that is filled in on either side is left out: it would be ours anywhere.
    """
    parts = [[token for token, _ in _tokens(part)] for part in line.split(HOLE)]
    parts[0].insert(0, START)
    parts[-1].append(END)
    for run in parts:
        if len(run) > 1 and not {START, END, NUMBER}.issuperset(run):
            yield " ".join(run)


class OwnWords:
    """What we say ourselves.

    Args:
        runs: as `runs_of` gives them.
        format_words: words of file formats that are not ours.
    """

    def __init__(self, runs: Iterable[str], format_words: Iterable[str] = ()) -> None:
        self._format_words = frozenset(format_words)
        self._containing: dict[str, list[tuple[Run, int]]] = {}
        for text in runs:
            run = tuple(text.split(" "))
            for at, word in enumerate(run):
                self._containing.setdefault(word, []).append((run, at))

    def explain(self, string: str, text: str, *, is_format: bool = False) -> bool:
        """Whether a string, wherever it stands in a text, is ours, or a number that we filled in.

        Args:
            string: normalised, as `pipelines.gate.strings.StringIndex.find` gives it.
            text: the text, its lines apart.
            is_format: whether the text may hold words of file formats.
        """
        wanted = string.casefold().split(" ")
        if is_format and len(wanted) == 1 and wanted[0] in self._format_words:
            return True
        marked, words = _read(text)
        places = list(_places(wanted, words))
        return bool(places) and all(
            self._is_ours(marked[number], start, stop) for place in places for number, start, stop in place
        )

    def uncovered(self, text: str) -> list[str]:
        """The words of a text that are not ours, in order, numbers left out."""
        found = []
        for line in text.split("\n"):
            tokens = [START, *(token for token, _ in _tokens(line)), END]
            places = [at for at in range(1, len(tokens) - 1) if tokens[at] != NUMBER]
            found += [tokens[at] for at in places if not self._is_ours(tokens, at, at + 1)]
        return found

    def _is_ours(self, tokens: Sequence[str], start: int, stop: int) -> bool:
        """Whether these tokens of a line stand in some run of ours with the same ones beside them."""
        size = stop - start
        for run, at in self._containing.get(tokens[start], ()):
            first, last = max(0, at - _NEIGHBOURS), min(len(run), at + size + _NEIGHBOURS)
            begin = start - (at - first)
            if at + size <= len(run) and begin >= 0 and tuple(tokens[begin : begin + last - first]) == run[first:last]:
                return True
        return False


def _tokens(line: str) -> list[tuple[str, list[str]]]:
    """The words of a line, each by itself; neighbouring numbers are one `NUMBER`. With the words that it stands for."""
    found: list[tuple[str, list[str]]] = []
    for word in words_of(line):
        if not word[0].isdigit():
            found.append((word.casefold(), [word.casefold()]))
        elif found and found[-1][0] == NUMBER:
            found[-1][1].append(word.casefold())
        else:
            found.append((NUMBER, [word.casefold()]))
    return found


Place = tuple[int, int]
"""Number of a line, and of a token in it."""


@functools.lru_cache(maxsize=1)  # a text is asked about as often as a string is found in it
def _read(text: str) -> tuple[list[list[str]], list[tuple[str, Place]]]:
    """The tokens of each line between its borders, and all words with the token that each belongs to."""
    lines = [_tokens(line) for line in text.split("\n")]
    marked = [[START, *(token for token, _ in line), END] for line in lines]
    words = [
        (word, (number, at))
        for number, line in enumerate(lines)
        for at, (_, group) in enumerate(line, start=1)
        for word in group
    ]
    return marked, words


def _places(wanted: Sequence[str], words: Sequence[tuple[str, Place]]) -> Iterator[list[tuple[int, int, int]]]:
    """Where a string stands, line by line; one of digits alone also where the same digits are grouped otherwise."""
    size, digits = len(wanted), "".join(wanted)
    for start in range(len(words)):
        if [word for word, _ in words[start : start + size]] == list(wanted):
            yield _by_line([place for _, place in words[start : start + size]])
        joined = ""
        for stop in range(start, min(len(words), start + MAX_PIECES) if digits.isdigit() else start):
            if not words[stop][0].isdigit() or len(joined) >= len(digits):
                break
            joined += words[stop][0]
            if joined == digits:
                yield _by_line([place for _, place in words[start : stop + 1]])


def _by_line(places: Iterable[Place]) -> list[tuple[int, int, int]]:
    """Each line's tokens as a half-open range."""
    by_line: dict[int, list[int]] = {}
    for number, at in places:
        by_line.setdefault(number, []).append(at)
    return [(number, tokens[0], tokens[-1] + 1) for number, tokens in by_line.items()]


@functools.cache
def own_words() -> OwnWords:
    """Our wording as it was generated."""
    runs = json.loads(OWN_WORDS.read_text("utf-8"))
    return OwnWords(runs, json.loads(_FORMAT_WORDS.read_text("utf-8")))
