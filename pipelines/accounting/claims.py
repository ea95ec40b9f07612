"""The claims of a run: notion, epsilon, delta, theorem, and everything that they rest on.

A claim is issued with its numbers, or refused with its reason; it is never silently weakened. Two things are kept
apart: a *refused* claim has no numbers, and a claim with ``is_guarantee`` false has numbers that promise nothing (a
test run with a known seed, say).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pipelines.accounting.accountants import all_epsilons
from pipelines.accounting.assumptions import (
    about_caught,
    about_corpus,
    about_public_set,
    about_review,
    common,
    voids,
)
from pipelines.accounting.confidentiality import (
    AmplifiedLoss,
    PrivacyLoss,
    bayesian_confidentiality,
    group_confidentiality,
    group_loss,
    num_missed_of_group,
)
from pipelines.accounting.events import NeighboringRelation, is_silent
from pipelines.accounting.run_facts import CorpusFacts, TrainingFacts
from pipelines.miss_rate.rates import Delta2, FalseNegativeRate

_NO_CREDIT = (
    "redact.collapse is false: the number of masks shows how many tokens a secret has, so redaction gives no credit; "
    "set redact.collapse = true"
)
_HEADLINES = ("confidentiality", "bayesian_confidentiality", "confidentiality_of_caught_secrets", "dp_private_set")


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One statement about a run.

    Attributes:
        notion: what is promised: ``dp_private_set``, ``confidentiality``, ``confidentiality_of_caught_secrets``,
            ``group_confidentiality`` or ``bayesian_confidentiality``.
        statement: the promise in words.
        epsilon, delta: its numbers; None where it is refused.
        epsilon_unamplified: epsilon of the training itself, without credit for redaction.
        is_guarantee: whether the numbers are a promise, under the assumptions.
        not_guaranteed_because: why they are not.
        theorem: where it is proved.
        relation: the neighbouring relation.
        corpus: ``raw``, ``deduplicated``, or ``private_set``: on which data the neighbours are taken.
        unit: what one record is.
        group_size: secrets that are protected together; 1 for a single one.
        dedup_stability: training records that one sentence of the raw corpus can change.
        mu: the distribution over secrets that a Bayesian claim averages over.
        confidence: probability that the bounds from the review hold; None where no review enters.
        num_missed: secrets of the group that count as missed.
        assumptions: what the promise rests on.
        refused: why there is none.
        as_in_paper: figures as the papers state them, for comparison.
    """

    notion: str
    statement: str
    theorem: str
    unit: str
    corpus: str
    epsilon: float | None = None
    delta: float | None = None
    epsilon_unamplified: float | None = None
    is_guarantee: bool = False
    not_guaranteed_because: tuple[str, ...] = ()
    relation: str = NeighboringRelation.REPLACE_ONE.value
    group_size: int = 1
    dedup_stability: int | None = None
    mu: str | None = None
    confidence: float | None = None
    num_missed: int | None = None
    assumptions: tuple[str, ...] = ()
    refused: str | None = None
    as_in_paper: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Review:
    """What is known of the policies' misses.

    Attributes:
        source: who said what was missed.
        is_trusted: whether a person or gold labels did; nothing rests on a proxy.
        false_negative_rate: gamma, None where unknown.
        delta2: None where unknown.
        is_census: whether every training sentence was reviewed.
    """

    source: str
    is_trusted: bool
    false_negative_rate: FalseNegativeRate | None
    delta2: Delta2 | None
    is_census: bool = False


@dataclass(frozen=True)
class _Builder:
    training: TrainingFacts
    corpus: CorpusFacts
    review: Review
    loss: PrivacyLoss  # of one record, replace_one, no credit for anything
    add_or_remove: PrivacyLoss

    @property
    def on(self) -> str:
        return "deduplicated" if self.corpus.dedup_stability is None or self.training.record != "sentence" else "raw"

    @property
    def sentence_loss(self) -> PrivacyLoss:
        """The loss of one sentence of the corpus that the claims are about."""
        stability = self.corpus.dedup_stability if self.on == "raw" else 1
        return group_loss(self.loss, stability or 1)

    def claim(self, notion: str, statement: str, theorem: str, extra: Sequence[str] = (), **values: Any) -> Claim:
        is_dp = notion == "dp_private_set"
        rests_on = common(self.training)
        if not is_dp:
            rests_on += about_corpus(self.corpus, self.training, self.on)
        return Claim(
            notion=notion,
            statement=statement,
            theorem=theorem,
            unit=self.training.record,
            corpus="private_set" if is_dp else self.on,
            epsilon_unamplified=_finite(self.loss.epsilon),
            dedup_stability=None if is_dp else self.corpus.dedup_stability,
            assumptions=(*extra, *rests_on),
            **values,
        )

    def issue(self, claim: Claim, epsilon: float, delta: float) -> Claim:
        """The claim with its numbers, or refused where they say nothing."""
        if not math.isfinite(epsilon):
            return replace(claim, refused="training adds no noise to private records, so epsilon is infinite")
        if not delta < 1:
            return replace(
                claim,
                refused=f"vacuous: delta would be {delta:.3g}, and a delta of 1 or more promises nothing"
                if math.isfinite(delta)
                else "vacuous: delta would exceed 1 by far, and a delta of 1 or more promises nothing",
            )
        void = voids(self.training)
        return replace(claim, epsilon=epsilon, delta=delta, is_guarantee=not void, not_guaranteed_because=tuple(void))

    def delta2(self) -> Delta2 | None:
        """delta2 as claims may use it: 0 without a public set; None where unknown or told by a proxy."""
        if not self.corpus.has_conservative:
            mu = self.review.false_negative_rate.mu if self.review.false_negative_rate else ""
            return Delta2.zero(mu)
        return self.review.delta2 if self.review.is_trusted else None

    def gamma(self) -> FalseNegativeRate | None:
        """gamma as claims may use it; None where unknown, told by a proxy, or where masks show a secret's length."""
        return self.review.false_negative_rate if self.review.is_trusted and self.corpus.collapses else None

    def escape_refusal(self) -> str | None:
        """Why nothing can be said about secrets that the policy misses; None if it can."""
        escape = self.delta2()
        if escape is None:
            return (
                "delta2 was not measured, so missed secrets may stand in public sentences, which are trained on "
                "without noise; review a sample, or set no redact.conservative (then every sentence is private)"
            )
        if escape.upper > self.training.target_delta:
            return (
                f"delta2, the probability that a missed secret stands in a public sentence, is at most "
                f"{escape.upper:.3g} (estimate {escape.value:.3g}, confidence {escape.confidence:g}), above the target "
                f"delta {self.training.target_delta:g}; review more, take a stricter redact.conservative, or set none"
            )
        return None


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
    delta = 0.0 if is_silent(training.event) else training.target_delta
    pld = {f.relation: f.epsilon if f.epsilon is not None else math.inf for f in figures if f.accountant == "pld"}
    builder = _Builder(
        training,
        corpus,
        review,
        PrivacyLoss(pld[NeighboringRelation.REPLACE_ONE], delta),
        PrivacyLoss(pld[NeighboringRelation.ADD_OR_REMOVE_ONE], delta),
    )
    claims = [
        _dp_private_set(builder),
        _confidentiality(builder),
        _caught(builder),
        *(_group(builder, size) for size in groups),
        _bayesian(builder),
    ]
    if training.method != "crt":
        claims = [claims[0], *(_other_method(claim, training.method) for claim in claims[1:])]
    issued = {c.notion: i for i, c in reversed(list(enumerate(claims))) if c.refused is None}
    return {
        "claims": [_as_json(claim) for claim in claims],
        "headline": next((issued[notion] for notion in _HEADLINES if notion in issued), None),
        "accountants": [{**asdict(f), "epsilon": _finite(f.epsilon), "delta": training.target_delta} for f in figures],
        "warnings": _warnings(training),
    }


def _dp_private_set(b: _Builder) -> Claim:
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
            "epsilon": _finite(b.add_or_remove.epsilon),
            "delta": b.add_or_remove.delta,
        },
    )
    return b.issue(claim, b.loss.epsilon, b.loss.delta)


def _confidentiality(b: _Builder) -> Claim:
    escape = b.delta2()
    refusal = b.escape_refusal()
    loss = b.sentence_loss
    extra = [*about_caught(b.corpus), *about_public_set(b.corpus, escape)]
    measured = b.corpus.has_conservative and escape is not None
    claim = b.claim(
        "confidentiality",
        "Whoever sees the model can hardly tell whether a secret, or a mask in its place, was trained on. Epsilon is "
        + ("for a secret that the policy misses; for one that it masks it is 0." if b.corpus.collapses else "for any."),
        "CRT, Theorem 8.1",
        extra=extra,
        mu=escape.mu if measured and escape else None,
        confidence=escape.confidence if measured and escape else None,
        as_in_paper={"epsilon": _finite(b.add_or_remove.epsilon), "delta": b.add_or_remove.delta},
    )
    if refusal or escape is None:
        return replace(claim, refused=refusal)
    # The theorem supposes that the conservative policy catches every missed secret; what it lets pass is added.
    return b.issue(claim, loss.epsilon, loss.delta + escape.upper)


def _caught(b: _Builder) -> Claim:
    condition = (
        "holds for a secret that the policy masks or whose sentence is private, because another "
        "mask stands in it or the conservative policy flags it; not for one in a public sentence"
        if b.corpus.has_conservative
        else "holds for every secret, because without a conservative policy every sentence is private"
    )
    claim = b.claim(
        "confidentiality_of_caught_secrets",
        "As confidentiality, for a secret that the policy masks or whose sentence is private.",
        "CRT, Proposition 5",
        extra=(condition, *about_caught(b.corpus)),
        as_in_paper={"epsilon": _finite(b.add_or_remove.epsilon), "delta": b.add_or_remove.delta},
    )
    return b.issue(claim, b.sentence_loss.epsilon, b.sentence_loss.delta)


def _group(b: _Builder, size: int) -> Claim:
    gamma = b.gamma()
    num_missed = num_missed_of_group(size, gamma)
    share = (
        f"the policy misses at most {num_missed} of the {size} secrets: the bound {gamma.upper:.3g} on the missed "
        f"share, rounded up to whole secrets; a particular group may fare worse"
        if gamma is not None
        else f"no credit is given for redaction: all {size} secrets count as missed"
    )
    claim = b.claim(
        "group_confidentiality",
        f"As confidentiality, for {size} unique secrets together.",
        "CRT, Theorem 8.2, with the missed share (Proposition 5) in the place of the detected one",
        extra=(share, "each secret stands in one kept sentence", *about_caught(b.corpus)),
        group_size=size,
        num_missed=num_missed,
        as_in_paper=_json_loss(group_confidentiality(b.add_or_remove, num_missed)),
    )
    refusal = b.escape_refusal()
    escape = b.delta2()
    if refusal or escape is None:
        return replace(claim, refused=refusal)
    records = num_missed * (b.corpus.dedup_stability or 1 if b.on == "raw" else 1)
    group = group_confidentiality(b.loss, records)
    extra_delta = size * escape.upper  # any of the secrets may be the one that escapes
    return b.issue(claim, group.epsilon, group.delta + extra_delta)


def _bayesian(b: _Builder) -> Claim:
    gamma, escape = b.gamma(), b.delta2()
    confidence = None if gamma is None or escape is None else _joint(gamma.confidence, escape.confidence)
    claim = b.claim(
        "bayesian_confidentiality",
        "Whoever sees the model, and knows of a secret only that it is drawn from mu, can hardly tell whether it, or "
        "a mask in its place, was trained on.",
        "CRT, Theorem 8.3 (Proposition 6)",
        extra=(*about_caught(b.corpus), *about_review(b.review.is_census), *about_public_set(b.corpus, escape)),
        mu=gamma.mu if gamma else None,
        confidence=confidence,
    )
    if not b.review.is_trusted and b.review.source != "not_measured":
        return replace(
            claim, refused=f"the misses were told by {b.review.source}, a proxy; no guarantee rests on a proxy"
        )
    if not b.corpus.collapses:
        return replace(claim, refused=_NO_CREDIT)
    if gamma is None:
        return replace(claim, refused="gamma was not measured: no secret was reviewed, by people or by gold labels")
    if escape is None:
        return replace(claim, refused=b.escape_refusal())
    amplified = bayesian_confidentiality(b.sentence_loss, gamma, escape)
    point = FalseNegativeRate(value=gamma.value, upper=gamma.value, confidence=gamma.confidence, mu=gamma.mu)
    zero = Delta2.zero(gamma.mu)
    claim = replace(
        claim, as_in_paper=_json_loss(bayesian_confidentiality(b.add_or_remove, point, zero)) | {"gamma": gamma.value}
    )
    return b.issue(claim, amplified.epsilon, amplified.delta)


def _other_method(claim: Claim, method: str) -> Claim:
    reason = f"the theorem is about the method crt, not {method}"
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


def _json_loss(loss: AmplifiedLoss) -> dict[str, Any]:
    delta = loss.delta if math.isfinite(loss.delta) else None
    return {"epsilon": _finite(loss.epsilon), "delta": delta}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _as_json(claim: Claim) -> dict[str, Any]:
    values = asdict(claim)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
