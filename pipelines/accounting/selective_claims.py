"""Claims of methods that read redacted text without noise, or with light noise: JFT, S-DPSGD, redaction schedules.

Selective DP replaces one record by another that differs in tokens that F calls sensitive: its relation is
replace_one. Everything that ran without noise must have read the same text in both worlds. So redact(D) must equal
redact(D') for F-neighbours: every claim names F, and the redactor must be known to be stable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from pipelines.accounting.accountants import epsilon
from pipelines.accounting.assumptions import about_caught, one_sentence
from pipelines.accounting.claim_builder import WITHHELD, Builder, Claim, ClaimBuilder
from pipelines.accounting.confidentiality import AmplifiedLoss, jft_light_noise
from pipelines.accounting.events import NeighboringRelation, is_silent
from pipelines.accounting.replaced_text import UNLIKE
from pipelines.files import finite
from pipelines.methods.rule import THEOREM_SELECTIVE, ClaimName
from pipelines.miss_rate.rates import MissRate

_UNSTABLE = (
    "no review can mend this: selective DP needs a redactor that reads the same in both worlds, redact(D) = "
    "redact(D') for F-neighbours, since the text outside the masks is trained on without noise. That is known of the "
    "policy 'digits' only, with redact.collapse = true; other policies may mask other tokens when a secret is replaced"
)
_RECALL = (
    "F is the true secrets, so the redactor must mask every one of them (JFT, Theorem 1, condition 1), and what it "
    "missed was trained on without noise. No sample can mend this: recall 1 is recorded only by labels of every "
    "training sentence without a miss"
)


def _unnoised(b: ClaimBuilder) -> bool:
    """Returns true if text of private records was read without noise: masked text, or spans that are called public."""
    return b.rule.is_unnoised or any(phase.is_unnoised for phase in b.training.phases)


def _issue_if_stable(b: ClaimBuilder, claim: Claim) -> Claim:
    if b.corpus.redactor_is_stable and b.corpus.masks_are_alike and not b.training.typed_masks:
        return b.issue(claim, *_of_noised_original(b))
    if b.corpus.replacement != "mask":
        return replace(claim, refused=UNLIKE)
    return replace(claim, refused=_UNSTABLE)


def selective(b: ClaimBuilder) -> Claim:
    """Makes the claim of (F, epsilon, delta)-selective DP with F the true secrets."""
    unnoised = _unnoised(b)
    is_screened = any(phase.rows == "reviewed" for phase in b.training.phases)
    claim = b.claim(
        "selective_dp",
        f"{b.tells} the secrets of one record were replaced by others. F is the "
        "true secrets" + (", as labels mark them." if unnoised else ", whatever they are."),
        _theorem(b) if unnoised else f"{_theorem(b)} (DP implies selective DP for every F)",
        extra=(
            *(_about_unnoised(b) if unnoised else ()),
            "F says where secrets stand, and these places are the same in both worlds",
        ),
        **_neighbours(b, unnoised),
        as_in_paper=_add_or_remove(b),
    )
    if not unnoised:
        refusal = b.worst_case_refusal()
        if refusal is not None:
            return replace(claim, refused=refusal)
        return b.issue(claim, b.sentence_loss.epsilon, b.sentence_loss.delta)
    if b.review.is_withheld and not is_screened:
        return replace(claim, refused=WITHHELD)
    review = b.review
    gamma = review.false_negative_rate if review.is_usable and review.is_census else None
    if not is_screened and not (gamma is not None and gamma.upper == 0):
        return replace(claim, refused=_RECALL)
    return _issue_if_stable(b, claim)


def selective_of_the_policy(b: ClaimBuilder) -> Claim:
    """Makes the claim of (F, epsilon, delta)-selective DP with F the redaction policy itself."""
    claim = b.claim(
        "selective_dp_of_the_policy",
        "The promise of selective DP, with the redaction policy for F. It protects the tokens that the policy masks, "
        "and nothing that the policy misses.",
        _theorem(b),
        extra=(*_about_unnoised(b), "neighbours differ only in tokens that the policy masks in both worlds"),
        **_neighbours(b, unnoised=True),
        as_in_paper=_add_or_remove(b),
    )
    return _issue_if_stable(b, claim)


def masked(b: ClaimBuilder) -> Claim:
    """Makes the claim about a secret that the policy masks stably, so that redacted text is the same in both worlds."""
    claim = b.claim(
        "confidentiality_of_masked_secrets",
        f"{b.tells} a secret whose redaction is stable, or a mask in its place, "
        "was trained on. Redaction is stable if the policy masks the secret, and masking it by hand leaves all else as "
        f"it was ({b.unstable}). Nothing is promised for other secrets, masked or not.",
        "CRT, Proposition 5, for what read redacted text; differential privacy for what read the original",
        extra=(one_sentence(b.training), *about_caught(b.corpus, b.unstable)),
    )
    if (no_credit := b.no_credit) is not None:
        return replace(claim, refused=no_credit)
    if b.training.typed_masks:
        return replace(
            claim,
            refused="masks showed, in training, the kind of their secret: with another mask in place of a secret, "
            "other text is read without noise; set train.typed_masks = []",
        )
    if (elsewhere := b.elsewhere_refusal()) is not None:
        return replace(claim, refused=elsewhere)
    return b.issue(claim, *_of_noised_original(b))


def light_noise(b: ClaimBuilder) -> Claim:
    """Makes JFT's own estimate for light noise, with every rate p of phase 1 replaced by p m. Never a guarantee.

    Its figure is that of the upper end of the interval of m. As the paper does, it also states those of both ends.
    """
    claim = b.claim(
        "light_noise_estimate",
        "JFT's estimate of selective DP under light noise. The sound statements are Bayesian "
        "confidentiality, with gamma, and differential privacy, without any credit.",
        "JFT, section 3.1 (an empirical estimate, as the paper says)",
        extra=(
            "the estimate takes the missed tokens for a subsample that is drawn anew at every step. In fact they are "
            "drawn once, and a record holds many tokens, so this figure may be far too low",
        ),
        not_guaranteed_because=("it is an estimate: missed tokens are no subsample",),
    )
    miss_rate, event = b.training.light_noise_miss_rate, b.training.event_on("redacted", "reviewed")
    if miss_rate is None:
        return replace(claim, refused="the miss rate m that the noise was chosen with is not recorded")
    if b.corpus.replacement != "mask":
        return replace(claim, refused=UNLIKE)
    if _unnoised(b):
        return replace(claim, refused="phase 1 ran without noise, so there is no light noise to account for")

    def estimate(m: MissRate) -> AmplifiedLoss:
        delta, on_original = b.training.target_delta, b.training.event_on("original")
        return jft_light_noise(event, delta, m, NeighboringRelation.REPLACE_ONE, on_original)

    found = estimate(miss_rate)
    if (lower := miss_rate.lower) is not None:
        at_lower = estimate(replace(miss_rate, value=lower, upper=lower))
        both = {
            "status": "estimates, no guarantee",
            "m_lower": lower,
            "m_upper": miss_rate.upper,
            "epsilon_at_m_lower": finite(at_lower.epsilon),
            "epsilon_at_m_upper": finite(found.epsilon),
        }
        claim = replace(claim, as_in_paper=both)
    return b.issue(claim, found.epsilon, found.delta)


def _of_noised_original(b: ClaimBuilder) -> tuple[float, float]:
    """Returns the loss of the phases on original text. Phases on redacted text cost nothing if they read the same."""
    return b.on_original.epsilon, b.on_original.delta


def _theorem(b: ClaimBuilder) -> str:
    theorem = b.rule.theorem
    return f"{theorem}, with the replace-one relation" if theorem == THEOREM_SELECTIVE else theorem


def _neighbours(b: ClaimBuilder, unnoised: bool) -> dict[str, str]:
    # A replaced token changes which sentences are copies, and a mask for a copy would be read without noise.
    return {"corpus": "deduplicated"} if unnoised and b.corpus.reads_redacted else {}


def _about_unnoised(b: ClaimBuilder) -> tuple[str, ...]:
    if b.rule.reads_spans:
        return (
            "the positions of private spans are public, and the same in both worlds",
            "public spans are trained on without noise and hold no secret",
        )
    return (
        "the redacted text is trained on without noise. It is the same for neighbours: redact(D) = redact(D'), which "
        "is known of the policies in use",
        "the policy masks every value that a secret may be replaced by",
    )


def _add_or_remove(b: ClaimBuilder) -> dict[str, float | str | None]:
    event = b.training.event_on("original") if _unnoised(b) else b.training.event
    if is_silent(event):
        return {}
    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    found = finite(epsilon(event, b.training.target_delta, relation))
    return {"relation": relation.value, "epsilon": found, "delta": b.training.target_delta}


BUILDERS: Final[Mapping[ClaimName, Builder]] = {
    "masked": lambda b, _: [masked(b)],
    "selective": lambda b, _: [selective(b)],
    "selective_policy": lambda b, _: [selective_of_the_policy(b)],
    "light_noise": lambda b, _: [light_noise(b)],
}
"""Builders by the claim names in rules of methods (`pipelines.methods.rule`)."""
