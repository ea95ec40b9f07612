"""The claims of a run: notion, epsilon, delta, theorem, and everything that they rest on.

A claim is issued with its numbers, or refused with its reason; it is never silently weakened. Two things are kept
apart: a *refused* claim has no numbers, and a claim with ``is_guarantee`` false has numbers that promise nothing (a
test run with a known seed, say).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from pipelines.accounting.accountants import all_epsilons, epsilon
from pipelines.accounting.assumptions import (
    ONE_SENTENCE,
    about_caught,
    about_mu,
    about_public_set,
    about_review,
)
from pipelines.accounting.basis import LARGE_DELTA, Claim, ClaimBuilder, Review, finite
from pipelines.accounting.confidentiality import (
    AmplifiedLoss,
    PrivacyLoss,
    bayesian_confidentiality,
    bayesian_with_original,
    group_confidentiality,
    group_loss,
    num_missed_of_group,
)
from pipelines.accounting.events import Event, NeighboringRelation, is_silent
from pipelines.accounting.methods import ClaimName, rule_of
from pipelines.accounting.run_facts import CorpusFacts, TrainingFacts
from pipelines.accounting.selective import light_noise, masked, selective, selective_of_the_policy
from pipelines.miss_rate.rates import Delta2, FalseNegativeRate

__all__ = ["Claim", "Review", "build_claims"]

_NO_CREDIT = (
    "redact.collapse is false: the number of masks shows how many tokens a secret has, so redaction gives no credit; "
    "set redact.collapse = true"
)
_SPLIT_CREDIT = (
    "gamma is applied once, to the total loss of the phases on redacted text at their own sampling rate; phases on the "
    "original text are added without credit, and there every copy of a sentence counts"
)
_ORIGINAL_IS_READ = "training reads the original text, duplicates included, so a secret in k sentences is a group of k."
_HEADLINES = (
    "confidentiality",
    "selective_dp",
    "bayesian_confidentiality",
    "confidentiality_of_caught_secrets",
    "confidentiality_of_masked_secrets",
    "selective_dp_of_the_policy",
    "dp_private_set",
)


def build_claims(training: TrainingFacts, corpus: CorpusFacts, review: Review, groups: Sequence[int]) -> dict[str, Any]:
    """All claims of a run, with the accountants' figures and warnings.

    Args:
        training: what training did.
        corpus: what the stages before it were told to do.
        review: what is known of misses.
        groups: sizes of groups of unique secrets to state group confidentiality for.

    Returns:
        JSON values: ``claims``, ``headline`` (index of the claim to show first, None when none is issued),
        ``accountants``, ``warnings``.
    """
    relations = (NeighboringRelation.REPLACE_ONE, NeighboringRelation.ADD_OR_REMOVE_ONE)
    figures = [f for relation in relations for f in all_epsilons(training.event, training.target_delta, relation)]
    pld = {f.relation: f.epsilon if f.epsilon is not None else math.inf for f in figures if f.accountant == "pld"}
    if training.reads_original:
        corpus = replace(
            corpus,
            dedup_stability=1,
            dedup_reason=_ORIGINAL_IS_READ,
            dedup_min_tokens=0,
            has_conservative=False,
            reads_redacted=False,
        )
    rule = rule_of(training.method, training.variant)
    if not rule.has_public_set:
        corpus = replace(corpus, has_conservative=False)
    on_original = _loss(training, training.event_on("original"))
    is_one_part = is_silent(training.event_on("original"))
    builder = ClaimBuilder(
        training,
        corpus,
        review,
        _loss(training, training.event, pld[NeighboringRelation.REPLACE_ONE]),
        _loss(training, training.event, pld[NeighboringRelation.ADD_OR_REMOVE_ONE]),
        on_redacted=_loss(
            training,
            training.event_on("redacted", "reviewed"),
            pld[NeighboringRelation.REPLACE_ONE] if is_one_part else None,
        ),
        on_original=on_original,
    )
    claims = [claim for name in rule.claims for claim in _BUILDERS[name](builder, groups)]
    unmet = [reason for name, reason in rule.requires.items() if name not in training.met]
    if unmet:
        claims = [claim if claim.notion == "dp_private_set" else _refused(claim, "; ".join(unmet)) for claim in claims]
    # A claim whose delta means nothing is never shown first; one that is void for another reason only when all are.
    shown = [(i, c) for i, c in enumerate(claims) if c.refused is None and LARGE_DELTA not in c.not_guaranteed_because]
    shown = [(i, c) for i, c in shown if c.is_guarantee] or shown
    issued = {c.notion: i for i, c in reversed(shown)}
    return {
        "claims": [_as_json(claim) for claim in claims],
        "headline": next((issued[notion] for notion in _HEADLINES if notion in issued), None),
        "accountants": [{**asdict(f), "epsilon": finite(f.epsilon), "delta": training.target_delta} for f in figures],
        "warnings": [*_warnings(training), *_warnings_about(claims)],
    }


def _dp_private_set(b: ClaimBuilder) -> Claim:
    claim = b.claim(
        "dp_private_set",
        "Whoever sees the model can hardly tell whether one record of the private set was replaced by another.",
        "Differential privacy of Poisson-sampled DP-SGD, accounted with privacy loss distributions",
        extra=(
            "the neighbours are private sets after deduplication and redaction, of equal size; the public set is the "
            "same in both",
        ),
        as_in_paper={
            "relation": NeighboringRelation.ADD_OR_REMOVE_ONE.value,
            "epsilon": finite(b.add_or_remove.epsilon),
            "delta": b.add_or_remove.delta,
        },
    )
    if rule_of(b.training.method, b.training.variant).is_unnoised:
        return replace(
            claim,
            as_in_paper={},
            refused="training adds no noise to a part of what it reads of private records (masked text, or spans that "
            "are called public), so epsilon is infinite; see the other claims",
        )
    return b.issue(claim, b.loss.epsilon, b.loss.delta)


def _confidentiality(b: ClaimBuilder) -> Claim:
    escape = b.delta2()
    measured = b.uses_delta2 and escape is not None
    claim = b.claim(
        "confidentiality",
        f"Whoever sees the model can hardly tell whether a {'labelled ' if b.uses_delta2 else ''}secret, or a mask in "
        "its place, was trained on. Epsilon is "
        + (
            "for a secret that the policy misses; for one that it masks it is 0."
            if b.corpus.gives_credit
            else "for any."
        ),
        "CRT, Theorem 8.1",
        extra=(
            ONE_SENTENCE,
            *about_caught(b.corpus),
            *about_public_set(b.corpus, escape),
            *(about_review(b.review.is_census) if measured else ()),
        ),
        mu=escape.mu if measured and escape else None,
        confidence=escape.confidence if measured and escape else None,
        as_in_paper={"epsilon": finite(b.add_or_remove.epsilon), "delta": b.add_or_remove.delta},
    )
    refusal = b.worst_case_refusal()
    if refusal is not None:
        return replace(claim, refused=refusal)
    return b.issue(claim, b.sentence_loss.epsilon, b.sentence_loss.delta)


def _caught(b: ClaimBuilder) -> Claim:
    condition = (
        "holds for a secret that the policy masks or whose sentence is private, because another "
        "mask stands in it or the conservative policy flags it; not for one in a public sentence. Which secrets these "
        "are is known only as far as labels mark every secret"
        if b.corpus.has_conservative
        else "holds for every secret, because without a conservative policy every sentence is private"
    )
    claim = b.claim(
        "confidentiality_of_caught_secrets",
        "As confidentiality, for a secret that the policy masks or whose sentence is private.",
        "CRT, Proposition 5",
        extra=(condition, ONE_SENTENCE, *about_caught(b.corpus)),
        as_in_paper={"epsilon": finite(b.add_or_remove.epsilon), "delta": b.add_or_remove.delta},
    )
    return b.issue(claim, b.sentence_loss.epsilon, b.sentence_loss.delta)


def _group(b: ClaimBuilder, size: int) -> list[Claim]:
    """The guarantee for any group of this size, and beside it the figure for one with the average share of misses."""
    misses_nothing = b.misses_nothing()
    num_missed = 0 if misses_nothing else size
    share = (
        (
            "every training sentence was reviewed and the policy masks every labelled secret, so no group of labelled "
            "secrets has a missed one, and epsilon is 0 for it",
            "no two sentences of the group become equal once their secrets are masked by hand: deduplication would "
            "then mask one of them whole",
        )
        if misses_nothing
        else (
            "every secret of the group counts as missed: the share of misses in the corpus says nothing of one "
            "particular group",
        )
    )
    claim = _group_claim(b, "group_confidentiality", size, num_missed, share)
    gamma = b.gamma()
    num_average = num_missed_of_group(size, gamma)
    if misses_nothing or gamma is None or num_average == size:
        return [claim]
    average = (
        f"the policy misses at most {num_average} of the {size} secrets: the bound {gamma.upper:.3g} on the missed "
        "share of the corpus, rounded up to whole secrets"
    )
    beside = _group_claim(b, "group_confidentiality_at_average_rate", size, num_average, (average,))
    return [claim, beside]


def _group_claim(b: ClaimBuilder, notion: str, size: int, num_missed: int, share: Sequence[str]) -> Claim:
    escape, gamma = b.delta2(), b.gamma()
    is_average = notion == "group_confidentiality_at_average_rate"
    rates = [r for r, is_used in ((gamma, num_missed < size), (escape, b.uses_delta2)) if is_used and r is not None]
    confidence = 1.0
    for rate in rates:
        confidence = _joint(confidence, rate.confidence)
    claim = b.claim(
        notion,
        f"As confidentiality, for {size} unique secrets together"
        + (", if the policy misses no larger share of them than of all secrets." if is_average else "."),
        "CRT, Theorem 8.2, with the missed share (Proposition 5) in the place of the detected one",
        extra=(
            *share,
            "each secret stands in one kept sentence",
            *(about_caught(b.corpus) if num_missed < size else ()),  # else no secret counts as caught
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
        as_in_paper=_json_loss(group_confidentiality(b.add_or_remove, num_missed)),
    )
    refusal = b.worst_case_refusal()
    if refusal is not None:
        return replace(claim, refused=refusal, not_guaranteed_because=())
    loss = group_confidentiality(b.loss, num_missed * b.records_per_sentence)
    issued = b.issue(claim, loss.epsilon, loss.delta)
    return issued if issued.refused is None else replace(issued, not_guaranteed_because=())


def _bayesian(b: ClaimBuilder) -> Claim:
    gamma, worst = b.gamma(), b.review.worst_label
    worst_gamma = worst[0] if worst is not None and gamma is not None else None
    escape: Delta2 | None = None
    if worst_gamma is not None and worst is not None:
        escape = worst[1] if b.uses_delta2 else Delta2.zero(worst_gamma.mu)
    confidence = None if worst_gamma is None or escape is None else _joint(worst_gamma.confidence, escape.confidence)
    claim = b.claim(
        "bayesian_confidentiality",
        "Whoever sees the model, and knows of a secret only its kind and that it is drawn from mu, but not in which "
        "sentence it stands, can hardly tell whether it, or a mask in its place, was trained on.",
        "CRT, Theorem 8.3 (Proposition 6), with the rates of the worst label",
        extra=(
            *about_mu(),
            ONE_SENTENCE,
            *about_caught(b.corpus),
            *about_review(b.review.is_census),
            *about_public_set(b.corpus, escape),
        ),
        mu=worst_gamma.mu if worst_gamma else None,
        confidence=confidence,
    )
    if not b.review.is_trusted and b.review.source != "not_measured":
        return replace(
            claim, refused=f"the misses were told by {b.review.source}, a proxy; no guarantee rests on a proxy"
        )
    if not b.corpus.gives_credit:
        return replace(claim, refused=_NO_CREDIT)
    part = b.review.part_refusal()
    if part is not None:
        return replace(claim, refused=part)
    if gamma is None or worst_gamma is None or escape is None:
        return replace(claim, refused="gamma was not measured: no secret was reviewed, by people or by gold labels")
    refusal = b.escape_refusal(escape)
    if refusal is not None:
        return replace(claim, refused=refusal)
    on_redacted = group_loss(b.on_redacted, b.records_per_sentence)
    amplified = bayesian_with_original(on_redacted, worst_gamma, escape, b.on_original)
    if training_reads_original := not is_silent(b.training.event_on("original")):
        claim = replace(claim, assumptions=(_SPLIT_CREDIT, *claim.assumptions))
    point = FalseNegativeRate(value=gamma.value, upper=gamma.value, confidence=gamma.confidence, mu=gamma.mu)
    paper = bayesian_confidentiality(b.add_or_remove, point, Delta2.zero(gamma.mu))
    if not training_reads_original:
        claim = replace(
            claim,
            as_in_paper=_json_loss(paper) | {"gamma": gamma.value, "mu": f"averaged over all labels: {gamma.mu}"},
        )
    return b.issue(claim, amplified.epsilon, amplified.delta)


_BUILDERS: Final[Mapping[ClaimName, Callable[[ClaimBuilder, Sequence[int]], list[Claim]]]] = {
    "dp": lambda b, _: [_dp_private_set(b)],
    "confidentiality": lambda b, _: [_confidentiality(b)],
    "caught": lambda b, _: [_caught(b)],
    "masked": lambda b, _: [masked(b)],
    "group": lambda b, groups: [claim for size in groups for claim in _group(b, size)],
    "bayesian": lambda b, _: [_bayesian(b)],
    "selective": lambda b, _: [selective(b)],
    "selective_policy": lambda b, _: [selective_of_the_policy(b)],
    "light_noise": lambda b, _: [light_noise(b)],
}


def _loss(training: TrainingFacts, event: Event, known: float | None = None) -> PrivacyLoss:
    """The loss of an event under replace_one, or ``known``, at the target delta; (0, 0) where nothing ran."""
    if is_silent(event):
        return PrivacyLoss(0.0, 0.0)
    return PrivacyLoss(epsilon(event, training.target_delta) if known is None else known, training.target_delta)


def _refused(claim: Claim, reason: str) -> Claim:
    return replace(claim, epsilon=None, delta=None, is_guarantee=False, not_guaranteed_because=(), refused=reason)


def _joint(first: float, second: float) -> float:
    """Both bounds hold at once with at least this probability (Bonferroni)."""
    return max(0.0, 1.0 - (1.0 - first) - (1.0 - second))


def _warnings(training: TrainingFacts) -> list[str]:
    num = training.num_private_records
    if num and training.target_delta >= 1 / num:
        return [
            f"target_delta {training.target_delta:g} is not below 1 / {num}, one over the number of private records: "
            "a run that publishes one private record whole would satisfy it. Lower train.target_delta."
        ]
    return []


def _warnings_about(claims: Sequence[Claim]) -> list[str]:
    return [
        f"the claim {claim.notion.replace('_', ' ')} ({_counted(claim.group_size)}) has delta {claim.delta:.3g} and is "
        f"no guarantee: {LARGE_DELTA}"
        for claim in claims
        if claim.refused is None and LARGE_DELTA in claim.not_guaranteed_because
    ]


def _counted(group_size: int) -> str:
    return "one secret" if group_size == 1 else f"{group_size} secrets"


def _json_loss(loss: AmplifiedLoss) -> dict[str, Any]:
    delta = loss.delta if math.isfinite(loss.delta) else None
    return {"epsilon": finite(loss.epsilon), "delta": delta}


def _as_json(claim: Claim) -> dict[str, Any]:
    values = asdict(claim)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
