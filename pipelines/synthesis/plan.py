"""The request for each synthetic row: a domain, a speaker and a length, drawn from a mix that the settings state.

Every row has random numbers of its own, which follow from a public seed and the row's number alone (Philox: Salmon et
al. 2011, a counter-based generator). So it does not matter which process writes which rows, in what order, or how often
it was killed. Public: the mix, the seed and the number of rows. Nothing here may be counted on private text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from pipelines.errors import ConfigError

_DRAWS_OF_PLAN: Final = 3
_PARTITION_DIGITS: Final = 9


@dataclass(frozen=True, kw_only=True)
class Mix:
    """Shares that add up to 1, as the settings state them.

    Attributes:
        names: names that are drawn; None stands for no name.
        shares: share of each.
    """

    names: tuple[str | None, ...]
    shares: tuple[float, ...]

    @classmethod
    def of(cls, given: Mapping[str, float] | None, known: Sequence[str], what: str) -> Mix:
        """Returns the mix that settings give; None is the same share of every name that the model has a token for.

        Raises:
            ConfigError: the model has no token for a name.
        """
        if given is None:
            names: tuple[str | None, ...] = tuple(sorted(known)) or (None,)
            return cls(names=names, shares=(1 / len(names),) * len(names))
        if unknown := sorted(given.keys() - set(known)):
            raise ConfigError(
                f"synthesize.{what}: the model has no token for {', '.join(unknown)}; it knows "
                f"{', '.join(sorted(known)) or 'none'}"
            )
        total = sum(given.values())
        return cls(names=tuple(sorted(given)), shares=tuple(given[name] / total for name in sorted(given)))

    def at(self, uniform: float) -> str | None:
        """Returns the name that a number in [0, 1) draws."""
        return self.names[_place(self.shares, uniform)]


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """Lengths of texts in tokens: ranges with their shares, which add up to 1.

    Attributes:
        ranges: (fewest, most) tokens, both included.
        shares: share of each.
    """

    ranges: tuple[tuple[int, int], ...]
    shares: tuple[float, ...]

    @classmethod
    def of(cls, given: Mapping[str, float], max_new_tokens: int) -> Lengths:
        """Reads settings such as ``{"1-16": 0.5, "17-64": 0.5}``; empty: any length up to ``max_new_tokens``.

        Raises:
            ValueError: a range is written otherwise, is empty, or ends above ``max_new_tokens``.
        """
        found = {}
        for text, share in (given or {f"1-{max_new_tokens}": 1.0}).items():
            first, dash, last = text.partition("-")
            if not (dash and first.isdecimal() and last.isdecimal()):
                raise ValueError(f'lengths: {text!r} is no range of tokens such as "1-16"')
            if not 1 <= int(first) <= int(last) <= max_new_tokens:
                raise ValueError(f"lengths: {text!r} must lie between 1 and max_new_tokens = {max_new_tokens}")
            found[int(first), int(last)] = share
        total = sum(found.values())
        ranges = tuple(sorted(found))
        return cls(ranges=ranges, shares=tuple(found[one] / total for one in ranges))

    def at(self, uniform: float) -> tuple[int, int]:
        """Returns the range that a number in [0, 1) draws."""
        return self.ranges[_place(self.shares, uniform)]


def _place(shares: Sequence[float], uniform: float) -> int:
    return min(int(np.searchsorted(np.cumsum(shares), uniform, side="right")), len(shares) - 1)


@dataclass(frozen=True, kw_only=True)
class Turn:
    """The request for one row, and the numbers that draw its tokens.

    Attributes:
        record, turn: its place.
        domain, speaker: their names, or None.
        fewest, most: tokens of its text.
        uniforms: (most,) in [0, 1), one a token.
    """

    record: int
    turn: int
    domain: str | None
    speaker: str | None
    fewest: int
    most: int
    uniforms: npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The requests for all rows.

    Attributes:
        domains, speakers: their mixes. Later turns of a record go on through the speakers, in the order of the mix.
        lengths: lengths of every turn.
        turns: number of turns of a record.
        seed: public.
    """

    domains: Mix
    speakers: Mix
    lengths: Lengths
    turns: int
    seed: int

    def turn(self, row: int) -> Turn:
        """Returns the request for a row of the table."""
        record, turn = divmod(row, self.turns)
        first = _numbers(self.seed, record * self.turns).random(_DRAWS_OF_PLAN)
        numbers = _numbers(self.seed, row)
        own = numbers.random(_DRAWS_OF_PLAN)
        fewest, most = self.lengths.at(own[2])
        names = self.speakers.names
        return Turn(
            record=record,
            turn=turn,
            domain=self.domains.at(first[0]),
            speaker=names[(names.index(self.speakers.at(first[1])) + turn) % len(names)],
            fewest=fewest,
            most=most,
            uniforms=numbers.random(most),
        )


def _numbers(seed: int, row: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=np.array([seed % 2**64, row], dtype=np.uint64)))


def partitions(num_rows: int, size: int) -> tuple[str, ...]:
    """Returns names of the pieces that a table is written in, which say their rows: ``000000000-000002048``.

    A table that grows keeps all its pieces but the last.
    """
    borders = [*range(0, num_rows, size), num_rows]
    return tuple(f"{first:0{_PARTITION_DIGITS}d}-{last:0{_PARTITION_DIGITS}d}" for first, last in pairwise(borders))


def rows_of(partition: str) -> range:
    """Returns the rows of a piece."""
    first, _, last = partition.partition("-")
    return range(int(first), int(last))
