"""Verdicts, computed from declared rules and the intervals of results.

*Reproduced*: the 95 % interval lies on the paper's side. *Partly*: the mean does, and the interval does not, or there
is one run, or some rules of a claim hold and others do not. *Not*: the mean lies on the other side.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from scipy.stats import t as student

from .cells import Cell, Compute, Impossible, LeftOut

Word = Literal["reproduced", "partly", "not", "not run here", "not possible here", "left out", "not compared"]
WITHOUT_RUN: Final[tuple[Word, ...]] = ("not run here", "not possible here", "left out")
CLOSE: Final = 0.1
"""Relative distance to the paper's number up to which a computed number is partly reproduced."""


@dataclass(frozen=True)
class Verdict:
    """A verdict with its reason."""

    word: Word
    reason: str


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95 % interval; ``exact`` if nothing is random; of ``num`` results."""

    mean: float
    low: float
    high: float
    num: int
    exact: bool = False

    @property
    def has_interval(self) -> bool:
        return self.exact or not math.isnan(self.low)


Results = Mapping[str, tuple[Cell, Sequence[Mapping[str, Any]]]]
"""The cell and its results by seed, by the cell's identity."""


def interval(values: Sequence[float], *, exact: bool = False) -> Estimate:
    """Returns the interval of the mean of independent values, by Student's t."""
    mean = math.fsum(values) / len(values)
    if exact:
        return Estimate(mean, mean, mean, len(values), exact=True)
    if len(values) == 1:
        return Estimate(mean, math.nan, math.nan, 1)
    spread = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1) / len(values))
    half = float(student.ppf(0.975, len(values) - 1)) * spread
    return Estimate(mean, mean - half, mean + half, len(values))


def values_of(results: Sequence[Mapping[str, Any]]) -> dict[int, float]:
    """Returns the measured value by seed; a figure of another benchmark may have its own seeds."""
    if len(results) == 1 and results[0]["figures"].get("of_seeds"):
        return dict(enumerate(results[0]["figures"]["of_seeds"]))
    return {int(result["seed"]): float(result["value"]) for result in results if result["value"] is not None}


def estimate(cell: Cell, results: Sequence[Mapping[str, Any]]) -> Estimate | None:
    """Returns a cell's estimate, or None if nothing ran."""
    values = list(values_of(results).values())
    if not values:
        return None
    return interval(values, exact=isinstance(cell.run, Compute))


def without_run(run: Impossible) -> Verdict:
    """Returns the verdict of a cell that cannot run in this benchmark."""
    return Verdict("left out" if isinstance(run, LeftOut) else "not possible here", run.reason)


def _missing(known: Results, names: Sequence[str]) -> Verdict | None:
    left = []
    for name in names:
        cell, results = known[name]
        if isinstance(cell.run, Impossible):
            return without_run(cell.run)
        if not values_of(results):
            left.append(f"missing: {cell.name} ({cell.minutes:g} minutes)")
    return Verdict("not run here", "; ".join(left)) if left else None


def judged(found: Estimate, side: Callable[[float], bool], said: str) -> Verdict:
    """Judges by the ends of the interval: ``side`` tells if a value is on the paper's side."""
    if not side(found.mean):
        return Verdict("not", said)
    if found.num == 1 and not found.exact:
        return Verdict("partly", f"{said}; one run")
    if found.exact or (side(found.low) and side(found.high)):
        return Verdict("reproduced", said)
    return Verdict("partly", f"{said}; the interval reaches the other side")


@dataclass(frozen=True)
class Ordering:
    """A rule: the value of ``smaller`` is below that of ``larger``, seed by seed, by logarithms if all are positive."""

    smaller: str
    larger: str

    @property
    def names(self) -> tuple[str, ...]:
        return (self.smaller, self.larger)

    def differences(self, known: Results) -> Estimate | None:
        """Returns larger less smaller, over the seeds that both have."""
        (cell, first), (other, second) = known[self.smaller], known[self.larger]
        small, large = values_of(first), values_of(second)
        shared = sorted(set(small) & set(large))
        if not shared:
            return None
        scale = math.log if min(*(small[s] for s in shared), *(large[s] for s in shared)) > 0 else float
        exact = isinstance(cell.run, Compute) and isinstance(other.run, Compute)
        return interval([scale(large[s]) - scale(small[s]) for s in shared], exact=exact)

    def judge(self, known: Results) -> Verdict:
        if (missing := _missing(known, self.names)) is not None:
            return missing
        found = self.differences(known)
        if found is None:
            return Verdict("not run here", "no seed that both have")
        smaller, larger = known[self.smaller][0], known[self.larger][0]
        names = (smaller.name, larger.name)
        if smaller.name == larger.name:
            names = (f"{smaller.name} ({smaller.place})", f"{larger.place}")
        return judged(found, lambda value: value > 0, f"{names[0]} < {names[1]}: {_told(found, '+')}")


@dataclass(frozen=True)
class Gap:
    """A rule: the difference of logarithms (larger less smaller) is less between two values than between two others.

    Differences are compared seed by seed.
    """

    narrow: tuple[str, str]
    wide: tuple[str, str]

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.narrow, *self.wide)

    def judge(self, known: Results) -> Verdict:
        if (missing := _missing(known, self.names)) is not None:
            return missing
        values = [values_of(known[name][1]) for name in self.names]
        shared = sorted(set.intersection(*map(set, values)))
        if not shared:
            return Verdict("not run here", "no seed that all have")
        found = interval([math.log(d[s] / c[s]) - math.log(b[s] / a[s]) for a, b, c, d in [values] for s in shared])
        names = [known[name][0].name for name in self.names]
        said = f"{names[0]} to {names[1]} is less than {names[2]} to {names[3]}: {_told(found, '+')}"
        return judged(found, lambda value: value > 0, said)


@dataclass(frozen=True)
class Alike:
    """A rule: the interval of the difference of two values' logarithms is within ± ``share``."""

    first: str
    second: str
    share: float

    @property
    def names(self) -> tuple[str, ...]:
        return (self.first, self.second)

    def judge(self, known: Results) -> Verdict:
        if (missing := _missing(known, self.names)) is not None:
            return missing
        found = Ordering(self.first, self.second).differences(known)
        if found is None:
            return Verdict("not run here", "no seed that both have")
        said = (
            f"{known[self.first][0].name} = {known[self.second][0].name} within {self.share:.0%}: {_told(found, '+')}"
        )
        return judged(found, lambda value: abs(value) <= self.share, said)


@dataclass(frozen=True)
class _OfOne(ABC):
    """A rule about one cell."""

    name: str

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    def judge(self, known: Results) -> Verdict:
        if (missing := _missing(known, self.names)) is not None:
            return missing
        cell, results = known[self.name]
        found = estimate(cell, results)
        if found is None:
            return Verdict("not run here", f"missing: {cell.name}")
        return self.of(cell, found)

    @abstractmethod
    def of(self, cell: Cell, found: Estimate) -> Verdict:
        """Returns the verdict of the cell's value."""


@dataclass(frozen=True)
class Below(_OfOne):
    """A rule: the value is below a bound."""

    bound: float

    def of(self, cell: Cell, found: Estimate) -> Verdict:
        return judged(found, lambda value: value < self.bound, f"{cell.name} < {self.bound:g}: {_told(found)}")


@dataclass(frozen=True)
class Above(_OfOne):
    """A rule: the value is above a bound."""

    bound: float

    def of(self, cell: Cell, found: Estimate) -> Verdict:
        return judged(found, lambda value: value > self.bound, f"{cell.name} > {self.bound:g}: {_told(found)}")


@dataclass(frozen=True)
class Positive(_OfOne):
    """A rule: a recorded difference is positive."""

    def of(self, cell: Cell, found: Estimate) -> Verdict:
        return judged(found, lambda value: value > 0, f"{cell.name}: {_told(found, '+')}")


@dataclass(frozen=True)
class Within(_OfOne):
    """A rule: a recorded difference is at most so large."""

    most: float

    def of(self, cell: Cell, found: Estimate) -> Verdict:
        return judged(found, lambda value: abs(value) <= self.most, f"{cell.name}: {_told(found)}")


@dataclass(frozen=True)
class Number(_OfOne):
    """A rule: the paper's number to its last digit; within a tenth, partly. With ``at_most``, at most that number."""

    at_most: float | None = None

    def of(self, cell: Cell, found: Estimate) -> Verdict:
        if self.at_most is not None:
            most = self.at_most
            return judged(found, lambda value: value <= most, f"{cell.name} ≤ {most:g}: {_told(found)}")
        return same_number(cell, found)


def same_number(cell: Cell, found: Estimate) -> Verdict:
    """Judges if a value is the paper's."""
    if cell.number is None:
        return Verdict("not possible here", "the copy of the paper lacks the number")
    said = f"{cell.name}: {found.mean:.4g} (the paper: {cell.printed})"
    distance = abs(found.mean - cell.number)
    if distance <= cell.last_digit * 1.001:
        return Verdict("reproduced", said)
    return Verdict("partly" if distance <= CLOSE * abs(cell.number) else "not", said)


Rule = Ordering | Gap | Alike | Below | Above | Positive | Within | Number


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim of a paper, in our words, and the rules that judge it here.

    Attributes:
        paper: short name of the paper.
        text: text of the claim.
        rules: rules that must all hold.
        headline: true if the paper's abstract or introduction makes the claim.
        context: rules that explain a verdict beside the reasons, and decide nothing.
        note: a remark for readers beside the rules' reasons.
    """

    paper: str
    text: str
    rules: tuple[Rule, ...]
    headline: bool = False
    context: tuple[Rule, ...] = ()
    note: str = ""

    def background(self, known: Results) -> str:
        """Returns the reasons of the context, as far as it has run; no sign of a difference is expected."""
        found = [rule.judge(known) for rule in self.context]
        return "; ".join(verdict.reason for verdict in found if verdict.word not in WITHOUT_RUN)

    def judge(self, known: Results) -> Verdict:
        return together([rule.judge(known) for rule in self.rules])


def claims_of(paper: str) -> Callable[..., Claim]:
    """Returns a constructor of a paper's claims, from the text and the other fields."""
    return lambda text, **fields: Claim(paper=paper, text=text, **fields)


def together(verdicts: Sequence[Verdict]) -> Verdict:
    """Joins verdicts: all reproduced, reproduced; no one holds, not. Rules that did not run come first."""
    words = [verdict.word for verdict in verdicts]
    reason = "; ".join(dict.fromkeys(verdict.reason for verdict in verdicts))
    for word in WITHOUT_RUN:
        if word in words:
            ran = [v.reason for v in verdicts if v.word not in WITHOUT_RUN]
            of_it = "; ".join(dict.fromkeys(part for v in verdicts if v.word == word for part in v.reason.split("; ")))
            return Verdict(word, of_it + (f". What ran: {'; '.join(ran)}" if ran else ""))
    if all(word == "reproduced" for word in words):
        return Verdict("reproduced", reason)
    if all(word == "not" for word in words):
        return Verdict("not", reason)
    return Verdict("partly", reason)


def of_cell(cell: Cell, claims: Sequence[Claim], known: Results) -> Verdict:
    """Returns a row's verdict: by the rules that name the cell and can be judged, or by the paper's number."""
    if isinstance(cell.run, Impossible):
        return without_run(cell.run)
    found = estimate(cell, known[cell.identity][1])
    if found is None:
        return Verdict("not run here", "")
    if cell.exact and cell.number is not None:
        return same_number(cell, found)
    rules = [rule for claim in claims for rule in claim.rules if cell.identity in rule.names]
    if rules:
        verdicts = [rule.judge(known) for rule in rules]
        return together([verdict for verdict in verdicts if verdict.word != "not run here"] or verdicts)
    if cell.number is None and not cell.authors:
        return Verdict("not compared", "the copy of the paper lacks the number, and claims do not name it")
    return Verdict("not compared", "the paper's number is that of its own model and data, outside its claims")


def _told(found: Estimate, sign: str = "-") -> str:
    mean, low, high = (f"{value:{sign}.3g}" for value in (found.mean, found.low, found.high))
    return mean if not found.has_interval or found.exact else f"{mean} ({low} to {high})"
