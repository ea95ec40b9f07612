"""Recipes of training that were found wrong after models had been made by them, and what those models cost in truth.

A recipe is the declared versions of what a training computes (`pipelines.training.recipes`). A version that turns out
not to do what its event says is entered in `WITHDRAWN` by a later release of Reticent: claims on models made by it
are refused from then on, and the ledger charges what they cost in truth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pipelines.accounting.events import Event, NonPrivate


@dataclass(frozen=True, kw_only=True)
class Withdrawal:
    """A version of a part of recipes that was found wrong.

    Attributes:
        part: of a recipe: ``engine``, ``records``, ``method NAME``, ``first phase of NAME`` or ``task NAME``.
        version: the version that is wrong.
        since: the release of Reticent that says so.
        reason: what is wrong, for the user.
        true_event: from the event that such a training recorded to the one that it was; None where that is unknown,
            and the model counts as one without noise.
    """

    part: str
    version: int
    since: str
    reason: str
    true_event: Callable[[Event], Event] | None = None


WITHDRAWN: Final[list[Withdrawal]] = []
"""None so far."""

FIRST: Final = 1
"""The version of every part, for a training that recorded none: recipes came later."""


def withdrawals(recipe: Mapping[str, int], method: str | None) -> tuple[Withdrawal, ...]:
    """What was found wrong with a recipe.

    Args:
        recipe: the version of each part; empty where none was recorded.
        method: of the training; None where that is not known either: any method or task may then have been its.
    """
    return tuple(found for found in WITHDRAWN if _used(found, recipe, method))


def _used(found: Withdrawal, recipe: Mapping[str, int], method: str | None) -> bool:
    if recipe:
        return recipe.get(found.part) == found.version
    kind, _, name = found.part.rpartition(" ")
    is_other_method = kind in ("method", "first phase of") and method is not None and name != method
    return found.version == FIRST and not is_other_method


def true_event(event: Event, found: Sequence[Withdrawal]) -> Event:
    """What a training was that recorded an event, given what was found wrong with its recipe."""
    for withdrawal in found:
        if withdrawal.true_event is None:
            return NonPrivate()
        event = withdrawal.true_event(event)
    return event


def refusal(found: Sequence[Withdrawal]) -> str:
    """Why claims on such a model are refused."""
    reasons = "; ".join(f"{w.part}, version {w.version}, withdrawn in Reticent {w.since}: {w.reason}" for w in found)
    return f"the model was trained by a recipe that was found wrong ({reasons})"
