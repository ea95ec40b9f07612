"""What the releases of a store cost together, as `reticent ledger` and every other command says it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipelines.context import Releases
from pipelines.settings.loading import ProjectSettings
from pipelines.store.ledger.check import check_releases
from pipelines.store.ledger.ledger import read_ledger
from pipelines.store.ledger.releases import adopted_models
from pipelines.store.objects import runs
from pipelines.store.place.roots import Roots

if TYPE_CHECKING:
    from pipelines.accounting.ledger import Release


@dataclass(frozen=True, kw_only=True)
class Group:
    """Releases that may share records, and what they cost together.

    Attributes:
        members: all entries of the group, oldest first.
        counted: those of them that cost something (`Release.counts`): a model that was trained without noise stays on
            the trusted side, and is none of them.
        epsilon: of the counted ones composed, unamplified, under replace-one; infinite where one added no noise.
        delta: that the epsilon is for; None where nothing is counted.
    """

    members: tuple[Release, ...]
    counted: tuple[Release, ...]
    epsilon: float
    delta: float | None

    @property
    def num_trusted(self) -> int:
        """Models that were kept on the trusted side, at no cost while they stay there."""
        return sum(not r.is_public and r.state != "abandoned" for r in self.members)

    def has_model(self, keys: Collection[str]) -> bool:
        """Whether one of its releases was trained under one of these keys."""
        return any(r.key in keys for r in self.members)


def checked_releases(roots: Roots) -> list[Release]:
    """The releases of a store, in the order of entry.

    Raises:
        LedgerError: the ledger is not as it was written.
    """
    releases = read_ledger(roots)
    check_releases(roots, releases)
    return releases


def cost_of(settings: ProjectSettings, members: Sequence[Release]) -> Group:
    """What releases that may share records cost together, at the budget's delta, or else at the largest of theirs."""
    from pipelines.accounting.ledger import composed_epsilon

    guarantee: Any = settings.stages["guarantee"]
    counted = tuple(r for r in members if r.counts)
    delta = guarantee.budget_delta or max((r.delta for r in counted), default=None)
    total = composed_epsilon(counted, delta) if delta is not None else 0.0
    return Group(members=tuple(members), counted=counted, epsilon=total, delta=delta)


def spent(settings: ProjectSettings, releases: Sequence[Release]) -> list[Group]:
    """What releases cost, by group (`pipelines.accounting.ledger.overlapping`)."""
    from pipelines.accounting.ledger import overlapping

    guarantee: Any = settings.stages["guarantee"]
    return [cost_of(settings, members) for members in overlapping(releases, guarantee.budget_scope)]


def latest_model(roots: Roots) -> str | None:
    """The key that the latest run's model was trained under."""
    return trained_key(roots, runs.latest(roots))


def trained_key(roots: Roots, record: Mapping[str, Any] | None) -> str | None:
    """The key that the model of a run was trained under; None without a run or a model."""
    key = runs.key_in(record, "train")
    return Releases(adopted=adopted_models(roots)).trained_as(key) if key else None


def trusted_text(number: int, num_audits: int = 0) -> str:
    """Of models that are not published, for people; ``num_audits`` of them are of audits."""
    audits = f" ({num_audits} of audits)" if num_audits else ""
    they = "they stay" if number > 1 else "it stays"
    return f"{number} model{'s' if number > 1 else ''} kept on the trusted side{audits}: no cost while {they} there"
