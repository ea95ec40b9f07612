"""Claims for groups of secrets: CRT, Theorem 8.2, with the missed share in the place of the detected one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pipelines.accounting.assumptions import about_caught, about_public_set, about_review, one_sentence
from pipelines.accounting.basis import Claim, ClaimBuilder, joint, json_loss
from pipelines.accounting.confidentiality import group_confidentiality, num_missed_of_group
from pipelines.accounting.stable import TOGETHER


def group(b: ClaimBuilder, size: int) -> list[Claim]:
    """The guarantee for any group of this size, and beside it the figure for one with the average share of misses."""
    misses_nothing = b.misses_nothing()
    num_missed = 0 if misses_nothing else size
    share = (
        (
            "every training sentence was reviewed and the policy masks every labelled secret, so no group of labelled "
            f"secrets has a missed one, and epsilon is 0 for it; {TOGETHER}",
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
    gamma = None if b.training.reads_any_original else b.gamma()
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
        confidence = joint(confidence, rate.confidence)
    claim = b.claim(
        notion,
        f"As confidentiality, for {size} unique secrets together"
        + (", if the policy misses no larger share of them than of all secrets." if is_average else "."),
        "CRT, Theorem 8.2, with the missed share (Proposition 5) in the place of the detected one",
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
        as_in_paper=json_loss(group_confidentiality(b.add_or_remove, num_missed)),
    )
    refusal = b.worst_case_refusal()
    if refusal is not None:
        return replace(claim, refused=refusal, not_guaranteed_because=())
    loss = group_confidentiality(b.loss, num_missed * b.records_per_sentence)
    issued = b.issue(claim, loss.epsilon, loss.delta)
    return issued if issued.refused is None else replace(issued, not_guaranteed_because=())
