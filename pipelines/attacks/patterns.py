"""Forms of canaries: text with holes, and the numbered candidates that fill them.

``My ID is {digits:6}.`` has 10^6 candidates. Holes: ``{digits:N}`` (also ``{N digits}``), ``{letters:N}`` (a to z),
``{name}`` (a first and a last name), ``{choice:a|b|c}``, and ``{rare:N}``: characters of a script that is not in
English text. Double the braces of the text itself.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Final

import numpy as np

from pipelines.attacks.names import FIRST_NAMES, LAST_NAMES
from pipelines.errors import ConfigError

DIGITS: Final = tuple("0123456789")
LETTERS: Final = tuple("abcdefghijklmnopqrstuvwxyz")
RARE: Final = tuple(map(chr, range(0xA000, 0xA48D)))
"""Syllables of Yi: no digits, no marks, and each a separate character."""
_MOST_SLOTS: Final = 64
_MOST_IN_TURN: Final = 100_000
_HOLE: Final = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_KINDS: Final = "{digits:N}, {N digits}, {letters:N}, {rare:N}, {name}, {choice:a|b|c}"


@dataclass(frozen=True)
class Slot:
    """A choice within a hole.

    Attributes:
        options: possible texts, all different and none empty.
    """

    options: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.options or len(set(self.options)) < len(self.options) or "" in self.options:
            raise ConfigError("a canary's hole needs options that are all different and not empty")


Part = str | tuple[Slot | str, ...]
"""Text, or a hole: slots and the text between them."""


@dataclass(frozen=True)
class Pattern:
    """A text with holes. Candidates are numbered from 0; the last slot changes fastest.

    Attributes:
        parts: text and holes in turn.

    Raises:
        ConfigError: there is no hole, or two candidates could be the same text.
    """

    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        slots = self.slots
        if not slots or len(slots) > _MOST_SLOTS:
            raise ConfigError(f"a canary needs a hole ({_KINDS}), and at most {_MOST_SLOTS} characters or words in all")
        # Every text then has one reading: a slot has one length, or ends at the start of the text behind it.
        flat = [*self._flat(), ""]
        for part, behind in pairwise(flat):
            if isinstance(part, str) or len(set(map(len, part.options))) == 1:
                continue
            if isinstance(behind, Slot) or (behind and any(behind[0] in option for option in part.options)):
                raise ConfigError(
                    "a canary's hole with options of several lengths must end the text, or be followed by text whose "
                    "first character is in none of them"
                )

    @classmethod
    def parse(cls, text: str) -> Pattern:
        """Reads a pattern in the syntax of this module's docstring.

        Raises:
            ConfigError: a hole has no known kind, a brace is single, or there is no hole.
        """
        parts: list[Part] = []
        at, literal = 0, ""
        for found in _HOLE.finditer(text):
            literal += text[at : found.start()]
            at = found.end()
            if found[0] in ("{{", "}}"):
                literal += found[0][0]
            elif found[1] is None:
                raise ConfigError("a canary has a single brace; double the braces that are text")
            else:
                parts += [*([literal] if literal else []), _hole(found[1])]
                literal = ""
        literal += text[at:]
        return cls((*parts, *([literal] if literal else [])))

    @property
    def slots(self) -> tuple[Slot, ...]:
        """All slots, in order."""
        return tuple(part for part in self._flat() if isinstance(part, Slot))

    @property
    def size(self) -> int:
        """The number of candidates, |R|."""
        return math.prod(len(slot.options) for slot in self.slots)

    def text(self, index: int) -> str:
        """Returns a candidate by its number.

        Raises:
            IndexError: there is no such candidate.
        """
        return "".join(self._pieces(index))

    def index(self, text: str) -> int:
        """Returns the number of a candidate.

        Raises:
            ValueError: the text is none of the candidates. The message does not repeat it.
        """
        number, at = 0, 0
        flat = [*self._flat(), ""]
        for part, behind in pairwise(flat):
            if isinstance(part, str):
                piece, is_right = part, text.startswith(part, at)
            else:
                lengths = set(map(len, part.options))
                end = at + lengths.pop() if len(lengths) == 1 else text.find(str(behind), at) if behind else len(text)
                piece = text[at:end]
                is_right = end >= at and piece in part.options
                number = number * len(part.options) + (part.options.index(piece) if is_right else 0)
            if not is_right:
                break
            at += len(piece)
        if not is_right or at != len(text):
            raise ValueError("the text is no candidate of the pattern")
        return number

    def texts(self, start: int, end: int) -> Iterator[str]:
        """Yields the candidates from number ``start`` to ``end`` - 1."""
        flat = self._flat()
        options = [part.options if isinstance(part, Slot) else (part,) for part in flat]
        # Multiplies out the slots at the end; those before them change seldom.
        tail, turn = len(flat), 1
        while tail and turn * len(options[tail - 1]) <= _MOST_IN_TURN:
            tail -= 1
            turn *= len(options[tail])
        for block in range(start // turn, -(-end // turn)):
            head = "".join(self._pieces(block * turn)[:tail])
            first, last = max(start - block * turn, 0), min(end - block * turn, turn)
            for number, pieces in enumerate(product(*options[tail:])):
                if number >= last:
                    break
                if number >= first:
                    yield head + "".join(pieces)

    def holes(self, index: int) -> tuple[tuple[int, int], ...]:
        """Returns the half-open ranges of characters of a candidate's holes."""
        pieces, ranges, at = iter(self._pieces(index)), [], 0
        for part in self.parts:
            length = sum(len(next(pieces)) for _ in ([part] if isinstance(part, str) else part))
            if not isinstance(part, str):
                ranges.append((at, at + length))
            at += length
        return tuple(ranges)

    def draw(self, generator: np.random.Generator) -> int:
        """Draws the number of a candidate, each equally likely."""
        number = 0
        for slot in self.slots:
            number = number * len(slot.options) + int(generator.integers(len(slot.options)))
        return number

    def after(self, text: str) -> Pattern:
        """Returns the pattern with a text before it."""
        first = self.parts[0]
        rest = (text + first, *self.parts[1:]) if isinstance(first, str) else (text, *self.parts)
        return Pattern(rest) if text else self

    def _flat(self) -> list[Slot | str]:
        return [piece for part in self.parts for piece in ([part] if isinstance(part, str) else part)]

    def _pieces(self, index: int) -> list[str]:
        if not 0 <= index < self.size:
            raise IndexError("there is no such candidate")
        pieces = []
        for part in reversed(self._flat()):
            if isinstance(part, Slot):
                index, digit = divmod(index, len(part.options))
                pieces.append(part.options[digit])
            else:
                pieces.append(part)
        return pieces[::-1]


def words_pattern(prefix: str, words: Sequence[str], num_words: int) -> Pattern:
    """Returns a pattern that continues a text with random words, which hardly any model expects.

    Args:
        prefix: beginning of the text, with a blank at the end.
        words: words to draw from, without blanks in them.
        num_words: number of words that follow.
    """
    slot = Slot(tuple(words))
    pieces: list[Slot | str] = [slot]
    for _ in range(num_words - 1):
        pieces += [" ", slot]
    return Pattern((prefix, tuple(pieces)))


def _hole(kind: str) -> tuple[Slot | str, ...]:
    name, _, given = kind.partition(":")
    written = re.fullmatch(r"(\d+) digits", kind)
    if written is not None:
        name, given = "digits", written[1]
    if kind == "name":
        return Slot(FIRST_NAMES), " ", Slot(LAST_NAMES)
    if name == "choice":
        return (Slot(tuple(given.split("|"))),)
    alphabets = {"digits": DIGITS, "letters": LETTERS, "rare": RARE}
    if name not in alphabets or not given.isdecimal() or not 0 < int(given) <= _MOST_SLOTS:
        raise ConfigError(f"a canary has a hole of no known kind; there are {_KINDS}")
    return (Slot(alphabets[name]),) * int(given)
