"""The joint cost of all releases of a store: unamplified events compose first, credit for redaction comes last.

A release is a trained model that was published. Two releases *overlap* if they may share a record: if they read a
document with the same text, or a file with the same name or content. Overlap follows chains of overlapping releases, so
a record may be charged for a release that it was not in. A document that was edited and moved to another file is
another document. Events of overlapping releases compose exactly, as one event, by privacy loss distributions. A sum of
epsilons would charge too much.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pipelines.accounting.events import Composed, Event, Gaussian, Leaf, NonPrivate, SelfComposed, leaves
from pipelines.accounting.facts import ReleaseFacts
from pipelines.accounting.withdrawn import Withdrawal, true_event, withdrawals
from pipelines.context import Purpose
from pipelines.methods.registry import rule_of

State = Literal["published", "in_training", "abandoned"]
Scope = Literal["overlap", "store"]

TABLE: Final = "public_rows"
"""Method of an entry for a table of public rows, not a model (`pipelines.store.building.published_tables`)."""

_ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class DocumentSet:
    """The documents that a release read (`pipelines.store.ledger.documents`).

    Attributes:
        corpus: identifier of the text of all its documents; equal for equal corpora.
        num_new: number of documents that no earlier entry has.
        digest: SHA-256 of the file of their names; None if there are none.
    """

    corpus: str
    num_new: int = 0
    digest: str | None = None


@dataclass(frozen=True, kw_only=True)
class Release:
    """An entry of the ledger.

    Attributes:
        release_id: name of the release; one for each training, with all its interruptions.
        run_id: run that trained it; None if unknown.
        key: key of the artifact.
        event: privacy event of the training.
        delta: delta at which its own epsilon is stated.
        epsilon: unamplified epsilon of this release alone, under replace-one; None if it is infinite.
        insecure_test_seed: true if noise and samples can be repeated. The release then counts as one without noise.
        data: digest of the private set; equal for equal private sets. None if unknown.
        tokens: pseudonyms of the file names and contents that no earlier entry named. None if unknown: such a release
            overlaps with every other.
        overlaps: releases with which it shares, or may share, a token or a document.
        documents: documents that it read; None if unknown.
        num_partitions: number of partitions of the private set.
        facts: facts for later claims; None for an entry of an older version.
        is_public: true if the model is charged for: it goes to the public root, or belongs to a comparison whose
            figures may choose any of its models. A model that stays on the trusted side costs nothing there.
        purpose: purpose of the run that trained it. An audit's model is never published.
        state: ``published``, ``in_training``, or ``abandoned`` (it ended before anything was published: no cost).
    """

    release_id: str
    key: str
    event: Event
    delta: float
    run_id: str | None = None
    epsilon: float | None = None
    insecure_test_seed: bool = False
    data: str | None = None
    tokens: frozenset[str] | None = None
    overlaps: tuple[str, ...] = ()
    documents: DocumentSet | None = None
    num_partitions: int = 0
    facts: ReleaseFacts | None = None
    is_public: bool = True
    purpose: Purpose = "release"
    state: State = "published"

    @property
    def is_table(self) -> bool:
        """True for a table of public rows, which has no epsilon: delta2 bounds the secrets in it."""
        return self.facts is not None and self.facts.method == TABLE

    @property
    def is_claimed(self) -> bool:
        """True if claims about publications include it. An audit does not change them."""
        return self.state == "published" and self.purpose != "audit"

    @property
    def withdrawals(self) -> tuple[Withdrawal, ...]:
        """The faults of its recipe that were found later."""
        if self.is_table:
            return ()
        return withdrawals(self.facts.recipe, self.facts.method) if self.facts else withdrawals({}, None)

    @property
    def charged_event(self) -> Event:
        """The event that it is charged for: its own, unless its recipe was found wrong."""
        return true_event(self.event, self.withdrawals)

    @property
    def counts(self) -> bool:
        """True if it costs anything. A release in training is charged at once, so that two runs cannot both fit."""
        return self.is_public and self.state != "abandoned" and not self.is_table


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The ``budget_`` settings of ``[guarantee]``. ``delta`` None: the delta of the new release."""

    epsilon: float
    delta: float | None = None
    scope: Scope = "overlap"


@dataclass(frozen=True, kw_only=True)
class Projection:
    """The cost of a new release.

    Attributes:
        spent: composed epsilon of the earlier releases that overlap with it.
        alone: epsilon of the new release.
        together: composed epsilon of all of them.
        delta: delta of all three.
        num_earlier: number of earlier releases that it composes with.
    """

    spent: float
    alone: float
    together: float
    delta: float
    num_earlier: int

    def exceeds(self, budget: Budget) -> bool:
        """Returns true if the new release would exceed the budget."""
        return not self.together <= budget.epsilon * (1 + _ROUNDING)


def composed_event(releases: Iterable[Release]) -> Event:
    """Returns one event for several releases on the same records. Equal mechanisms are counted together."""
    mechanisms: Counter[Leaf] = Counter()
    for release in releases:
        if release.insecure_test_seed or reads_without_noise(release):
            mechanisms[NonPrivate()] += 1
            continue
        for count, leaf in leaves(release.charged_event):
            mechanisms[leaf] += count
    ordered = sorted(mechanisms.items(), key=lambda item: repr(item[0]))  # for equal results on equal input
    return Composed(events=tuple(SelfComposed(count=count, event=leaf) for leaf, count in ordered))


def reads_without_noise(release: Release) -> bool:
    """Returns true if the method reads a part of the private text without noise, by its rule and not by the event.

    The first version entered only the noised queries of S-DPSGD, and no entry's method. Of that version's methods only
    S-DPSGD had queries on samples that are not secret.
    """
    facts = release.facts
    if facts is None:
        return any(isinstance(leaf, Gaussian) for _, leaf in leaves(release.event))
    return rule_of(facts.method, facts.variant).is_unnoised


def composed_epsilon(releases: Iterable[Release], delta: float) -> float:
    """Returns the unamplified epsilon of all given releases together, under replace-one, by PLD.

    Args:
        releases: releases that may share records; abandoned ones cost nothing.
        delta: delta, strictly between 0 and 1.

    Returns:
        Epsilon: 0 for no release, infinity if one of them added no noise.

    Raises:
        UnsupportedEventError: an event of no known kind.
    """
    from pipelines.accounting.accountants import epsilon  # dp-accounting is slow to import

    counted = [r for r in releases if r.counts]
    return epsilon(composed_event(counted), delta) if counted else 0.0


def epsilon_alone(release: Release) -> float:
    """Returns the unamplified epsilon of one release from its record, at its own delta, under replace-one."""
    from pipelines.accounting.accountants import epsilon  # dp-accounting is slow to import

    event = NonPrivate() if release.insecure_test_seed else release.event
    return epsilon(Composed(events=(event,)), release.delta)


def overlapping(releases: Sequence[Release], scope: Scope = "overlap") -> list[tuple[Release, ...]]:
    """Divides releases into groups that may share records, each in the given order.

    Args:
        releases: releases in the order of their entry.
        scope: ``overlap`` for chains of releases that share a document, a file name or file content, or ``store`` for
            all in one group.
    """
    if scope == "store":
        return [tuple(releases)] if releases else []
    group: dict[str, str] = {r.release_id: r.release_id for r in releases}

    def find(name: str) -> str:
        while group[name] != name:
            group[name] = group[group[name]]
            name = group[name]
        return name

    unknown = [r for r in releases if r.tokens is None]
    for release in releases:
        others = [r.release_id for r in releases] if release.tokens is None else list(release.overlaps)
        for other in [*others, *(r.release_id for r in unknown[:1])]:
            if other in group:
                group[find(other)] = find(release.release_id)
    found: dict[str, list[Release]] = {}
    for release in releases:
        found.setdefault(find(release.release_id), []).append(release)
    return [tuple(members) for members in found.values()]


def project(earlier: Sequence[Release], new: Release, budget: Budget | None = None) -> Projection:
    """Returns the cost of ``new`` after the earlier releases, at the budget's delta (by default its own)."""
    delta = budget.delta if budget and budget.delta is not None else new.delta
    groups = overlapping([*earlier, new], budget.scope if budget else "overlap")
    (group,) = [g for g in groups if any(r.release_id == new.release_id for r in g)]
    before = [r for r in group if r.release_id != new.release_id and r.counts]
    return Projection(
        spent=composed_epsilon(before, delta),
        alone=composed_epsilon([new], delta),
        together=composed_epsilon([*before, new], delta),
        delta=delta,
        num_earlier=len(before),
    )


def refusal(projection: Projection, budget: Budget) -> str:
    """Returns the message that says why training was not started, and what to do."""
    so_far = (
        f"{projection.num_earlier} earlier release{'s' if projection.num_earlier != 1 else ''} on this data already "
        f"spent epsilon {number(projection.spent)}"
        if projection.num_earlier
        else "no earlier release used this data"
    )
    return (
        f"training was not started: {so_far}; this run alone would spend {number(projection.alone)}, and together "
        f"they would spend {number(projection.together)} (delta {projection.delta:g}), above guarantee.budget_epsilon "
        f"= {budget.epsilon:g}. Keep the model that is published, set a smaller train.target_epsilon, train on other "
        "data, or raise the budget on purpose; `reticent ledger` lists what was spent"
    )


def number(epsilon: float) -> str:
    """Returns an epsilon as text for people."""
    return f"{epsilon:.4g}" if math.isfinite(epsilon) else "infinity (no noise, or noise that can be repeated)"


def releases_digest(releases: Iterable[Release]) -> str:
    """Returns an identifier of a set of releases, independent of their order."""
    return hashlib.sha256("\n".join(sorted(r.release_id for r in releases)).encode()).hexdigest()[:16]
