"""What a claim about one record means for a person, in words, for reports, cards, the ledger and the page to sign."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pipelines.numbers import count, percent, real, upper_bound
from pipelines.report.claims import headline_claim, shown_figures

HARDLY: Final = 13.8
"""Epsilon from which the odds of a guess may change a million-fold."""
_WHOSE: Final[Mapping[str, str]] = {"median": "the median", "most": "the most of anybody", "bound": "the bound"}

_ROWS: Final = (" in rows that are private in every release", " in private rows")
_WHO: Final[Mapping[str, str]] = {
    "field": "whoever the documents name in the field of corpus.owner_field",
    "document": "whoever wrote one document",
    "file": "whoever wrote one file",
    "folder": "whoever one folder belongs to",
    "sender": "the sender of a mail, the author of a post, or the one speaker of a dialogue with a name",
}


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
    at = f"At δ = {upper_bound(person['delta'])}"
    if together is not None:
        releases = f"{count(together['num_releases'])} releases together"
        if together["refused"] is not None:
            found.append(f"{releases}: no figure for a person, because {_ended(together['refused'])}")
        else:
            each = figures_text(together["figures"])
            found.append(f"{at} and for {releases}, with so many records in each, {each}.")
            void = [r for r in together["not_guaranteed_because"] if r not in person["not_guaranteed_because"]]
            if void:
                found.append(f"The figures for {releases} promise nothing, because {_ended('; '.join(void))}")
        at = "For this model alone"
    found.append(f"{at}, {figures_text(person['figures'])}.")
    shown = [figure["epsilon"] for figure in person["figures"]]
    if any(epsilon is None or epsilon >= HARDLY for epsilon in shown):
        found.append("From ε = 13.8 on, the odds of a guess may change a million-fold, which is hardly a protection.")
    if not person["is_guarantee"]:
        found.append(f"These figures promise nothing, because {_ended('; '.join(person['not_guaranteed_because']))}")
    return found


def protected_sentences(report: Mapping[str, Any]) -> list[str]:
    """Returns who is protected and who is not, in sentences, if the first claim is about a person; else none.

    Args:
        report: report, of which ``claims`` and ``settings`` are read.
    """
    claim, corpus = headline_claim(report["claims"]), report["settings"].get("corpus") or {}
    who = _WHO.get(corpus.get("owner_from", ""))
    if claim is None or (claim["notion"], claim["status"]) != ("owner_dp", "issued") or who is None:
        return []
    differs = (corpus.get("source") or {}).get("num_values")
    except_own = own = ""
    if corpus.get("owner_missing") == "own":
        except_own = ", except whoever wrote several documents without an id: they are protected less"
        own = " A document without an id counts as a person of its own (corpus.owner_missing = own)."
    open_rows = ["What a person wrote in rows of the public side is not protected either."]
    open_steps = ["Nor is what deduplication and redaction reveal of a person by what they leave of others."]
    return [
        "Every person whose text the model was trained on is protected to the same degree, however much they wrote"
        f"{except_own}.",
        f"A person is {who}{', unless a table [[corpus.source]] says otherwise' if differs else ''}.{own}",
        "Not protected are people whom others write about, agents and others who speak in a document that is not "
        "theirs, and people whose text was held out (validation and test), because it is taken to be public.",
        *(open_rows if covered_rows(claim) else []),
        *(open_steps if _is_of_private_set(claim) else []),
    ]


def covered_rows(claim: Mapping[str, Any]) -> str:
    """Returns the rows that the shown figures of a claim are restricted to, in words to follow others; or nothing."""
    said = shown_figures(claim).get("statement") or ""
    known = _ROWS if claim["notion"] == "owner_dp" else _ROWS[:1]
    return next((rows for rows in known if rows in said), "")


def covered_text(claim: Mapping[str, Any], text: str) -> str:
    """Returns the text of a person that a claim covers, with the restrictions of the figures that are shown."""
    left = "what deduplication and redaction left of " if _is_of_private_set(claim) else ""
    return f"{left}{text}{covered_rows(claim)}"


def _is_of_private_set(claim: Mapping[str, Any]) -> bool:
    return claim["notion"] == "owner_dp" and shown_figures(claim).get("corpus") == "private_set"


def figures_text(figures: Sequence[Mapping[str, Any]], epsilon: str = "ε") -> str:
    """Lists epsilons: ε is 2.9 for a person with 1 record; 14.4 with 4 records (the median)."""
    listed = [_figure(figure) for figure in figures]
    first, *others = [
        f"{value} {'with' if at else 'for a person with'} {whom}" for at, (value, whom) in enumerate(listed)
    ]
    return "; ".join([f"{epsilon} is {first}", *others])


def audited_sentences(audit: Mapping[str, Any]) -> list[str]:
    """Returns what attacks on made-up people show beside the epsilons, a sentence each.

    Args:
        audit: document of the audit (`pipelines.stages.audit.person.person_document` in its list ``person``).
    """
    found = []
    for game in audit.get("person") or ():
        lower = game["lower"]
        claims = "; ".join(f"for {c['whose']}, {_limit(c['epsilon'])}" for c in game["claims"])
        shown = f"at least {real(lower['value'], lower=True)} at {percent(lower['confidence'])} confidence"
        exceeded = [c for c in game["claims"] if c["is_exceeded"]]
        verdict = "None of them is exceeded."
        if any(c["is_of_person"] for c in exceeded):
            verdict = (
                "The attacks exceed the ε of a person. Of correct trainings, up to "
                f"{percent(1 - lower['confidence'])} show this in each game, so only the alarm decides."
            )
        elif exceeded:
            verdict = "So the ε of a record does not cover a person."
        found.append(f"For {game['game']}: attacks show an ε of {shown}. Stated is, {claims}. {verdict}")
    return found


def _limit(epsilon: float | None) -> str:
    return "no useful limit" if epsilon is None else f"at most {upper_bound(epsilon)}"


def _lead(person: Mapping[str, Any]) -> str:
    lead = "The ε of one record does not cover a person with several."
    if person["unit"] == "person":
        lead = (
            "This training sampled people, so its own ε holds for a person with any number of records. Other releases "
            "sampled records, and the ε of one record does not cover a person with several."
        )
    if not person["is_known"]:
        return f"{lead} Whose text a record is, is not known (corpus.owner_from)."
    who = f"A person is {_WHO[person['owner_from']]}. What others wrote about a person is not covered"
    who += ", and neither are rows on the public side." if person["has_public_rows"] else "."
    num = person["num_people"]
    if num is None:
        return f"{lead} {who} How many records people have is not told here."
    return f"{lead} {who} {count(num)} {'person has' if num == 1 else 'people have'} private records."


def _figure(figure: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the epsilon, and the records of the person whom it is for."""
    size = figure["num_records"]
    whom = ", ".join(_WHOSE[one] for one in figure["whose"] if one in _WHOSE)
    records = f"{count(size)} {'record' if size == 1 else 'records'}{f' ({whom})' if whom else ''}"
    return "without a useful limit" if figure["epsilon"] is None else upper_bound(figure["epsilon"]), records


def _ended(text: str) -> str:
    return text if text.endswith(".") else f"{text}."
