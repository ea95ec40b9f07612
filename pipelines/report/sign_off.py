"""The page for the person who signs: one page in plain words, in front of the full report.

It says nothing that the report or the ledger does not; it is what of them a signature is about. The same run and the
same ledger give the same bytes, so that its digest can be signed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pipelines.methods.registry import method
from pipelines.methods.spec import MethodSpec
from pipelines.report.cards import NEVER
from pipelines.report.claims import DP_NOTION, can_be_claimed, headline_claim, shown_figures, unit_of
from pipelines.report.numbers import count, percent, real
from pipelines.report.people import audited_sentences, covered_text, person_sentences, protected_sentences
from pipelines.report.render import render_html, render_page
from pipelines.report.synthetic import signed_for
from pipelines.report.words import SOURCES

_MOST_CHANGES: Final = 6
_LARGE_FACTOR: Final = 1e6
_GUESSES: Final[Mapping[str, str]] = {
    "owner_dp": "what one person wrote",
    DP_NOTION: "one {unit} of the private side",
    "confidentiality": "a secret that stands in one {unit}",
    "confidentiality_of_caught_secrets": "a secret that redaction caught, in one {unit}",
    "bayesian_confidentiality": "a secret of which only its kind is known, in one {unit}",
    "confidentiality_of_masked_secrets": "a secret that redaction masks stably, in one {unit}",
    "selective_dp": "a secret that stands in one {unit}",
    "selective_dp_of_the_policy": "what the policies mask in one {unit}",
}
"""What a claim hides from whoever guesses, by its notion; `pipelines.accounting.claims` may put any of these first."""
_OPEN: Final[Mapping[str, str]] = {
    "owner_dp": "What others wrote about the person is not protected.",
    **dict.fromkeys(
        (DP_NOTION, "confidentiality_of_caught_secrets"), "Who is named in a row of the public side is not protected."
    ),
}
_SILENT: Final = "Of all else that stands in the text it says nothing."
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
            supposed=supposed(report["claims"]),
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


def meaning_of(claims: Sequence[Mapping[str, Any]]) -> str:
    """Says in plain words what the headline's ε and δ mean."""
    claim = headline_claim(claims)
    if claim is None or claim["status"] != "issued":
        return "So nothing protects what stands in the text, but that redaction masked it."
    figures = shown_figures(claim)
    unit, epsilon, delta = unit_of(claim), figures["epsilon"], figures["delta"]
    about = f"about {covered_text(claim, _GUESSES[claim['notion']].format(unit=unit))}"
    limit = _OPEN.get(claim["notion"], _SILENT)
    if epsilon == 0:
        return f"In plain words: what is published is no help to whoever guesses {about}. {limit}"
    factor = math.exp(epsilon)
    by = f"by a factor of at most {real(factor, 3, upper=True)}" if factor < _LARGE_FACTOR else "by more than a million"
    kept = "" if factor < _LARGE_FACTOR else " That is hardly a protection."
    whom = f"whoever wrote or is named in one {unit}" if claim["notion"] == DP_NOTION else f"one {unit}"
    holds = (
        covered_text(claim, "everything that one person wrote")
        if claim["notion"] == "owner_dp"
        else f"{whom}; what many of them say together about a person is protected far less"
    )
    return (
        f"In plain words: whoever guesses {about} may be helped by what is published, but the odds of the guess change "
        f"{by}; that this fails has a probability of {real(delta, 3, upper=True)}, roughly.{kept} It holds for "
        f"{holds}. {limit}"
    )


def supposed(claims: Sequence[Mapping[str, Any]]) -> str:
    """Says that the headline rests on more than this page; empty if there is no headline."""
    claim = headline_claim(claims)
    if claim is None or claim["status"] != "issued":
        return ""
    return (
        "Its assumptions stand with the claim in the report below. That held-out text is public, that no setting was "
        "chosen by looking at private text, and that nothing else trained on it is given away, only people can know."
    )


def given_away(report: Mapping[str, Any]) -> str:
    """Says which part of the text is open as it was written."""
    num, whole = report["shards"].get("num_public"), count(report["corpus"].get("num_sentences"))
    name = report["training"].get("method")
    spec = None if name is None else method(name)
    if report["publishes_rows"]:
        said = (
            f"{count(num)} of {whole} rows of the text are published as they were written, because redaction found "
            "nothing in them. Nothing protects what stands there."
        )
    elif spec is not None and spec.trains_on_public_rows and num:
        said = (
            f"No row of the text is published. The model was trained without noise on {count(num)} of {whole} rows as "
            "they were written, because redaction found nothing in them, and may repeat them. Nothing protects what "
            "stands there."
        )
    else:
        said = "No row of the text is published."
    if spec is None or not spec.publishes_model or not _is_unnoised(spec, report["settings"].get("train", {})):
        return said
    return (
        f"{said} The model was trained without noise on text of private rows, too ({spec.without_noise}), and may "
        "repeat it. Nothing protects what no policy masked there."
    )


def _is_unnoised(spec: MethodSpec, settings: Mapping[str, Any]) -> bool:
    """Tells if a method read text of private rows without noise; if its variant is not known, if any variant does."""
    variant = None if spec.variant_setting is None else settings.get(spec.variant_setting)
    rules = [spec.rules[variant]] if variant in spec.rules else [*spec.rules.values()]
    return any(rule.is_unnoised for rule in rules)


def missed(rates: Mapping[str, Any]) -> str:
    """Says how much redaction missed."""
    source, gamma = rates.get("source"), rates.get("false_negative_rate") or {}
    if source in (None, "not_measured") or gamma.get("value") is None:
        why = f": {rates['reason']}" if rates.get("reason") else ""
        return f"Nobody measured it{why}. How many secrets redaction misses is not known; `reticent review` tells."
    known, num = rates.get("num_secret_spans"), rates.get("num_missed_spans")
    counted = f"{count(num)} of {count(known)} known secrets" if known is not None and num is not None else "A share"
    if num is not None and (unmasked := rates.get("num_unmasked_spans")) is not None:
        counted += f" ({count(unmasked)} left open, {count(num - unmasked)} masked in a way that changes other masks)"
    sure = gamma.get("confidence")
    bound = f"at most {percent(gamma.get('upper'), upper=True)}"
    bound += "" if sure in (None, 1, 1.0) else f" at {percent(sure)} confidence"
    return (
        f"{counted} were missed: γ = {percent(gamma['value'])}, {bound}. Who said what is a secret: "
        f"{SOURCES.get(source, source)}. Secrets that nobody labelled are counted nowhere."
    )


def found_by_attacks(audit: Mapping[str, Any] | None) -> list[str]:
    """Returns what attacks found, a sentence each."""
    if not audit:
        return ["Nobody attacked this model. `reticent audit` does."]
    found = []
    if audit.get("alarm"):
        found.append("ALARM: attacks or tests of the audit refute the claimed ε. Do not sign.")
    if lower := audit.get("epsilon_lower"):
        said = "none" if (claimed := audit.get("epsilon_claimed")) is None else real(claimed, upper=True)
        found.append(
            f"Attacks show an ε of at least {real(lower['value'], lower=True)} at {percent(lower['confidence'])} "
            f"confidence; claimed for the same is {said}."
        )
    found += audited_sentences(audit)
    if (membership := audit.get("membership")) and (best := membership.get("best")):
        seen = "a leak" if membership["any_leak"] else "no leak seen"
        found.append(f"Who was trained on: best attack has AUC {real(best['auc'], 3)}, where 0.5 is a coin: {seen}.")
        people = [attack for attack in membership.get("attacks", ()) if attack["kind"] == "person"]
        found += [f"The same, attacked records of a person together: AUC {real(one['auc'], 3)}." for one in people[:1]]
    if exposure := audit.get("exposure"):
        found += [f"Canaries ({group['name']}): {group['conclusion']}." for group in exposure["groups"]]
    if extraction := audit.get("extraction"):
        found.append(
            f"{count(extraction['num_found_only_by_model'])} secrets were written by this model and by none that never "
            "read them."
        )
    return [*found, "That attacks find nothing proves nothing."]


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
    cost = f"ε = {real(whole['epsilon'], upper=True)} at δ = {real(whole['delta'], 3, upper=True)}"
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
    cost = f"ε = {real(people['epsilon'], upper=True)} at δ = {real(people['delta'], 3, upper=True)}"
    return f"{told} that costs {cost} (all private rows of the person replaced)."
