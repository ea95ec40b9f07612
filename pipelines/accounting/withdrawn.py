"""Recipes of training that were found wrong after models were trained by them, and the true cost of those models.

A recipe is the declared versions of a training's computation (`pipelines.training.recipes`). If a version does not do
what its event says, a later release of Reticent enters it in `WITHDRAWN`. Claims on models of that version are then
refused, and the ledger charges their true cost.
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
        part: part of a recipe: ``engine``, ``records``, ``method NAME``, ``first phase of NAME`` or ``task NAME``.
        version: wrong version.
        since: release of Reticent that withdraws it.
        reason: description of the fault, for the user.
        true_event: function from the recorded event to the true one; None if that is unknown, and the model counts as
            one without noise.
    """

    part: str
    version: int
    since: str
    reason: str
    true_event: Callable[[Event], Event] | None = None


WITHDRAWN: Final[list[Withdrawal]] = []
"""All withdrawals; so far there are none."""

FIRST: Final = 1
"""Version of every part for a training from before recipes, which recorded none."""


def withdrawals(recipe: Mapping[str, int], method: str | None) -> tuple[Withdrawal, ...]:
    """Returns the withdrawals that concern a recipe.

    Args:
        recipe: version of each part; empty if none was recorded.
        method: method of the training; None if that is unknown too, so that any method or task is possible.
    """
    return tuple(found for found in WITHDRAWN if _used(found, recipe, method))


def _used(found: Withdrawal, recipe: Mapping[str, int], method: str | None) -> bool:
    if recipe:
        return recipe.get(found.part) == found.version
    kind, _, name = found.part.rpartition(" ")
    is_other_method = kind in ("method", "first phase of") and method is not None and name != method
    return found.version == FIRST and not is_other_method


def true_event(event: Event, found: Sequence[Withdrawal]) -> Event:
    """Returns the true event of a training that recorded an event, given the withdrawals of its recipe."""
    for withdrawal in found:
        if withdrawal.true_event is None:
            return NonPrivate()
        event = withdrawal.true_event(event)
    return event


def refusal(found: Sequence[Withdrawal]) -> str:
    """Returns the message that says why claims on such a model are refused."""
    reasons = "; ".join(f"{w.part}, version {w.version}, withdrawn in Reticent {w.since}: {w.reason}" for w in found)
    return f"the model was trained by a recipe that was found wrong ({reasons})"
