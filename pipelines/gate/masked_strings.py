"""The masked strings of a whole corpus, which the gate searches for a part at a time.

Up to `CHUNK_STRINGS` strings are held in memory and searched at once. More of them lie in scratch files, by a hash, and
are searched in two steps: hashes of all of them, in one pass over the rows, leave the few that may stand there, and
these are searched as ever in the rows that may hold one. So the time grows with the text, and not with its square. What
is found is the same.
"""

from __future__ import annotations

import json
import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import chain, islice, repeat
from typing import Final

from pipelines.artifacts import Source, Target
from pipelines.gate.hash_filter import HashedStrings, key_of
from pipelines.gate.strings import Choice, StringIndex
from pipelines.tables import Table

CHUNK_STRINGS: Final = 100_000
"""Strings held at once as text (about 30 MB)."""
HASHED_STRINGS: Final = 50_000_000
"""Strings held at once as hashes (about 400 MB, twice that while they are sorted); more take another pass over rows."""
_MAX_FILES: Final = 256
"""Scratch files that are open at once; beyond 26 million strings the largest part grows instead."""

Chunk = dict[str, str]
"""Strings with the labels under which they were masked, several joined by ``+``."""
Texts = Callable[[], Iterable[Sequence[str]]]
MayHold = Callable[[], Iterator[bool]] | None
"""Of each text in turn, whether a string may stand in it; None where that is so of none."""


class MaskedStrings:
    """The strings that are searched for, each in one chunk; those that stand for each other are in the same one.

    Args:
        tables: ``gate_strings`` tables.
        choice: choice of what is searched for.
        scratch: an empty folder.

    Attributes:
        searched: number of strings that are searched for, by label, once a table.
        left_out: number of strings that are not, by reason, once a table.
    """

    def __init__(self, tables: Sequence[Table], choice: Choice, scratch: Target) -> None:
        self.searched: Counter[str] = Counter()
        self.left_out: Counter[str] = Counter()
        self._scratch = scratch
        self._num_files = 0
        self._num_rows = num_rows = sum(table.num_rows for table in tables)
        self._hashed: tuple[HashedStrings, ...] | None = None
        if num_rows <= CHUNK_STRINGS:
            self._only = _merged(self._chosen(tables, choice))
        else:
            self._num_files = min(_MAX_FILES, math.ceil(num_rows / CHUNK_STRINGS))
            self._write(self._chosen(tables, choice))

    @property
    def are_few(self) -> bool:
        """Tells if all strings are one chunk."""
        return not self._num_files

    def chunks(self) -> Iterator[Chunk]:
        """Yields all strings; a chunk at a time is held in memory."""
        if self.are_few:
            yield self._only
        for number in range(self._num_files):
            yield _merged(tuple(json.loads(line.decode())) for line in self._lines(number))

    def hashed(self) -> Iterator[HashedStrings]:
        """All strings by their hashes, as many at a time as memory may hold; where that is all of them, they stay."""
        if self._hashed is None:
            groups = map(HashedStrings, groups_of(chain.from_iterable(self.chunks()), HASHED_STRINGS))
            if self._num_rows > HASHED_STRINGS:
                return groups
            self._hashed = tuple(groups)
        return iter(self._hashed)

    def to_search(self, parts: Sequence[Texts]) -> Iterator[tuple[Chunk, list[MayHold]]]:
        """Chunks, each with where it is to be searched: between them they hold whatever stands in a text.

        Args:
            parts: parts of the texts, each given anew whenever it is called, as the words of
                `pipelines.gate.strings.words_of`.

        Yields:
            A chunk, and of each part which of its texts may hold one of the strings. A bit a text is held.
        """
        if self.are_few:
            yield self._only, [partial(repeat, True) for _ in parts]
            return
        named, places = set[str](), [bytearray() for _ in parts]
        for hashed in self.hashed():
            for texts, place in zip(parts, places, strict=True):
                for text, key in hashed.candidates_in(texts()):
                    named.add(key)
                    place.extend(bytes(max(0, text // 8 + 1 - len(place))))
                    place[text // 8] |= 1 << text % 8
        may_hold: list[MayHold] = [partial(_bits_of, place) if place else None for place in places]
        chunk: Chunk = {}
        for strings in self.chunks():
            chunk |= {string: label for string, label in strings.items() if key_of(string) in named or string in named}
            if len(chunk) >= CHUNK_STRINGS:
                yield chunk, may_hold
                chunk = {}
        yield chunk, may_hold

    def singles(self) -> Iterator[StringIndex | HashedStrings]:
        """All strings, to be asked which parts of words are strings of one word (``parts_of``)."""
        if self.are_few:
            yield StringIndex(self._only)
        else:
            yield from self.hashed()

    def _chosen(self, tables: Sequence[Table], choice: Choice) -> Iterator[tuple[str, str]]:
        for table in tables:
            for batch in table.batches(("string", "label")):
                columns = (batch.column(name).to_pylist() for name in ("string", "label"))
                for string, label in zip(*columns, strict=True):
                    reason = choice.reason_against(string, label)
                    if reason is None:
                        self.searched[label] += 1
                        yield string, label
                    else:
                        self.left_out[reason] += 1

    def _write(self, chosen: Iterable[tuple[str, str]]) -> None:
        with ExitStack() as stack:
            files = [stack.enter_context(self._scratch.lines(self._name(n))) for n in range(self._num_files)]
            for string, label in chosen:
                file = files[zlib.crc32(key_of(string).encode()) % self._num_files]
                file.write(json.dumps((string, label)).encode() + b"\n")

    def _lines(self, number: int) -> Iterator[bytes]:
        return Source(folder=self._scratch.folder).lines(self._name(number))

    def _name(self, number: int) -> str:
        return f"{number:03d}.jsonl"


def _bits_of(places: bytearray) -> Iterator[bool]:
    return chain((bool(byte >> at & 1) for byte in places for at in range(8)), repeat(False))


def _merged(strings: Iterable[tuple[str, str]]) -> Chunk:
    chunk: Chunk = {}
    for string, label in strings:
        known = chunk.get(string)
        if known is None:
            chunk[string] = label
        elif label not in known.split("+"):
            chunk[string] = "+".join(sorted([*known.split("+"), label]))
    return chunk


def groups_of(strings: Iterator[str], size: int) -> Iterator[Iterator[str]]:
    """Strings in groups, one at least; each is to be read before the next."""
    first = list(islice(strings, 1))
    yield chain(first, islice(strings, size - 1))
    while first := list(islice(strings, 1)):
        yield chain(first, islice(strings, size - 1))
