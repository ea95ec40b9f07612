"""The facts of each claim beside its numbers, of which those that most claims share are printed once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pipelines.numbers import count, percent, plain, upper_bound
from pipelines.report.claims import shown_figures
from pipelines.report.sentences import odds_change
from pipelines.report.words import CORPORA, RELATIONS

_FEWEST: Final = 3
_SYMBOLS: Final[Mapping[str, str]] = {"epsilon": "ε", "delta": "δ", "gamma": "γ", "mu": "μ"}


class ClaimFacts:
    """The facts of the claims that have numbers.

    Args:
        claims: claims of a report, of which those that are refused are left out.
        mu: distribution that the section on missed secrets names.

    Attributes:
        shared: names and values that at least three claims, and most of all, have in common.
    """

    def __init__(self, claims: Sequence[Mapping[str, Any]], mu: str | None) -> None:
        self._mu = mu
        each = [self._all(claim) for claim in claims if claim["status"] != "refused"]
        self.shared: dict[str, str] = {}
        for name in each[0] if each else ():
            (value, number), *_ = Counter(facts.get(name) for facts in each).most_common(1)
            if value is not None and number >= _FEWEST and 2 * number > len(each) and all(name in f for f in each):
                self.shared[name] = value

    def of(self, claim: Mapping[str, Any]) -> dict[str, str]:
        """Returns names and values of the facts in which a claim differs from `shared`."""
        return {name: value for name, value in self._all(claim).items() if self.shared.get(name) != value}

    def _all(self, claim: Mapping[str, Any]) -> dict[str, str]:
        relation = RELATIONS.get(claim["relation"], claim["relation"]) or "not stated"
        corpus = CORPORA.get(claim["corpus"], claim["corpus"])
        sure = claim["confidence"]
        found = {
            "Odds of a guess": _odds(claim),
            "About": claim["covers"],
            "Theorem": claim["theorem"] or "not stated",
            "Unit": f"one {claim['unit']}" if claim["unit"] else "not stated",
            "Neighbours": f"{relation}, in {corpus}" if corpus else relation,
            "Group size": _group_size(claim),
            "One sentence changes": _changed(claim["dedup_stability"]),
            "ε of this training": _unamplified(claim["epsilon_unamplified"]),
            "μ": "as in “What the redaction missed”" if claim["mu"] == self._mu else claim["mu"],
            "Confidence": "no sampled figure enters"
            if sure is None
            else "no sampling error"
            if sure == 1
            else percent(sure),
            "As in the paper": _as_in_paper(claim["as_in_paper"]),
        }
        return {name: value for name, value in found.items() if value}


def _odds(claim: Mapping[str, Any]) -> str | None:
    if claim["status"] == "estimate":
        return "no limit is promised"
    epsilon = shown_figures(claim)["epsilon"]
    return None if epsilon is None else f"change {odds_change(epsilon)}"


def _group_size(claim: Mapping[str, Any]) -> str | None:
    size, missed = claim["group_size"], claim["num_missed"]
    if size == 1 and missed is None:
        return None
    return count(size) if missed is None else f"{count(size)}; {count(missed)} of them count as missed"


def _changed(num_records: int | None) -> str:
    if num_records is None:
        return "not used by this claim"
    return f"at most {count(num_records)} training record{'' if num_records == 1 else 's'}"


def _unamplified(epsilon: float | None) -> str | None:
    return None if epsilon is None else f"{upper_bound(epsilon)}, without credit for redaction"


def _as_in_paper(figures: Mapping[str, Any]) -> str:
    """Returns figures of a paper in its symbols. A delta above one is stored as None."""
    return ", ".join(
        RELATIONS.get(str(value), plain(value))
        if name == "relation"
        else "δ above 1"
        if name == "delta" and value is None
        else f"{_SYMBOLS.get(name, name)} = {plain(value)}"
        for name, value in figures.items()
    )
