"""Costs of a store's releases for people, and what the rest of a budget carries, for `reticent ledger`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pipelines.accounting.events import adds_no_noise
from pipelines.accounting.facts import PERSON
from pipelines.accounting.ledger import (
    Release,
    composed_epsilon,
    composed_event,
    overlapping,
    person_epsilon_of,
    without_bound,
)
from pipelines.accounting.people import figures_of, sizes_of, sizes_together
from pipelines.files import finite
from pipelines.numbers import upper_bound
from pipelines.settings.guarantee import GuaranteeConfig

_MOST_TRAININGS: Final = 1_000
"""Largest number of further trainings that is computed."""


def people_of(guarantee: GuaranteeConfig, releases: Sequence[Release]) -> list[dict[str, Any]]:
    """Computes what all releases cost a person, for each set of people that a release names.

    Args:
        guarantee: settings of the budget
        releases: all releases of a store, in the order of entry

    Returns:
        Dictionaries of ``owner_space``, ``num_releases`` (that may be about the same person, whatever their files),
        ``epsilon`` (unamplified, replace-one; None: no bound), ``delta``, ``unbounded`` (ids of the releases that do
        not bound what a person brings), and ``left`` and ``num_more`` of the budget (None if it is not for people).
    """
    budget = guarantee.budget_epsilon if guarantee.budget_unit == "owner" else None
    return [
        {
            "owner_space": space,
            "num_releases": len(counted),
            "epsilon": finite(total),
            "delta": delta,
            "unbounded": list(without_bound(counted, space)),
            "left": left(budget, total),
            "num_more": num_more(counted, budget, delta, space),
        }
        for space, counted, delta, total in totals_of_people(guarantee, releases)
    ]


def totals_of_people(
    guarantee: GuaranteeConfig, releases: Sequence[Release]
) -> Iterator[tuple[str, list[Release], float, float]]:
    """Yields each set of people with the releases that may be about them, delta, and epsilon (inf: no bound)."""
    for members in overlapping(releases, guarantee.budget_scope, "owner"):
        counted = [r for r in members if r.counts]
        for space in sorted({r.facts.owner_space for r in counted if r.facts is not None and r.facts.owner_space}):
            delta = guarantee.budget_delta or max(r.delta for r in counted)
            yield space, counted, delta, person_epsilon_of(counted, delta, space)


def people_text(people: Mapping[str, Any]) -> str:
    """Formats what releases cost the people of a space."""
    num, who = people["num_releases"], f"a person of {space_text(people['owner_space'])}"
    of = f"{num} release{'s together' if num > 1 else ''}, whatever {'their' if num > 1 else 'its'} files"
    if people["epsilon"] is not None:
        figures = f"epsilon {upper_bound(people['epsilon'])}, delta {upper_bound(people['delta'])}"
        return f"{who}, {of}: {figures}, all together, without credit for sampling, replace-one"
    ids = people["unbounded"]
    return f"{who}, {of}: no bound" + (f"; nothing bounds what a person brought to {', '.join(ids)}" if ids else "")


def space_text(owner_space: str) -> str:
    """Names a set of people, by corpus.owner_space or else by the settings that say who is a person."""
    name, _, how = owner_space.partition("/")
    how = how.replace("/", " ").strip()
    return f"the space {name}{f' ({how})' if how else ''}" if name else f"the people by {how}"


def left(budget: float | None, total: float) -> float | None:
    """Computes what is left of a budget; None without one."""
    if budget is None:
        return None
    return max(budget - total, 0.0) if math.isfinite(total) else 0.0


def by_owner(releases: Sequence[Release]) -> bool:
    """Checks that the steps of all releases sampled the same people, so that epsilon is that of a person."""
    spaces = {r.facts.owner_space if r.facts is not None and r.facts.record == PERSON else "" for r in releases}
    return len(spaces) == 1 and "" not in spaces


def person_of(
    releases: Sequence[Release], delta: float | None, person: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    """Computes what releases cost a person.

    Args:
        releases: counted releases of a group
        delta: delta of the group
        person: part ``person`` of the latest claims about these releases; None if there are none

    Returns:
        ``is_known`` (true if it is known whose records they are) and ``figures``, as in
        `pipelines.accounting.people.figures_of`; None if no bound holds even for a record, or if the releases' own
        epsilon is that of a person.
    """
    event = composed_event(releases)
    if delta is None or not releases or adds_no_noise(event) or by_owner(releases):
        return None
    is_known = bool(person and person["is_known"] and person["figures"])
    sizes: Mapping[int, Sequence[str]] = sizes_of(None)
    if person and is_known and len(releases) == 1:
        sizes = {f["num_records"]: f["whose"] for f in person["figures"]}
    elif is_known and (facts := releases[0].facts) is not None:
        sizes = sizes_together({1: ["most"]}, facts.record, facts.owner_space, releases) or sizes
    return {"is_known": is_known, "figures": figures_of(event, delta, sizes)}


def num_more(
    releases: Sequence[Release], budget: float | None, delta: float | None, owner_space: str = ""
) -> int | None:
    """Computes how many more trainings like the newest one, on the same records, fit into the budget.

    Args:
        releases: counted releases of a group, oldest first
        budget: value of ``guarantee.budget_epsilon``; None without a budget
        delta: delta of the budget
        owner_space: space of the person whom the budget is for; empty for a budget of a record

    Returns:
        A number up to `_MOST_TRAININGS`; None without a budget or a release.
    """
    if budget is None or not releases:
        return None
    if delta is None:
        return 0

    def fits(number: int) -> bool:
        found = [*releases, *[releases[-1]] * number]
        cost = person_epsilon_of(found, delta, owner_space) if owner_space else composed_epsilon(found, delta)
        return cost <= budget

    known, refused = 0, 1
    while refused <= _MOST_TRAININGS and fits(refused):
        known, refused = refused, 2 * refused
    refused = min(refused, _MOST_TRAININGS + 1)
    while refused - known > 1:
        middle = (known + refused) // 2
        known, refused = (middle, refused) if fits(middle) else (known, middle)
    return known


def more_text(number: int, nights: int | None) -> str:
    """Formats how many more trainings fit into the rest of a budget."""
    most = "at least " if number == _MOST_TRAININGS else ""
    text = f"it carries {most}{number:,} more training{'' if number == 1 else 's'} like the newest, on the same records"
    return text if nights is None or not number else f"{text}: {number * nights:,} nights, one training every {nights}"
