"""What a claim about one record means for a person, in words, for reports, cards, the ledger and the page to sign."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pipelines.report.numbers import count, real

HARDLY: Final = 13.8
"""Epsilon from which the odds of a guess may change a million-fold."""
_WHOSE: Final[Mapping[str, str]] = {"median": "the median", "most": "the most of anybody"}


def person_sentences(person: Mapping[str, Any] | None) -> list[str]:
    """Returns what holds for a person, in sentences; none for the claims of a version that did not state it.

    Args:
        person: result of `pipelines.accounting.people.person_document`, perhaps rounded for the public.
    """
    if person is None:
        return []
    found = [_lead(person)]
    if person["refused"] is not None:
        return [*found, f"No figure is stated for a person: {_ended(person['refused'])}"]
    together = person["together"]
    at = f"At δ = {real(person['delta'], 3, upper=True)}"
    if together is not None:
        releases = f"{count(together['num_releases'])} releases together"
        if together["refused"] is not None:
            found.append(f"{releases}: no figure for a person, because {_ended(together['refused'])}")
        else:
            found.append(f"{at}, {releases}, as many records in each: {figures_text(together['figures'])}.")
        at = "This model alone"
    found.append(f"{at}: {figures_text(person['figures'])}.")
    shown = [figure["epsilon"] for figure in person["figures"]]
    if any(epsilon is None or epsilon >= HARDLY for epsilon in shown):
        found.append("From ε = 13.8 on, the odds of a guess may change a million-fold, which is hardly a protection.")
    if not person["is_guarantee"]:
        found.append(f"These figures promise nothing, because {_ended('; '.join(person['not_guaranteed_because']))}")
    return found


def figures_text(figures: Sequence[Mapping[str, Any]]) -> str:
    """Lists the epsilon of people by the number of their records."""
    return "; ".join(_figure(figure) for figure in figures)


def _lead(person: Mapping[str, Any]) -> str:
    if not person["is_known"]:
        return (
            "A person with several records is not covered by the ε of one record: whose text a record is, is not "
            "known (corpus.owner_from)."
        )
    num = person["num_people"]
    if num is None:
        return (
            "The ε of one record does not cover a person with several. Whose text a record is, is known to the trusted "
            "side; how many records people have is not told here."
        )
    people = "person has" if num == 1 else "people have"
    return f"The ε of one record does not cover a person with several. {count(num)} {people} private records."


def _figure(figure: Mapping[str, Any]) -> str:
    size = figure["num_records"]
    whom = ", ".join(_WHOSE[one] for one in figure["whose"] if one in _WHOSE)
    value = "no useful limit" if figure["epsilon"] is None else f"ε = {real(figure['epsilon'], upper=True)}"
    records = "1 record" if size == 1 else f"{count(size)} records"
    return f"a person with {records}{f' ({whom})' if whom else ''}: {value}"


def _ended(text: str) -> str:
    return text if text.endswith(".") else f"{text}."
