"""Claims that rest on noise: differential privacy and confidentiality.

Confidentiality is stated for one secret, for caught secrets, for a group, and for a random secret (CRT, Theorem 8; for
groups with the missed share instead of the detected one).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from pipelines.accounting.assumptions import (
    IN_EVERY_RELEASE,
    OF_WORST_LABEL,
    OTHERS_ROWS,
    TOGETHER,
    about_caught,
    about_mu,
    about_public_set,
    about_review,
    epsilon_is,
    one_sentence,
)
from pipelines.accounting.claim_builder import NOT_MEASURED, WITHHELD, Builder, Claim, ClaimBuilder, joint
from pipelines.accounting.confidentiality import (
    bayesian_confidentiality,
    bayesian_with_original,
    group_confidentiality,
    num_missed_of_group,
)
from pipelines.accounting.events import NeighboringRelation
from pipelines.methods.rule import ClaimName
from pipelines.miss_rate.rates import Delta2, FalseNegativeRate
from pipelines.numbers import percent

_SPLIT_CREDIT = (
    "gamma is applied once, to the total loss of the phases on redacted text at their own sampling rate. The loss of "
    "the phases on original text is added without credit, and every copy of a sentence counts there"
)


def dp_private_set(b: ClaimBuilder) -> Claim:
    """Makes the claim of differential privacy of the private set, with its own neighbours."""
    is_foreign = b.corpus.foreign_public_rows
    claim = b.claim(
        "dp_private_set",
        f"{b.tells} one record of the private set"
        f"{f', {IN_EVERY_RELEASE},' if is_foreign else ''} was replaced by another.",
        "Differential privacy of Poisson-sampled DP-SGD, accounted with privacy loss distributions",
        extra=(b.neighbours_of_dp, *([OTHERS_ROWS] if is_foreign else [])),
        as_in_paper={"relation": NeighboringRelation.ADD_OR_REMOVE_ONE.value, **b.add_or_remove.as_json()},
    )
    if b.rule.is_unnoised:
        return replace(
            claim,
            as_in_paper={},
            refused="no work can mend this for the method: training adds no noise to a part of what it reads of "
            "private records (masked text, or spans that are called public), so epsilon is infinite; see the other "
            "claims",
        )
    return b.issue(claim, b.loss.epsilon, b.loss.delta)


def confidentiality(b: ClaimBuilder) -> Claim:
    """Makes the claim about any single secret: CRT, Theorem 8.1."""
    escape = b.delta2()
    measured = b.uses_delta2 and escape is not None
    claim = b.claim(
        "confidentiality",
        f"{b.tells} a {'labelled ' if b.uses_delta2 else ''}secret, or a mask in "
        "its place, was trained on. "
        + (
            epsilon_is(b.unstable, b.training.reads_any_original)
            if b.corpus.gives_credit
            else "The stated epsilon is for every secret, masked or not."
        ),
        "CRT, Theorem 8.1",
        extra=(
            one_sentence(b.training),
            *about_caught(b.corpus, b.unstable),
            *about_public_set(b.corpus, escape),
            *(about_review(b.review.is_census) if measured else ()),
        ),
        mu=escape.mu if measured and escape else None,
        confidence=escape.confidence if measured and escape else None,
        as_in_paper=b.add_or_remove.as_json(),
    )
    refusal = b.worst_case_refusal()
    if refusal is not None:
        return replace(claim, refused=refusal)
    return b.issue(claim, b.sentence_loss.epsilon, b.sentence_loss.delta)


def caught(b: ClaimBuilder) -> Claim:
    """Makes the claim about secrets that are masked or in a private sentence: CRT, Proposition 5."""
    condition = (
        "the claim holds for a secret that the policy masks or whose sentence is private, because another mask stands "
        "in it or the conservative policy flags it. It does not hold for a secret in a public sentence. Which secrets "
        "these are is known only as far as labels mark every secret"
        if b.uses_delta2
        else "the claim holds for every secret, because every sentence is private"
    )
    claim = b.claim(
        "confidentiality_of_caught_secrets",
        f"{b.tells} a secret that redaction caught, or a mask in its place, was "
        "trained on. A secret is caught if the policy masks it, or if it stands in a private sentence. "
        + (
            "Nothing is claimed for a secret in a public sentence."
            if b.uses_delta2
            else "Here every sentence is private."
        ),
        "CRT, Proposition 5",
        extra=(condition, one_sentence(b.training), *about_caught(b.corpus, b.unstable)),
        as_in_paper=b.add_or_remove.as_json(),
    )
    if (elsewhere := b.elsewhere_refusal()) is not None:
        return replace(claim, refused=elsewhere)
    return b.issue(claim, b.sentence_loss.epsilon, b.sentence_loss.delta)


def bayesian(b: ClaimBuilder) -> Claim:
    """Makes the claim about a secret drawn from mu: CRT, Theorem 8.3."""
    gamma, worst = b.gamma(), b.review.worst_label
    worst_gamma = worst[0] if worst is not None and gamma is not None else None
    escape: Delta2 | None = None
    if worst_gamma is not None and worst is not None:
        escape = worst[1] if b.uses_delta2 else Delta2.zero(worst_gamma.mu)
    confidence = None if worst_gamma is None or escape is None else joint(worst_gamma.confidence, escape.confidence)
    claim = b.claim(
        "bayesian_confidentiality",
        f"{b.tells} a secret, or a mask in its place, was trained on. This holds for an attacker who knows of the "
        "secret only its kind and that it is drawn from mu, but not in which sentence it stands.",
        "CRT, Theorem 8.3 (Proposition 6), with the rates of the worst label",
        extra=(
            *about_mu(),
            one_sentence(b.training),
            *about_caught(b.corpus, b.unstable),
            *about_review(b.review.is_census),
            *about_public_set(b.corpus, escape, OF_WORST_LABEL),
        ),
        mu=worst_gamma.mu if worst_gamma else None,
        confidence=confidence,
    )
    if not b.review.is_trusted and b.review.source != NOT_MEASURED:
        return replace(
            claim, refused=f"the misses were judged by {b.review.source}, a proxy; no guarantee rests on a proxy"
        )
    if (no_credit := b.no_credit) is not None:
        return replace(claim, refused=no_credit)
    part = b.review.part_refusal()
    if part is not None:
        return replace(claim, refused=part)
    if b.review.is_withheld:
        return replace(claim, refused=WITHHELD)
    if gamma is None or worst_gamma is None or escape is None:
        return replace(claim, refused="gamma was not measured: no secret was reviewed, by people or by gold labels")
    refusal = b.escape_refusal(escape, OF_WORST_LABEL)
    if refusal is not None:
        return replace(claim, refused=refusal)
    event = b.training.event_on("redacted", "reviewed") if b.training.reads_any_original else b.training.event
    on_redacted = b.group_loss(event, b.records_per_sentence)
    amplified = bayesian_with_original(on_redacted, worst_gamma, escape, b.on_original)
    if b.training.reads_any_original:
        claim = replace(claim, assumptions=(_SPLIT_CREDIT, *claim.assumptions))
    else:
        point = FalseNegativeRate(value=gamma.value, upper=gamma.value, confidence=gamma.confidence, mu=gamma.mu)
        paper = bayesian_confidentiality(b.add_or_remove, point, Delta2.zero(gamma.mu))
        claim = replace(
            claim, as_in_paper=paper.as_json() | {"gamma": gamma.value, "mu": f"averaged over all labels: {gamma.mu}"}
        )
    return b.issue(claim, amplified.epsilon, amplified.delta)


def group(b: ClaimBuilder, size: int) -> list[Claim]:
    """Makes the claim about any group of this size, and the figure for a group with the average share of misses."""
    misses_nothing = b.misses_nothing()
    num_missed = 0 if misses_nothing else size
    share = (
        (
            "every training sentence was reviewed, and the policy masks every labelled secret. So no group of labelled "
            f"secrets has a missed one, and epsilon is 0 for each group. {TOGETHER}",
            "no two sentences of the group become equal once their secrets are masked by hand. Otherwise deduplication "
            "would mask one of them whole",
        )
        if misses_nothing
        else (
            "every secret of the group counts as missed, because the share of misses in the corpus says nothing about "
            "one particular group",
        )
    )
    claim = _group_claim(b, "group_confidentiality", size, num_missed, share)
    gamma = None if b.training.reads_any_original else b.gamma()
    num_average = num_missed_of_group(size, gamma)
    if misses_nothing or gamma is None or num_average == size:
        return [claim]
    average = (
        f"the policy misses at most {num_average} of the {size} secrets: the bound "
        f"{percent(gamma.upper, upper=True)} on the missed share of the corpus, rounded up to whole secrets"
    )
    at_average = _group_claim(b, "group_confidentiality_at_average_rate", size, num_average, (average,))
    return [claim, at_average]


def _group_claim(b: ClaimBuilder, notion: str, size: int, num_missed: int, share: Sequence[str]) -> Claim:
    escape, gamma = b.delta2(), b.gamma()
    is_average = notion == "group_confidentiality_at_average_rate"
    rates = [r for r, is_used in ((gamma, num_missed < size), (escape, b.uses_delta2)) if is_used and r is not None]
    confidence = 1.0
    for rate in rates:
        confidence = joint(confidence, rate.confidence)
    claim = b.claim(
        notion,
        f"The promise of confidentiality, for {size} unique secrets together"
        + (", if the policy misses no larger share of them than of all secrets." if is_average else "."),
        "CRT, Theorem 8.2, with the missed share (Proposition 5) for the detected one (docs/concepts.md)",
        extra=(
            *share,
            one_sentence(b.training, "each secret"),
            *(about_caught(b.corpus, b.unstable) if num_missed < size else ()),  # else no secret counts as caught
            *about_public_set(b.corpus, escape),
            *(about_review(b.review.is_census) if rates else ()),
        ),
        group_size=size,
        num_missed=num_missed,
        mu=rates[0].mu if rates else None,
        confidence=confidence if rates else None,
        not_guaranteed_because=(
            "the theorem is about the missed share of the group itself, and a particular group may have a larger one "
            "than the corpus has on average",
        )
        if is_average
        else (),
        as_in_paper=group_confidentiality(b.add_or_remove, num_missed).as_json(),
    )
    refusal = b.worst_case_refusal()
    if refusal is not None:
        return replace(claim, refused=refusal, not_guaranteed_because=())
    loss = b.group_loss(b.training.event, num_missed * b.records_per_sentence)
    issued = b.issue(claim, loss.epsilon, loss.delta)
    return issued if issued.refused is None else replace(issued, not_guaranteed_because=())


BUILDERS: Final[Mapping[ClaimName, Builder]] = {
    "dp": lambda b, _: [dp_private_set(b)],
    "confidentiality": lambda b, _: [confidentiality(b)],
    "caught": lambda b, _: [caught(b)],
    "group": lambda b, sizes: [claim for size in sizes for claim in group(b, size)],
    "bayesian": lambda b, _: [bayesian(b)],
}
"""Builders by the claim names in rules of methods (`pipelines.methods.rule`)."""
