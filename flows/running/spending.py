"""Computes the joint cost of a store's releases, for `reticent ledger` and all other commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pipelines.accounting.ledger import Release, composed_epsilon, overlapping, person_epsilon_of
from pipelines.context import Releases
from pipelines.settings.guarantee import GuaranteeConfig
from pipelines.store.ledger.check import check_releases
from pipelines.store.ledger.ledger import read_ledger
from pipelines.store.ledger.releases import adopted_models
from pipelines.store.objects import runs
from pipelines.store.place.roots import Roots


@dataclass(frozen=True, kw_only=True)
class Group:
    """Releases that may share records, and their joint cost.

    Attributes:
        members: all entries of the group, oldest first.
        counted: entries that cost something (`Release.counts`). A model that was trained without noise stays on the
            trusted side, and does not count.
        epsilon: composed epsilon of the counted entries, unamplified, replace-one; infinite if one added no noise.
        delta: delta of the epsilon; None if no entry counts.
    """

    members: tuple[Release, ...]
    counted: tuple[Release, ...]
    epsilon: float
    delta: float | None

    @property
    def num_trusted(self) -> int:
        """The number of models on the trusted side, which cost nothing while they stay there."""
        return sum(not r.is_public and r.state != "abandoned" for r in self.members)


def checked_releases(roots: Roots) -> list[Release]:
    """Reads and checks the releases of a store, in the order of entry.

    Raises:
        LedgerError: the ledger was changed or damaged.
    """
    releases = read_ledger(roots)
    check_releases(roots, releases)
    return releases


def cost_of(guarantee: GuaranteeConfig, members: Sequence[Release]) -> Group:
    """Computes the joint cost of releases that may share records, at the budget's delta or else at their largest."""
    counted = tuple(r for r in members if r.counts)
    delta = guarantee.budget_delta or max((r.delta for r in counted), default=None)
    total = composed_epsilon(counted, delta) if delta is not None else 0.0
    return Group(members=tuple(members), counted=counted, epsilon=total, delta=delta)


def spent(guarantee: GuaranteeConfig, releases: Sequence[Release]) -> list[Group]:
    """Computes the cost of releases by group (`pipelines.accounting.ledger.overlapping`)."""
    return [cost_of(guarantee, members) for members in overlapping(releases, guarantee.budget_scope)]


def spent_with(guarantee: GuaranteeConfig, releases: Sequence[Release], key: str | None) -> Group:
    """Computes the cost that the budget limits, of the releases that may share a record (or a person) with a model.

    Args:
        guarantee: settings of the budget. With ``budget_unit = "owner"``, epsilon is that of a person.
        releases: all releases of a store, in the order of entry
        key: key under which the model was trained

    Returns:
        The group; one without releases if the ledger does not know the model.
    """
    groups = overlapping(releases, guarantee.budget_scope, guarantee.budget_unit)
    group = cost_of(guarantee, next((g for g in groups if any(r.key == key for r in g)), ()))
    if guarantee.budget_unit == "record" or group.delta is None:
        return group
    spaces = {r.facts.owner_space if r.facts is not None else "" for r in group.counted}
    costs = [person_epsilon_of(group.counted, group.delta, space) for space in spaces]
    return replace(group, epsilon=max(costs, default=0.0))


def latest_model(roots: Roots) -> str | None:
    """Returns the key under which the latest run's model was trained."""
    return trained_key(roots, runs.latest(roots))


def trained_key(roots: Roots, record: Mapping[str, Any] | None) -> str | None:
    """Returns the key under which a run's model was trained; None without a run or a model."""
    key = runs.key_in(record, "train")
    return Releases(adopted=adopted_models(roots)).trained_as(key) if key else None


def trusted_text(number: int, num_audits: int = 0) -> str:
    """Describes the models that are not published, ``num_audits`` of them from audits."""
    audits = f" ({num_audits} of audits)" if num_audits else ""
    they = "they stay" if number > 1 else "it stays"
    return f"{number} model{'s' if number > 1 else ''} kept on the trusted side{audits}: no cost while {they} there"
