"""Epsilon of a person: what the claim about one record becomes for somebody who wrote several.

A person is a group of records (`pipelines.accounting.groups`). The numbers of records of people are counted on the
trusted side (`people_of`), so the public sees them only where the settings publish counts.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pipelines.accounting.claim_builder import Claim
from pipelines.accounting.events import USELESS, Event, adds_no_noise
from pipelines.accounting.facts import PERSON, TrainingFacts
from pipelines.accounting.ledger import Release
from pipelines.files import finite

EXAMPLE: Final = 4
"""Number of records of a person for whom a figure is stated if nobody knows, or may tell, what people have."""
_FEWER: Final = (1, 4, 16, 64)
"""Sizes that are computed before a larger one, which takes longer."""
_OF_RECORDS: Final = ("dp_private_set", "selective_dp", "selective_dp_of_the_policy")
"""Claims about one record, in the order in which the figure of a person rests on them."""
_NO_FIGURE: Final = "the method makes no claim about a record"
_MEASURED: Final = (
    "the largest number of records of a person was measured on the private text (guarantee.owner_bound_basis), so the "
    "figures are estimates; fix it before the text is read, or take it from public text"
)
_UNKNOWN: Final = "no person has more records than the figure says, although nobody counted them"
_UNBOUNDED: Final = "nothing bounds how many records of this kind a person brought to the other releases"
_PUBLIC: Final = (
    "only records of the person that are private in every release are covered. Public rows are the same in both worlds"
)
_ALWAYS: Final = (
    "all records of one person are replaced by as many others. It is the same in both worlds which records belong to "
    "this person, and in which fold each of them is",
    "what other people wrote about a person is not covered. Whoever speaks in a person's records without being their "
    "owner, such as an agent, is not covered either",
    "everything that the claim about one record supposes",
)


@dataclass(frozen=True, kw_only=True)
class People:
    """The owners of the records to train on.

    Attributes:
        owner_from: setting ``corpus.owner_from``.
        num_people: number of people with a private record; None if it is not told.
        median, most: number of private records that half of these people do not exceed, and that nobody exceeds; None
            if it is not told, or if there are no such people.
        has_assumed: true if documents without an owner are each taken for a person; None if it is not told.
        bound: largest number of private records of a person that the training kept; None if it kept all.
        is_measured: true if the bound was counted on the private text, so that figures with it are estimates.
    """

    owner_from: str
    num_people: int | None = None
    median: int | None = None
    most: int | None = None
    has_assumed: bool | None = None
    bound: int | None = None
    is_measured: bool = False

    def withheld(self) -> People:
        """Returns what the public may know."""
        bound = None if self.is_measured else self.bound
        return People(owner_from=self.owner_from, bound=bound, is_measured=self.is_measured)


def people_of(owner_from: str, records: Mapping[str, int], *, has_assumed: bool, bound: int | None = None) -> People:
    """Counts people.

    Args:
        owner_from: setting ``corpus.owner_from``.
        records: number of private records by owner.
        has_assumed: true if documents without an owner are each taken for a person.
        bound: largest number of records of a person that the training kept; None if it kept all.
    """
    found = People(owner_from=owner_from, num_people=len(records), has_assumed=has_assumed, bound=bound)
    counts = [number if bound is None else min(number, bound) for number in records.values()]
    return replace(found, median=statistics.median_high(counts), most=max(counts)) if counts else found


def add_records(counts: Counter[str], rows: Iterable[tuple[str, int]], owners: Mapping[str, str], size: int) -> None:
    """Adds the records of some documents to the numbers of their owners.

    Args:
        counts: number of records by owner, which the function changes.
        rows: document and sentence index of each row that makes a record private; each row once.
        owners: owner of each document.
        size: number of sentence indices that one record spans.
    """
    for doc_id, _ in {(doc_id, index // size) for doc_id, index in rows}:
        counts[owners[doc_id]] += 1


def person_document(
    training: TrainingFacts,
    claims: Sequence[Claim],
    people: People | None,
    together: tuple[TrainingFacts, Sequence[Claim], Sequence[Release]] | None = None,
    *,
    has_public_rows: bool = False,
) -> dict[str, Any] | None:
    """Returns the epsilon of a person, beside that of a record. None if the claims themselves are about a person.

    Args:
        training: facts of the training.
        claims: its claims.
        people: numbers of records; None if nobody knows whose records they are.
        together: facts and claims of all releases as if they were one, and the other releases; None if there is none.
        has_public_rows: true if rows are trained on without noise, or published, because they are public.

    Returns:
        JSON values: ``is_known`` (true if owners are known), ``owner_from``, ``num_people``, ``has_public_rows``,
        ``unit``, ``delta``, the keys of `_figures`, ``assumptions``, and ``together`` with the keys of `_figures` and
        ``num_releases``, or None.
    """
    if training.by_owner and (together is None or together[0].by_owner):
        return None
    sizes, void = sizes_of(people), [_MEASURED] if people and people.is_measured else []
    assumed = ["each document without an owner is the only document of a person (corpus.owner_missing = own)"]
    known = ["an id is one person, and two ids are two people (corpus.owner_from)"]
    whole = None
    if together is not None:
        joint, of_all, others = together
        bounded = sizes_together(sizes, training.record, training.owner_space, others)
        unbounded = [_UNBOUNDED] if people and bounded is None else []
        all_figures = _figures(joint, of_all, bounded or sizes_of(None), [*void, *unbounded])
        whole = {"num_releases": len(others) + 1, **all_figures}
    return {
        "is_known": people is not None,
        "owner_from": people.owner_from if people else None,
        "num_people": people.num_people if people else None,
        "has_public_rows": has_public_rows,
        "unit": training.record,
        "delta": training.target_delta,
        **_figures(training, claims, sizes, void),
        "assumptions": [
            *(known if people else [_UNKNOWN]),
            *(assumed if people and people.has_assumed else []),
            *([_PUBLIC] if has_public_rows else []),
            *_ALWAYS,
        ],
        "together": whole,
    }


def sizes_of(people: People | None) -> dict[int, list[str]]:
    """Returns the numbers of records for which a figure is stated, each with the people whom it stands for."""
    if people is None or (people.bound is None and people.most is None):
        return {1: ["one"], EXAMPLE: ["example"]}
    found: dict[int, list[str]] = {}
    for whose, size in (("one", 1), ("median", people.median), ("most", people.bound or people.most)):
        if size is not None:
            found.setdefault(size, []).append(whose)
    return dict(sorted(found.items()))


def sizes_together(
    sizes: Mapping[int, Sequence[str]], record: str, owner_space: str, others: Iterable[Release]
) -> dict[int, list[str]] | None:
    """Returns numbers of records of a person in each of several releases, as `sizes_of` does for one of them.

    Args:
        sizes: those of one release.
        record: its kind of record.
        owner_space: its space of people (``CorpusConfig.space_of_people``).
        others: the other releases.

    Returns:
        Numbers of records; None if another release has other records, or other people, or does not bound what a person
        brought. Nobody counted the median person of several releases.
    """
    most = [size for size, whose in sizes.items() if "most" in whose]
    for release in others:
        facts = release.facts
        bound = None if facts is None else facts.records_of_a_person(owner_space)
        if facts is None or bound is None or facts.record not in (record, PERSON):
            return None
        most += [bound] if most else []
    found: dict[int, list[str]] = {1: ["one"]}
    found.setdefault(max(most, default=EXAMPLE), []).append("most" if most else "example")
    return found


def figures_of(
    event: Event, delta: float, sizes: Mapping[int, Sequence[str]], *, by_owner: bool = False
) -> list[dict[str, Any]]:
    """Returns ``num_records``, ``whose`` and ``epsilon`` for each size; None for an epsilon above `USELESS`.

    Steps that sample people protect a person alike, whatever the number of records (``by_owner``).
    """
    return [
        {"num_records": size, "whose": list(whose), "epsilon": person_epsilon(event, delta, 1 if by_owner else size)}
        for size, whose in sizes.items()
    ]


def person_epsilon(event: Event, delta: float, size: int) -> float | None:
    """Returns the epsilon of a person with so many records; None above `USELESS`, or if there is no noise."""
    from pipelines.accounting.groups import group_epsilon  # dp-accounting is slow to import

    if any(group_epsilon(event, delta, fewer) > USELESS for fewer in _FEWER if fewer < size):
        return None
    found = group_epsilon(event, delta, size)
    return finite(found) if found <= USELESS else None


def noised_event(training: TrainingFacts) -> Event:
    """Returns the event of what ran with noise: all, or the phases on original text if redacted text had none."""
    return training.event_on("original") if adds_no_noise(training.event) else training.event


def _figures(
    training: TrainingFacts, claims: Sequence[Claim], sizes: Mapping[int, Sequence[str]], void: Sequence[str]
) -> dict[str, Any]:
    """Returns ``basis`` (notion of the claim about a record), ``is_guarantee``, ``refused`` and ``figures``."""
    about = sorted((c for c in claims if c.notion in _OF_RECORDS), key=lambda c: _OF_RECORDS.index(c.notion))
    basis = next((claim for claim in about if claim.refused is None), None)
    if basis is None:
        refused = next((claim.refused for claim in about), _NO_FIGURE)
        return {"basis": None, "is_guarantee": False, "not_guaranteed_because": [], "refused": refused, "figures": []}
    return {
        "basis": basis.notion,
        "is_guarantee": basis.is_guarantee and not void,
        "not_guaranteed_because": [*basis.not_guaranteed_because, *void],
        "refused": None,
        "figures": figures_of(noised_event(training), training.target_delta, sizes, by_owner=training.by_owner),
    }
