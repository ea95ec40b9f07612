"""Privacy events: what a training run did to the private records, as mechanisms and never as epsilons.

Training emits an event, and an accountant turns it into an epsilon. Events survive a round trip through JSON. An
unknown event is refused, never guessed.

Public: every field of an event is a setting of the run (noise, rate, number of steps). Nothing here is private,
provided that the sampling rate derives from a number of records that is itself public or fixed by the neighbouring
relation (see `NeighboringRelation.REPLACE_ONE`).
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pipelines.errors import ConfigError, ReticentError

USELESS: Final = 700.0
"""Epsilon above which no figure is stated for a person: it limits nothing, and is slow to compute for many records."""
SAME_NUMBER: Final = (
    "the number of private records is the same in neighbouring data sets (one record is replaced), so the sampling "
    "rate and the number of steps may depend on it"
)
"""An assumption that a training notes beside its event, and that claims state."""
SAME_NUMBER_OF_PEOPLE: Final = (
    "the number of people is the same in neighbouring data sets (one person's text is replaced), so the sampling rate "
    "and the number of steps may depend on it"
)
"""As `SAME_NUMBER`, of a training that samples people."""


class UnsupportedEventError(ReticentError):
    """An event, or a pair of an event and an accountant, for which no epsilon is known."""


class UnknownRelationError(ConfigError, ValueError):
    """A neighbouring relation that is none of `NeighboringRelation`."""


class NeighboringRelation(enum.StrEnum):
    """The relation between the two data sets that a guarantee compares.

    ``replace_one`` keeps the number of records, so a rate that depends on that number is the same in both worlds, but
    the clipped sum may move by twice the clipping norm. ``add_or_remove_one`` needs a rate fixed beforehand.
    """

    ADD_OR_REMOVE_ONE = "add_or_remove_one"
    REPLACE_ONE = "replace_one"

    @classmethod
    def _missing_(cls, value: object) -> NeighboringRelation:
        raise UnknownRelationError(
            f"unknown relation {value!r}: write relation='replace_one' (the default, which confidentiality needs) or "
            "relation='add_or_remove_one' (the one of Opacus and of most papers)"
        )


@dataclass(frozen=True)
class NoEvent:
    """An event that touches nothing private: epsilon 0 at every delta."""


@dataclass(frozen=True)
class NonPrivate:
    """An event that uses private records without noise: epsilon is infinite at every delta below 1."""


@dataclass(frozen=True, kw_only=True)
class Gaussian:
    """A release of a sum with Gaussian noise.

    Attributes:
        noise_multiplier: standard deviation of the noise over the norm of one record's contribution; 0 means no
            privacy at all.
    """

    noise_multiplier: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.noise_multiplier) and self.noise_multiplier >= 0):
            raise ValueError(f"noise_multiplier must be a finite number >= 0, not {self.noise_multiplier}")


@dataclass(frozen=True, kw_only=True)
class PoissonSampled:
    """A Gaussian release on a sample that each record enters independently with probability ``sample_rate``."""

    sample_rate: float
    event: Gaussian

    def __post_init__(self) -> None:
        if not 0 <= self.sample_rate <= 1:
            raise ValueError(f"sample_rate must be between 0 and 1, not {self.sample_rate}")
        if not isinstance(self.event, Gaussian):
            raise UnsupportedEventError("poisson_sampled holds a gaussian event and nothing else")


@dataclass(frozen=True, kw_only=True)
class SelfComposed:
    """The same event ``count`` times, each time with fresh randomness."""

    count: int
    event: Event

    def __post_init__(self) -> None:
        if isinstance(self.count, bool) or not isinstance(self.count, int) or self.count < 0:
            raise ValueError(f"count must be a whole number >= 0, not {self.count}")


@dataclass(frozen=True, kw_only=True)
class Composed:
    """Several events on the same records, one after another."""

    events: tuple[Event, ...]


Event = NoEvent | NonPrivate | Gaussian | PoissonSampled | SelfComposed | Composed

Leaf = NonPrivate | Gaussian | PoissonSampled


def dp_sgd(*, noise_multiplier: float, sample_rate: float, num_steps: int) -> Event:
    """Returns the event of DP-SGD (Abadi et al. 2016): noisy sums over Poisson samples, or `NoEvent` for none.

    Args:
        noise_multiplier: standard deviation of the noise over the clipping norm of a record's gradient.
        sample_rate: probability with which each record enters a step, independently.
        num_steps: number of steps, each with fresh samples and noise.
    """
    if num_steps == 0 or sample_rate == 0:
        return NoEvent()
    step = PoissonSampled(sample_rate=sample_rate, event=Gaussian(noise_multiplier=noise_multiplier))
    return SelfComposed(count=num_steps, event=step)


def to_json(event: Event) -> dict[str, Any]:
    """Returns the event as JSON values.

    Raises:
        UnsupportedEventError: the event is of no known kind.
    """
    match event:
        case NoEvent():
            return {"type": "none"}
        case NonPrivate():
            return {"type": "non_private"}
        case Gaussian():
            return {"type": "gaussian", "noise_multiplier": event.noise_multiplier}
        case PoissonSampled():
            return {"type": "poisson_sampled", "sample_rate": event.sample_rate, "event": to_json(event.event)}
        case SelfComposed():
            return {"type": "self_composed", "count": event.count, "event": to_json(event.event)}
        case Composed():
            return {"type": "composed", "events": [to_json(e) for e in event.events]}
    raise UnsupportedEventError(f"an event of type {type(event).__name__} cannot be accounted for")


_KEYS: Mapping[str, frozenset[str]] = {
    "none": frozenset(),
    "non_private": frozenset(),
    "gaussian": frozenset({"noise_multiplier"}),
    "poisson_sampled": frozenset({"sample_rate", "event"}),
    "self_composed": frozenset({"count", "event"}),
    "composed": frozenset({"events"}),
}


def from_json(value: Mapping[str, Any]) -> Event:
    """Reads an event written by `to_json`.

    Raises:
        UnsupportedEventError: an unknown type, a missing or an unknown key, or a value out of range. An unknown key
            is refused because it may hold what an epsilon would have to depend on.
    """
    if not isinstance(value, Mapping):
        raise UnsupportedEventError("an event must be a JSON object")
    kind = value.get("type")
    if not isinstance(kind, str) or kind not in _KEYS:
        raise UnsupportedEventError(f"unknown event type {kind!r}; known are {', '.join(_KEYS)}")
    keys = set(value) - {"type"}
    if keys != _KEYS[kind]:
        raise UnsupportedEventError(
            f"a {kind} event must have the keys {sorted(_KEYS[kind])} and no others, not {sorted(keys)}"
        )
    try:
        match kind:
            case "none":
                return NoEvent()
            case "non_private":
                return NonPrivate()
            case "gaussian":
                return Gaussian(noise_multiplier=_number(value["noise_multiplier"]))
            case "poisson_sampled":
                inner = from_json(value["event"])
                if not isinstance(inner, Gaussian):
                    raise UnsupportedEventError("poisson_sampled holds a gaussian event and nothing else")
                return PoissonSampled(sample_rate=_number(value["sample_rate"]), event=inner)
            case "self_composed":
                return SelfComposed(count=value["count"], event=from_json(value["event"]))
        return Composed(events=tuple(from_json(e) for e in value["events"]))
    except (TypeError, ValueError) as error:
        raise UnsupportedEventError(f"a {kind} event with a wrong value: {error}") from error


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("a number was expected")
    return float(value)


def leaves(event: Event, count: int = 1) -> Iterator[tuple[int, Leaf]]:
    """Yields the mechanisms below ``event``, each with the number of its runs.

    Raises:
        UnsupportedEventError: an event of no known kind.
    """
    match event:
        case NoEvent():
            return
        case NonPrivate() | Gaussian() | PoissonSampled():
            if count:
                yield count, event
        case SelfComposed():
            yield from leaves(event.event, count * event.count)
        case Composed():
            for part in event.events:
                yield from leaves(part, count)
        case _:
            raise UnsupportedEventError(f"an event of type {type(event).__name__} cannot be accounted for")


def as_sampled(count: int, leaf: Leaf) -> tuple[int, float, float]:
    """Returns (count, rate, noise). Gaussians without sampling compose to one (Dong, Roth and Su 2022, Cor. 3.3)."""
    if isinstance(leaf, PoissonSampled) and leaf.sample_rate < 1:
        return count, leaf.sample_rate, leaf.event.noise_multiplier
    gaussian = leaf.event if isinstance(leaf, PoissonSampled) else leaf
    if not isinstance(gaussian, Gaussian):
        raise ValueError("an event without noise has no finite epsilon to bound")
    return 1, 1.0, gaussian.noise_multiplier / math.sqrt(count)


def is_silent(event: Event) -> bool:
    """Returns true if nothing private entered the run: no leaf, or only leaves at rate 0."""
    return all(isinstance(leaf, PoissonSampled) and leaf.sample_rate == 0 for _, leaf in leaves(event))


def adds_no_noise(event: Event) -> bool:
    """Returns true if some private record was used without any noise."""
    for _, leaf in leaves(event):
        match leaf:
            case NonPrivate():
                return True
            case Gaussian():
                if leaf.noise_multiplier == 0:
                    return True
            case PoissonSampled():
                if leaf.sample_rate > 0 and leaf.event.noise_multiplier == 0:
                    return True
    return False
