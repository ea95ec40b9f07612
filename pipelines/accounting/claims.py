"""The claims of a run: notion, epsilon, delta, theorem, and all assumptions.

A claim is issued with its numbers, or refused with its reason. It is never silently weakened. A *refused* claim has no
numbers. A claim with ``is_guarantee`` false has numbers that promise nothing (for example, of a test run with a known
seed).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from pipelines.accounting import confidentiality_claims, owner_claims, selective_claims
from pipelines.accounting.accountants import all_epsilons, epsilon
from pipelines.accounting.claim_builder import (
    FOREIGN_ROWS,
    LARGE_DELTA,
    Claim,
    ClaimBuilder,
    Review,
)
from pipelines.accounting.composition import Publication, together
from pipelines.accounting.confidentiality import PrivacyLoss
from pipelines.accounting.decisions import OF_THE_PRIVATE_SET
from pipelines.accounting.events import Event, NeighboringRelation, is_silent
from pipelines.accounting.facts import CorpusFacts, TrainingFacts
from pipelines.accounting.ledger import Release
from pipelines.accounting.people import People, person_document
from pipelines.accounting.stale import OTHER_TEXT, as_withdrawn, on_other_text, refused, void
from pipelines.accounting.withdrawn import refusal
from pipelines.files import finite
from pipelines.methods.registry import rule_of
from pipelines.methods.rule import MethodRule
from pipelines.numbers import real, upper_bound

__all__ = ["Claim", "Review", "build_claims"]

_ORIGINAL_IS_READ = "training reads the original text, duplicates included, so a secret in k sentences is a group of k."
OTHER_PEOPLE: Final = (
    "another release on these people or files sampled records, or other people (corpus.owner_from, "
    "corpus.owner_space), so its epsilon for one of these people has no bound here"
)
HEADLINES: Final = (
    "owner_dp",
    "confidentiality",
    "selective_dp",
    "bayesian_confidentiality",
    "confidentiality_of_caught_secrets",
    "confidentiality_of_masked_secrets",
    "selective_dp_of_the_policy",
    "dp_private_set",
)
"""The notions of claims that may be shown first, in this order."""


def build_claims(
    training: TrainingFacts,
    corpus: CorpusFacts,
    review: Review,
    groups: Sequence[int],
    publication: Publication | None = None,
    others: Sequence[Release] = (),
    people: People | None = None,
    of_people: Sequence[Release] = (),
) -> dict[str, Any]:
    """Builds all claims of a run, with the accountants' figures and warnings.

    Args:
        training: facts of the training.
        corpus: facts of the stages before it.
        review: rates of misses.
        groups: sizes of groups of unique secrets, for group confidentiality.
        publication: publications of the run; None: the model and a public report.
        others: other releases of the store that may share a record with this one.
        people: owners of the records; None if they are unknown.
        of_people: releases that share no record with this one, but perhaps a person.

    Returns:
        JSON values: ``claims``, ``headline`` (index of the claim to show first, None if none is issued),
        ``accountants``, ``together`` (all releases that may share a record, None if there is one: ``num_releases``,
        ``epsilon``, ``delta``, ``unit``, unamplified, under replace-one), ``person``
        (`pipelines.accounting.people.person_document`), ``warnings``.
    """
    publication = publication or Publication()
    if training.reads_original:  # of text by others it reads nothing but their own records
        corpus = replace(corpus, couples_people=())
    if training.is_on_other_text:
        training, corpus = on_other_text(training, corpus)
    if training.withdrawn:
        training = as_withdrawn(training)
    others = [release for release in others if release.counts]
    training = replace(training, num_compared=sum(release.purpose == "comparison" for release in others))
    relations = (NeighboringRelation.REPLACE_ONE, NeighboringRelation.ADD_OR_REMOVE_ONE)
    figures = [f for relation in relations for f in all_epsilons(training.event, training.target_delta, relation)]
    rule = rule_of(training.method, training.variant)
    if not others:
        corpus = replace(corpus, foreign_public_rows=corpus.foreign_public_rows or publication.foreign_tables)
    claims = _claims_of(training, corpus, review, groups, publication, rule, len(others))
    has_public_rows = _has_public_rows(corpus, rule, publication) or corpus.foreign_public_rows
    whole = joint = None
    if others:
        joined = together(training, corpus, publication, others)
        theirs = replace(publication, publishes_rows=joined.publishes_rows)
        composed = _claims_of(joined.training, joined.corpus, review, groups, theirs, joined.rule, len(others))
        joint = (joined.training, composed, others)
        has_public_rows |= _has_public_rows(joined.corpus, joined.rule, theirs) or joined.corpus.foreign_public_rows
        claims = [_with_all_releases(claim, composed, len(others) + 1) for claim in claims]
        whole = {
            "num_releases": len(others) + 1,
            "epsilon": finite(epsilon(joined.training.event, training.target_delta)),
            "delta": training.target_delta,
            "unit": joined.training.record,
            "relation": NeighboringRelation.REPLACE_ONE.value,
        }
    if of_people:
        everyone = [*others, *of_people]
        joined = together(training, corpus, publication, everyone)
        composed = _claims_of(joined.training, joined.corpus, review, groups, publication, joined.rule, len(others))
        joint = (joined.training, composed, everyone)
        has_public_rows |= joined.corpus.foreign_public_rows
        claims = [_with_all_releases(c, composed, len(everyone) + 1) if c.notion == "owner_dp" else c for c in claims]
    if training.withdrawn:
        claims = [void(claim, refusal(training.withdrawn)) for claim in claims]
    return {
        "claims": [_as_json(claim) for claim in claims],
        "headline": _headline(claims),
        "accountants": [{**asdict(f), "epsilon": finite(f.epsilon), "delta": training.target_delta} for f in figures],
        "together": whole,
        "person": person_document(training, claims, people, joint, has_public_rows=has_public_rows),
        "warnings": [*_warnings(training), *_warnings_about(claims)],
    }


def _claims_of(
    training: TrainingFacts,
    corpus: CorpusFacts,
    review: Review,
    groups: Sequence[int],
    publication: Publication,
    rule: MethodRule,
    num_others: int,
) -> list[Claim]:
    """Builds the claims of one release, or of several as one (`pipelines.accounting.composition`)."""
    has_public_rows = _has_public_rows(corpus, rule, publication)
    corpus = replace(corpus, has_public_rows=has_public_rows or corpus.foreign_public_rows)
    if training.reads_original:
        # A publication may still show which copy of a sentence is kept.
        is_unbounded = has_public_rows and corpus.dedup_stability is None
        corpus = replace(
            corpus,
            dedup_stability=None if is_unbounded else 1,
            dedup_reason=corpus.dedup_reason if is_unbounded else _ORIGINAL_IS_READ,
            dedup_min_tokens=0,
            reads_redacted=False,
        )
    loss = _loss(training, training.event)
    builder = ClaimBuilder(
        training=training,
        corpus=corpus,
        review=review,
        rule=rule,
        publication=publication,
        num_others=num_others,
        loss=loss,
        add_or_remove=_loss(training, training.event, NeighboringRelation.ADD_OR_REMOVE_ONE),
        on_original=_loss(training, training.event_on("original")),
    )
    names = [name for name in rule.claims if name != "owner" or training.by_owner]
    if has_public_rows and not rule.has_public_set and "confidentiality" in names:
        names.insert(names.index("confidentiality") + 1, "caught")
    claims = [claim for name in names for claim in _BUILDERS[name](builder, groups)]
    if corpus.foreign_public_rows:  # they may hold what is masked now
        claims = [c if c.refused or c.notion in OF_THE_PRIVATE_SET else void(c, FOREIGN_ROWS) for c in claims]
    unmet = [reason for name, reason in rule.requires.items() if name not in training.met]
    if unmet:
        return [claim if claim.notion in OF_THE_PRIVATE_SET else refused(claim, "; ".join(unmet)) for claim in claims]
    return claims


def _has_public_rows(corpus: CorpusFacts, rule: MethodRule, publication: Publication) -> bool:
    """Checks if rows are trained on without noise, or published, because the conservative policy let them pass."""
    return corpus.has_conservative and (rule.has_public_set or publication.publishes_rows)


def _with_all_releases(claim: Claim, composed: Sequence[Claim], num_releases: int) -> Claim:
    """Returns a claim of one model, with the same claim about all releases together."""
    same = [c for c in composed if (c.notion, c.group_size) == (claim.notion, claim.group_size)]
    if not same and claim.notion == "owner_dp":
        return refused(claim, OTHER_PEOPLE)
    if not same:
        return claim
    whole = same[0]
    return replace(
        claim,
        together={
            "num_releases": num_releases,
            "statement": whole.statement,
            "assumptions": list(whole.assumptions),
            "epsilon": whole.epsilon,
            "delta": whole.delta,
            "is_guarantee": whole.is_guarantee,
            "not_guaranteed_because": list(whole.not_guaranteed_because),
            "refused": whole.refused,
            "unit": whole.unit,
            "corpus": whole.corpus,
        },
    )


def _headline(claims: Sequence[Claim]) -> int | None:
    """Returns the index of the claim to show first: one that holds for all releases, or else for this model alone."""
    # Never shows a claim whose delta means nothing first, and one that is void for another reason only if all are.
    shown = [(i, c) for i, c in enumerate(claims) if c.refused is None and LARGE_DELTA not in c.not_guaranteed_because]
    shown = [(i, c) for i, c in shown if c.is_guarantee] or shown
    shown = [(i, c) for i, c in shown if c.together is None or c.together["is_guarantee"]] or shown
    issued = {c.notion: i for i, c in reversed(shown)}
    return next((issued[notion] for notion in HEADLINES if notion in issued), None)


_BUILDERS: Final = {**owner_claims.BUILDERS, **confidentiality_claims.BUILDERS, **selective_claims.BUILDERS}


def _loss(
    training: TrainingFacts, event: Event, relation: NeighboringRelation = NeighboringRelation.REPLACE_ONE
) -> PrivacyLoss:
    """Returns the loss of an event at the target delta; (0, 0) if nothing ran."""
    if is_silent(event):
        return PrivacyLoss(0.0, 0.0)
    return PrivacyLoss(epsilon(event, training.target_delta, relation), training.target_delta)


def _warnings(training: TrainingFacts) -> list[str]:
    num = training.num_private_records
    found = [OTHER_TEXT] if training.is_on_other_text else []
    if num and training.target_delta >= 1 / num:
        many, one = ("people", "person's text") if training.by_owner else ("private records", "private record")
        found.append(
            f"target_delta {real(training.target_delta)} is not below 1 / {num}, one over the number of {many}: "
            f"a run that publishes one {one} whole would satisfy it. Lower train.target_delta."
        )
    return found


def _warnings_about(claims: Sequence[Claim]) -> list[str]:
    return [
        f"the claim {claim.notion.replace('_', ' ')} ({_counted(claim.group_size)}) has delta "
        f"{upper_bound(claim.delta)} and is no guarantee: {LARGE_DELTA}"
        for claim in claims
        if claim.refused is None and LARGE_DELTA in claim.not_guaranteed_because
    ]


def _counted(group_size: int) -> str:
    return "one secret" if group_size == 1 else f"{group_size} secrets"


def _as_json(claim: Claim) -> dict[str, Any]:
    values = asdict(claim)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
