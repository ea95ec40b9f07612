"""Claims as the report shows them: three kinds that must not be taken for one another, and one headline.

``issued``: a guarantee under its assumptions. ``refused``: no numbers, and why. ``estimate``: numbers that promise
nothing. What a claims file lacks stays None, and whatever is not plainly a guarantee is shown as an estimate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pipelines.numbers import count, is_number, percent, upper_bound

TITLES: Final[Mapping[str, str]] = {
    "owner_dp": "Differential privacy of a person",
    "dp_private_set": "Differential privacy of the private set",
    "confidentiality": "Confidentiality of a secret",
    "confidentiality_of_caught_secrets": "Confidentiality of caught secrets",
    "group_confidentiality": "Confidentiality of a group of secrets",
    "group_confidentiality_at_average_rate": "A group of secrets with the average share of misses",
    "bayesian_confidentiality": "Bayesian confidentiality",
    "confidentiality_of_masked_secrets": "Confidentiality of secrets that are masked stably",
    "selective_dp": "Selective differential privacy of the true secrets",
    "selective_dp_of_the_policy": "Selective differential privacy of what the policy masks",
    "light_noise_estimate": "Light noise, as JFT estimates it",
}
_FIELDS: Final = (
    "notion",
    "statement",
    "epsilon",
    "delta",
    "epsilon_unamplified",
    "theorem",
    "unit",
    "corpus",
    "relation",
    "group_size",
    "num_missed",
    "dedup_stability",
    "mu",
    "confidence",
    "covers",
    "together",
)
_WITHHELD: Final = "not stated here: "
"""How the reason begins if the claim may hold, and this version must not say so."""
DP_NOTION: Final = "dp_private_set"


def normalised(document: Any) -> list[dict[str, Any]]:
    """Returns the claims of a claims file in one shape, with `status` and `is_headline` added.

    Args:
        document: the parsed ``claims.json``: ``claims``, and ``headline`` as an index; None when there is none.

    Returns:
        Per claim: the fields of the file (None where absent), ``title``, ``status``, ``is_withheld`` (true if it is
        refused in this version only), ``reason`` (why refused, or why it is no guarantee), ``assumptions``, ``beside``,
        ``as_in_paper`` and ``is_headline``.
    """
    if not isinstance(document, Mapping):
        return []
    headline = document.get("headline")
    return [_normalised(raw, index == headline) for index, raw in enumerate(document.get("claims") or ())]


def _normalised(raw: Mapping[str, Any], is_headline: bool) -> dict[str, Any]:
    refused = raw.get("refused")
    is_withheld = (refused or "").startswith(_WITHHELD)
    has_numbers = is_number(raw.get("epsilon")) and is_number(raw.get("delta"))
    reasons = list(raw.get("not_guaranteed_because") or ())
    if refused is not None or not has_numbers:
        status, reason = "refused", (refused or "the claim has no numbers").removeprefix(_WITHHELD)
    elif raw.get("is_guarantee") is True:
        status, reason = "issued", None
    else:
        status, reason = "estimate", "; ".join(reasons) or "it is not marked as a guarantee"
    claim: dict[str, Any] = {key: raw.get(key) for key in _FIELDS}
    if status == "refused":
        claim |= {"epsilon": None, "delta": None, "together": None}
    notion = claim["notion"] or "unknown"
    return {
        **claim,
        "notion": notion,
        "title": TITLES.get(notion, notion.replace("_", " ").capitalize()),
        "status": status,
        "is_withheld": is_withheld,
        "reason": reason,
        "assumptions": list(raw.get("assumptions") or ()),
        "beside": list(raw.get("beside") or ()),
        "as_in_paper": dict(raw.get("as_in_paper") or {}),
        "is_headline": is_headline,
    }


def headline_claim(claims: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Returns the claim to show first, if any was issued or estimated."""
    return next((claim for claim in claims if claim["is_headline"]), None)


def can_be_claimed(claims: Sequence[Mapping[str, Any]]) -> str:
    """Returns a sentence on what the run promises."""
    shown = headline_claim(claims)
    if not claims:
        return "Nothing: no claim was computed for this run."
    if shown is None or shown["status"] == "refused":
        return "Nothing: every claim was refused or is no guarantee, for the reasons given below."
    numbers = numbers_of(shown)
    if shown["status"] == "estimate":
        return f"Nothing: the figures below ({numbers}) promise nothing, because {shown['reason']}."
    if not_together(shown) is not None:
        num = shown["together"]["num_releases"]
        return (
            f"Nothing about the {count(num)} releases on these {_shared(shown)} together: {not_together(shown)}. For "
            f"this model alone, which is one of them: {_promise(shown, _numbers(shown), shown)}"
        )
    return _promise(shown, numbers, {**shown, **_statement_of(whole_of(shown))})


def _shared(claim: Mapping[str, Any]) -> str:
    return "files or people" if claim["notion"] == "owner_dp" else "files"


def _promise(shown: Mapping[str, Any], numbers: str, stated: Mapping[str, Any]) -> str:
    sure = "" if shown["confidence"] in (None, 1, 1.0) else f" with confidence {percent(shown['confidence'])}"
    num = len(stated["assumptions"])
    rests = f", provided that {_counted(num, 'assumption')} hold{'s' if num == 1 else ''}" if num else ""
    about = f" It is about {shown['covers']}." if shown["covers"] else ""
    return f"{shown['title']}, {numbers} for one {unit_of(shown)}{sure}{rests}. {stated['statement'] or ''}{about}"


def cannot_be_claimed(claims: Sequence[Mapping[str, Any]]) -> str:
    """Returns one or two sentences on what the run does not promise."""
    refused = [claim for claim in claims if claim["status"] == "refused"]
    always = (
        "That the model or the public set holds no secret: redaction may miss some, and a guarantee bounds what can be "
        "learnt, not what a person may guess."
    )
    lead = [
        f"{said}: {_counted_titles(titles)}."
        for said, is_withheld in (("Refused", False), ("Not stated in this version", True))
        if (titles := [claim["title"] for claim in refused if claim["is_withheld"] == is_withheld])
    ]
    return " ".join([*lead, always])


def _counted_titles(titles: Sequence[str]) -> str:
    counted = {title: titles.count(title) for title in dict.fromkeys(titles)}
    return "; ".join(title if n == 1 else f"{title} ({n} claims)" for title, n in counted.items())


def not_together(claim: Mapping[str, Any]) -> str | None:
    """Tells why a claim does not hold for all releases together; None if it does, or if there is one release."""
    whole = claim["together"]
    if whole is None or (whole["refused"] is None and whole["is_guarantee"]):
        return None
    return str(whole["refused"] or "; ".join(whole["not_guaranteed_because"]))


def whole_of(claim: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the figures of all releases together; those of the claim itself, if there is one release only."""
    whole: Mapping[str, Any] = claim["together"] or claim
    return whole


def shown_figures(claim: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the figures that are shown first: of all releases together if the claim holds for them, else its own."""
    return claim if not_together(claim) is not None else whole_of(claim)


def _statement_of(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Statement and assumptions that belong to figures, as far as they are there."""
    return {key: figures[key] for key in ("statement", "assumptions") if figures.get(key) is not None}


def only_together(claim: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what holds of all releases together only: ``statement`` (None if equal) and ``assumptions``."""
    whole = claim["together"] or {}
    statement = whole.get("statement")
    return {
        "statement": statement if statement != claim["statement"] else None,
        "assumptions": [a for a in whole.get("assumptions") or () if a not in claim["assumptions"]],
    }


def unit_of(claim: Mapping[str, Any]) -> str:
    """Returns the unit of privacy of the figures that are shown first."""
    return str(shown_figures(claim)["unit"] or "record")


def numbers_of(claim: Mapping[str, Any]) -> str:
    """Returns ε and δ of a claim: of all releases together first, and then of this model alone."""
    whole = claim["together"]
    if whole is None:
        return _numbers(claim)
    num = f"{count(whole['num_releases'])} releases together"
    if whole["refused"] is not None:
        return f"{num}: no bound; this model alone: {_numbers(claim)}"
    return f"{_numbers(whole)} for {num}; this model alone: {_numbers(claim)}"


def _numbers(figures: Mapping[str, Any]) -> str:
    """Both are upper bounds, so they are rounded up."""
    return f"ε = {upper_bound(figures['epsilon'])}, δ = {upper_bound(figures['delta'])}"


def _counted(number: int, noun: str) -> str:
    return f"{count(number)} {noun}" if number == 1 else f"{count(number)} {noun}s"
