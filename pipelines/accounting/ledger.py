"""The joint cost of all releases of a store: unamplified events compose first, credit for redaction comes last.

A release is a trained model that was published. Two releases *overlap* if they may share a record: if they read a
document with the same text, or a file with the same name or content. Overlap follows chains of overlapping releases, so
a record may be charged for a release that it was not in. A document that was edited and moved to another file is
another document. Events of overlapping releases compose exactly, as one event, by privacy loss distributions. A sum of
epsilons would charge too much.

A person has records in files that share nothing. So for a person, releases also compose if they are about the same set
of people (``corpus.owner_space``), or about people whom nobody knows.
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
from pipelines.numbers import upper_bound

State = Literal["published", "in_training", "abandoned"]
Scope = Literal["overlap", "store"]
Unit = Literal["record", "owner"]

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
    def people(self) -> str | None:
        """Name of the set of people whose records they are, perhaps empty; None if nobody knows."""
        return None if self.facts is None else self.facts.people

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
    unit: Unit = "record"


@dataclass(frozen=True, kw_only=True)
class Projection:
    """The cost of a new release for a record, or for a person.

    Attributes:
        spent: composed epsilon of the earlier releases that overlap with it.
        alone: epsilon of the new release.
        together: composed epsilon of all of them.
        delta: delta of all three.
        num_earlier: number of earlier releases that it composes with.
        unbounded: releases among them, the new one included, that are known not to bound what a person brings; empty
            for the cost for a record.
    """

    spent: float
    alone: float
    together: float
    delta: float
    num_earlier: int
    unbounded: tuple[str, ...] = ()

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


def person_epsilon_of(releases: Iterable[Release], delta: float, owner_space: str) -> float:
    """Returns `composed_epsilon` for a person of a space, all of whose records may be replaced by as many others.

    A release without a bound on a person's records, or about other people, has no bound on what it costs the person.
    """
    from pipelines.accounting.groups import joint_epsilon  # dp-accounting is slow to import

    counted = [r for r in releases if r.counts]
    by_size: dict[int, list[Release]] = {}
    for release in counted:
        size = _records_of_a_person(release, owner_space)
        if size is None:
            return math.inf
        by_size.setdefault(size, []).append(release)
    return joint_epsilon(tuple((size, composed_event(by_size[size])) for size in sorted(by_size)), delta)


def without_bound(releases: Iterable[Release], owner_space: str) -> tuple[str, ...]:
    """Returns the ids of the releases that cost something and do not bound what a person of a space brings."""
    return tuple(r.release_id for r in releases if r.counts and _records_of_a_person(r, owner_space) is None)


def _records_of_a_person(release: Release, owner_space: str) -> int | None:
    return None if release.facts is None else release.facts.records_of_a_person(owner_space)


def overlapping(
    releases: Sequence[Release], scope: Scope = "overlap", unit: Unit = "record"
) -> list[tuple[Release, ...]]:
    """Divides releases into groups that may share records, or people, each in the given order.

    Args:
        releases: releases in the order of their entry.
        scope: ``overlap`` for chains of releases that share a document, a file name or file content, or ``store`` for
            all in one group.
        unit: ``owner`` to join also those about the same set of people, and those about unknown people with all. A set
            without a name is unknown beside one with a name.
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
    if unit == "owner":
        counted = [(r.release_id, r.people) for r in releases if r.counts]
        names = {people for _, people in counted}
        is_known = None not in names and ("" not in names or len(names) == 1)
        first: dict[str | None, str] = {}
        for name, people in counted:
            group[find(first.setdefault(people if is_known else None, name))] = find(name)
    found: dict[str, list[Release]] = {}
    for release in releases:
        found.setdefault(find(release.release_id), []).append(release)
    return [tuple(members) for members in found.values()]


def of_people(
    releases: Sequence[Release], linked: Iterable[Release], owner_space: str, scope: Scope
) -> tuple[Release, ...]:
    """Returns published releases that may share a person with a run, but no record; none without a space of people.

    Args:
        releases: all releases in the order of their entry.
        linked: releases that may share a record with the run.
        owner_space: space of the run's people (``CorpusConfig.space_of_people``).
        scope: text of the run (`overlapping`).
    """
    if not owner_space:
        return ()
    near = {r.release_id for r in linked}
    name = owner_space.partition("/")[0]
    shared = {
        r.release_id
        for group in overlapping(releases, scope, "owner")
        if any(r.release_id in near or (r.counts and (not name or not r.people or r.people == name)) for r in group)
        for r in group
    }
    return tuple(r for r in releases if r.release_id in shared - near and r.is_claimed and r.counts)


def project(earlier: Sequence[Release], new: Release, budget: Budget | None = None) -> Projection:
    """Returns the cost of ``new`` after the earlier releases, at the budget's delta (by default its own)."""
    delta = budget.delta if budget and budget.delta is not None else new.delta
    unit = budget.unit if budget else "record"
    groups = overlapping([*earlier, new], budget.scope if budget else "overlap", unit)
    (group,) = [g for g in groups if any(r.release_id == new.release_id for r in g)]
    before = [r for r in group if r.release_id != new.release_id and r.counts]
    space = new.facts.owner_space if new.facts else ""

    def cost(releases: Sequence[Release]) -> float:
        if unit == "owner":
            return person_epsilon_of(releases, delta, space)
        return composed_epsilon(releases, delta)

    return Projection(
        spent=cost(before),
        alone=cost([new]),
        together=cost([*before, new]),
        delta=delta,
        num_earlier=len(before),
        unbounded=without_bound([*before, new], space) if unit == "owner" else (),
    )


def refusal(projection: Projection, budget: Budget, release_id: str = "") -> str:
    """Returns the message that says why training was not started, and what to do.

    Args:
        projection: cost of the new release.
        budget: budget that it exceeds.
        release_id: id of the new release, which no ledger has.
    """
    is_person = budget.unit == "owner"
    data = "these people" if is_person else "this data"
    so_far = (
        f"{projection.num_earlier} earlier release{'s' if projection.num_earlier != 1 else ''} on {data} already "
        f"spent epsilon {number(projection.spent)}"
        if projection.num_earlier
        else f"no earlier release used {data}"
    )
    whose = " for a person (guarantee.budget_unit = 'owner')" if is_person else ""
    text = (
        f"training was not started: {so_far}; this run alone would spend {number(projection.alone)}, and together "
        f"they would spend {number(projection.together)} (delta {upper_bound(projection.delta)}){whose}, above "
        f"guarantee.budget_epsilon = {budget.epsilon:g}. "
    )
    earlier = [name for name in projection.unbounded if name != release_id]
    if earlier:
        return (
            f"{text}Nothing bounds what one of these people brought to {_listed(earlier)}, which did not sample them "
            "(train.unit, corpus.owner_from, corpus.owner_space) and kept no guarantee.owner_bound, so no budget for a "
            "person holds afterwards. Keep the model that is published, set guarantee.budget_unit = 'record' on "
            "purpose, or, if these are other people than those, use a store of its own for them; `reticent ledger` "
            "lists the releases"
        )
    if projection.unbounded:
        return (
            f"{text}Nothing bounds what a person brings to this training: set corpus.owner_from, and train.unit = "
            "'owner' or guarantee.owner_bound (docs/concepts.md)"
        )
    return (
        f"{text}Keep the model that is published, set a smaller train.target_epsilon, train on other "
        f"{'people' if is_person else 'data'}, or raise the budget on purpose; `reticent ledger` lists what was spent"
    )


def _listed(names: Sequence[str]) -> str:
    """Lists at most three ids of releases."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"release{'s' if len(names) > 1 else ''} {', '.join(names[:3])}{more}"


def number(epsilon: float) -> str:
    """Returns an epsilon as text for people."""
    return upper_bound(epsilon) if math.isfinite(epsilon) else "infinity (no noise, or noise that can be repeated)"


def releases_digest(releases: Iterable[Release]) -> str:
    """Returns an identifier of a set of releases, independent of their order."""
    return hashlib.sha256("\n".join(sorted(r.release_id for r in releases)).encode()).hexdigest()[:16]
