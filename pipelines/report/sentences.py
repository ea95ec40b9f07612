"""What a person needs first, in plain sentences: for the top of the report and for the page to sign."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pipelines.methods.registry import method
from pipelines.methods.spec import MethodSpec
from pipelines.numbers import count, percent, real, upper_bound
from pipelines.report.claims import DP_NOTION, headline_claim, shown_figures, unit_of
from pipelines.report.people import audited_sentences, covered_text
from pipelines.report.words import SOURCES

_LARGE: Final = math.log(1e6)
_GUESSES: Final[Mapping[str, str]] = {
    "owner_dp": "what one person wrote",
    DP_NOTION: "one {unit} of the private side",
    "confidentiality": "a secret that stands in one {unit}",
    "confidentiality_of_caught_secrets": "a secret that redaction caught in one {unit}",
    "bayesian_confidentiality": "a secret in one {unit} of which only the kind is known",
    "confidentiality_of_masked_secrets": "a secret that redaction masks stably in one {unit}",
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


def meaning_of(claims: Sequence[Mapping[str, Any]]) -> str:
    """Says in plain words what the headline's ε and δ mean."""
    claim = headline_claim(claims)
    if claim is None or claim["status"] != "issued":
        return "So nothing protects what stands in the text, but that redaction masked it."
    figures = shown_figures(claim)
    unit, epsilon, delta = unit_of(claim), figures["epsilon"], figures["delta"]
    about = f"about {covered_text(claim, _GUESSES.get(claim['notion'], 'what stands in one {unit}').format(unit=unit))}"
    limit = _OPEN.get(claim["notion"], _SILENT)
    if epsilon == 0:
        return f"In plain words: what is published is no help to whoever guesses {about}. {limit}"
    by = odds_change(epsilon)
    kept = "" if epsilon < _LARGE else " That is hardly a protection."
    whom = f"whoever wrote or is named in one {unit}" if claim["notion"] == DP_NOTION else f"one {unit}"
    holds = (
        covered_text(claim, "everything that one person wrote")
        if claim["notion"] == "owner_dp"
        else f"{whom}; what many of them say together about a person is protected far less"
    )
    return (
        f"In plain words: whoever guesses {about} may be helped by what is published, but the odds of the guess change "
        f"{by}, up to a slack of {upper_bound(delta)} (δ).{kept} It holds for "
        f"{holds}. {limit}"
    )


def odds_change(epsilon: float) -> str:
    """Says by how much the odds of a guess may change at an epsilon."""
    if epsilon >= _LARGE:
        return "by a factor that may exceed a million"
    return f"by a factor of at most {upper_bound(math.exp(epsilon))}"


def given_away(report: Mapping[str, Any]) -> str:
    """Says which part of the text is open as it was written."""
    shards = report["shards"]
    num = shards.get("num_public")
    some = "rows" if num is None else f"{count(num)}{_of_all(num, shards)} rows"
    name = report["training"].get("method")
    spec = None if name is None else method(name)
    if report["publishes_rows"]:
        said = (
            f"{some} of the training text are published as they were written, because redaction and a stricter policy "
            "found nothing in them, and with them speaker, domain and label. Nothing protects what stands there."
        )
    elif spec is not None and spec.trains_on_public_rows and num != 0:
        said = (
            f"No row of the text is published. The model was trained without noise on {some} as they were written, "
            "because redaction and a stricter policy found nothing in them, and may repeat them. Nothing protects what "
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


def _of_all(num_public: int, shards: Mapping[str, Any]) -> str:
    """Returns the number of training rows, of which repeats are one mask each and do not count."""
    num_private, repeats = shards.get("num_private"), shards.get("num_duplicates") or 0
    if num_private is None:
        return ""
    if not 0 < repeats <= num_private:
        return f" of {count(num_public + num_private)}"
    return f" of {count(num_public + num_private - repeats)} different"


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
    counted = "A share was missed"
    if known is not None and num is not None:
        counted = f"{count(num)} of {count(known)} known secrets were missed"
        if (unmasked := rates.get("num_unmasked_spans")) is not None:
            counted = (
                f"Known secrets left open: {count(unmasked)} of {count(known)}. Masked, but in a way that changes "
                f"other masks: {count(num - unmasked)} of {count(known)}. Both count as missed"
            )
    sure = gamma.get("confidence")
    bound = (
        ""
        if sure in (None, 1, 1.0)
        else f", at most {percent(gamma.get('upper'), upper=True)} at {percent(sure)} confidence"
    )
    return (
        f"{counted}: γ = {percent(gamma['value'], upper=True)}{bound}. Who said what is a secret: "
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
        said = "none" if (claimed := audit.get("epsilon_claimed")) is None else upper_bound(claimed)
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
        names: dict[str, list[str]] = {}
        for group in exposure["groups"]:
            names.setdefault(group["conclusion"], []).append(group["name"])
        found += [f"Canaries ({'; '.join(same)}): {conclusion}." for conclusion, same in names.items()]
    if extraction := audit.get("extraction"):
        number = extraction["num_found_only_by_model"]
        found.append(
            f"This model wrote {count(number)} secret{'' if number == 1 else 's'} that the reference model, which was "
            "trained without their rows, did not write."
        )
    return [*found, "A failed attack is not a proof of safety."]
