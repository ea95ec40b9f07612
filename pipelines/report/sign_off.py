"""The page for the person who signs: one page in plain words, in front of the full report.

It says nothing that the report or the ledger does not; it is what of them a signature is about. The same run and the
same ledger give the same bytes, so that its digest can be signed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import Markup

from pipelines.numbers import count, upper_bound
from pipelines.report.assumptions import CONFIRMED, Numbered
from pipelines.report.cards import NEVER
from pipelines.report.claims import can_be_claimed
from pipelines.report.people import person_sentences, protected_sentences
from pipelines.report.render import render_html, render_page
from pipelines.report.sentences import found_by_attacks, given_away, meaning_of, missed
from pipelines.report.synthetic import signed_for

_MOST_CHANGES: Final = 6
TO_CONFIRM: Final = (
    "Nobody is harmed if the text that was set aside for validation and test becomes public.",
    "No setting was chosen by looking at private text, or at figures that were counted on it.",
    "Nothing else that was trained on this text was given away, but for the releases that this page names.",
)
"""The assumptions that the person who signs confirms one by one, because no program can know them."""
_BODY: Final = "<body>\n"
_STYLE_END: Final = "</style>"


@dataclass(frozen=True, kw_only=True)
class Signing:
    """The facts that a sign-off page states beside the report.

    Attributes:
        run_id, started: id and start of the run that is signed.
        config: the name of the settings file.
        composed: cost of all releases on these files together: ``num_releases``, ``epsilon`` (None: no bound),
            ``delta``, ``not_guaranteed_because`` (None: it is a guarantee), ``has_copy`` (flag that a copy of the store
            may have spent more), ``people`` (for each set of people ``num_releases``, ``epsilon``, ``delta`` and
            ``unbounded``).
        last: the last signature of this store, with ``run_id``, ``name`` and ``at``; None where there is none.
        changes: differences from the last signed run, a line each; None if that run's claims are gone.
    """

    run_id: str
    started: str | None
    config: str
    composed: Mapping[str, Any] | None
    last: Mapping[str, Any] | None
    changes: Sequence[str] | None


def sign_off_page(report: Mapping[str, Any], signing: Signing) -> str:
    """Returns the whole HTML document: the page to sign, and behind it the report.

    Args:
        report: result of `pipelines.report.figures.build`.
        signing: other facts on the page.
    """
    changes = signing.changes or ()
    front, style = (
        render_page(
            "sign_off.html",
            title=report["title"],
            signing=signing,
            claimed=can_be_claimed(report["claims"]),
            meaning=meaning_of(report["claims"]),
            to_confirm=to_confirm(report),
            person=person_sentences(report.get("person")),
            protected=protected_sentences(report),
            given_away=given_away(report),
            not_claimed="; ".join(not_claimed(report["claims"])),
            missed=missed(report["miss_rate"]),
            attacks=found_by_attacks(report.get("audit")),
            synthetic=signed_for(report.get("synthetic")),
            unmeasured=unmeasured(report),
            composed=composed_words(signing.composed),
            changes=changes[:_MOST_CHANGES],
            num_more=max(0, len(changes) - _MOST_CHANGES),
            warnings=report["warnings"],
            signed_by=report.get("signed_by"),
        ),
        render_page("sign_off.css"),
    )
    page = render_html(report)
    return page.replace(_STYLE_END, f"{style}{_STYLE_END}", 1).replace(_BODY, f"{_BODY}{front}", 1)


def to_confirm(report: Mapping[str, Any]) -> list[str]:
    """Returns what the person who signs ticks: each of `TO_CONFIRM`, and the report's other such assumptions."""
    numbered = Numbered(report)
    for_people = numbered.texts[: numbered.num_for_people]
    others = [text for text in for_people if not text.startswith(CONFIRMED)]
    if not others:
        return [*TO_CONFIRM]
    cited = Markup("The other assumptions that only people can know hold: {} of the report that follows.").format(
        numbered.cited(others)
    )
    return [*TO_CONFIRM, cited]


def not_claimed(claims: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the titles of the claims that are refused."""
    return list(dict.fromkeys(claim["title"] for claim in claims if claim["status"] == "refused"))


def unmeasured(report: Mapping[str, Any]) -> list[str]:
    """Returns what nobody measured, a sentence each."""
    audit = report.get("audit") or {}
    return [
        *(f"Not attacked, {name}: {reason}." for name, reason in (audit.get("not_attacked") or {}).items()),
        *NEVER,
    ]


def composed_words(whole: Mapping[str, Any] | None) -> str:
    """Says what all releases on these files cost together."""
    if whole is None or not whole["num_releases"]:
        return "No model that was trained on these files was released."
    models = _models_were(whole["num_releases"])
    more = "".join(map(_person_words, whole.get("people", ())))
    if whole.get("has_copy"):
        more += " A copy of this store may have released more, which is not counted here."
    if whole["epsilon"] is None:
        return f"{models} released on these files; together there is no bound on what they tell.{more}"
    cost = f"ε = {upper_bound(whole['epsilon'])} at δ = {upper_bound(whole['delta'])}"
    if because := whole.get("not_guaranteed_because"):
        more = f" That figure promises nothing: {because}.{more}"
    return (
        f"{models} released on these files. Together, without any credit for redaction, that costs {cost} (one record "
        f"replaced).{more}"
    )


def _models_were(num: int) -> str:
    return "One model was" if num == 1 else f"{count(num)} models were"


def _person_words(people: Mapping[str, Any]) -> str:
    """Says what all releases on the same people cost one of them."""
    models = _models_were(people["num_releases"])
    told = f" {models} released that may have read text of the same people, from whatever files; for one person"
    if people["epsilon"] is None:
        why = (
            "nothing limits how many records one person brought to each" if people["unbounded"] else "noise is missing"
        )
        return f"{told} there is no bound, because {why}."
    cost = f"ε = {upper_bound(people['epsilon'])} at δ = {upper_bound(people['delta'])}"
    return f"{told} that costs {cost} (all private rows of the person replaced)."
