"""Facts of a run's release together with the earlier releases that may share records, as if they were one release.

Compose first, give credit once. The functions that state the claims of one release (`pipelines.accounting.claims`) also
decide the credit for redaction, from these facts instead of the release's own. So a ledger cannot give more credit than
a claim would.

Unknown facts of an earlier release count against it:

* If it redacted differently, or only its event is known, all its phases count as phases on original text, for which
  there is no credit. If it trained on anything without noise, there is no bound. Rows that it took for public may hold
  any secret.
* If its record is another unit, the composed figure is about a sentence, because a sentence is part of one record of
  any kind. A record is also part of the person who owns its document, so beside a release that sampled people, the
  figure of a record stays one.
* If its preconditions were not recorded as met, there is no claim except differential privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pipelines.accounting.events import Composed, NonPrivate
from pipelines.accounting.facts import COPIES_BY_PERSON, PERSON, CorpusFacts, Phase, ReleaseFacts, TrainingFacts
from pipelines.accounting.ledger import Release, reads_without_noise
from pipelines.methods.registry import rule_of
from pipelines.methods.rule import MethodRule


@dataclass(frozen=True, kw_only=True)
class Publication:
    """The publications of a run, in addition to the model's tokenizer and card.

    Attributes:
        publishes_model: true if the model goes to the public root; otherwise it stays on the trusted side.
        publishes_rows: true if this run publishes the rows of the public side as a table, or an earlier run did.
        is_withdrawn: true if an earlier run published them, and this run does not.
        foreign_tables: true if an earlier run published rows that another redaction took for public.
        publishes_report: true if there is a public report.
        publishes_counts: true if the report has rates that were counted on private text.
        keeps_superseded: true if tables and reports of earlier runs stay in place.
        has_copy: true if a copy of the store may have released models that its ledger does not know.
        redactions: identifiers of how sentences were redacted (see `ReleaseFacts.redactions`).
    """

    publishes_model: bool = True
    publishes_rows: bool = False
    is_withdrawn: bool = False
    foreign_tables: bool = False
    publishes_report: bool = True
    publishes_counts: bool = False
    keeps_superseded: bool = False
    has_copy: bool = False
    redactions: frozenset[str] = frozenset()

    @property
    def not_covered(self) -> tuple[str, ...]:
        """The contents of the public root that no claim of this run can cover."""
        found = []
        if self.publishes_counts:
            found.append(
                "the public report, which gives rates counted on private text without noise "
                "(report.publish_counts = true)"
            )
        if self.keeps_superseded:
            found.append("tables and reports of earlier runs (shard.keep_superseded = true)")
        return tuple(found)

    @property
    def covers(self) -> str:
        """The subject of the claims, in words."""
        if not self.publishes_model:
            return "the model, which this run keeps on the trusted side"
        if self.not_covered:
            return "the model alone, with its tokenizer and card"
        parts = ["the model with its tokenizer and card"]
        if self.publishes_rows:
            parts.append("the table of public rows" + (" of an earlier run" if self.is_withdrawn else ""))
        parts += ["the public report"] if self.publishes_report else []
        return f"everything that this run publishes: {', '.join(parts)}"


@dataclass(frozen=True, kw_only=True)
class Together:
    """Facts of several releases as if they were one, and the rule for claims about them."""

    training: TrainingFacts
    corpus: CorpusFacts
    rule: MethodRule
    publishes_rows: bool


def together(
    training: TrainingFacts, corpus: CorpusFacts, publication: Publication, others: Sequence[Release]
) -> Together:
    """Joins the run's own release and all others into one.

    Args:
        training, corpus, publication: facts of the run's own release.
        others: earlier releases that may share a record with it, without those that cost nothing.
    """
    rule = rule_of(training.method, training.variant)
    phases = list(training.phases)
    has_foreign_rows = publication.foreign_tables
    publishes_rows = publication.publishes_rows
    for release in others:
        facts = release.facts
        phases += _phases(release, publication.redactions)
        theirs = rule_of(facts.method, facts.variant) if facts is not None else None
        if theirs is not None:
            rule = replace(rule, plugins=tuple(dict.fromkeys((*rule.plugins, *theirs.plugins))))
        if facts is None or theirs is None or facts.redactions.isdisjoint(publication.redactions):
            kept = publication.keeps_superseded and (facts is None or facts.publishes_rows)
            has_foreign_rows |= facts is None or facts.trains_on_public_rows or kept
            rule = replace(rule, is_unnoised=rule.is_unnoised or _is_unnoised(release))
            continue
        publishes_rows |= facts.publishes_rows
        rule = replace(
            rule,
            is_unnoised=rule.is_unnoised or theirs.is_unnoised,
            has_public_set=rule.has_public_set or facts.trains_on_public_rows,
            requires={**rule.requires, **{n: why for n, why in theirs.requires.items() if n not in facts.met}},
        )
    known = [release.facts for release in others if release.facts is not None]
    is_one_unit = len(known) == len(others) and all(_covers(facts, training, publication.redactions) for facts in known)
    return Together(
        training=replace(
            training,
            event=Composed(events=tuple(phase.event for phase in phases)),
            phases=tuple(phases),
            record=training.record if is_one_unit else "sentence",
            num_private_records=max([training.num_private_records, *(facts.num_private_records for facts in known)]),
            typed_masks=training.typed_masks or any(facts.typed_masks for facts in known),
            is_noise_from_private_text=training.is_noise_from_private_text
            or any(facts.is_noise_from_private_text for facts in known),
            met=_still_met(training, others),
        ),
        corpus=replace(
            corpus,
            dedup_stability=_stability(corpus, training, others),
            foreign_public_rows=corpus.foreign_public_rows or has_foreign_rows,
            holds_rows=corpus.holds_rows or any(facts.holds_rows for facts in known),
            decisions=corpus.decisions.union(*(facts.decisions for facts in known)),
            couples_people=(*corpus.couples_people, *_coupling(known, publication.redactions)),
        ),
        rule=rule,
        publishes_rows=publishes_rows,
    )


def _covers(facts: ReleaseFacts, training: TrainingFacts, redactions: frozenset[str]) -> bool:
    """Checks that a record of the training, or its person, is a unit of an earlier release, or a part of one.

    A record is part of the person whose document it is in, if both releases divided the text alike.
    """
    if facts.record == PERSON and not training.by_owner:
        return not facts.redactions.isdisjoint(redactions)
    same_people = facts.owner_space == training.owner_space or not training.by_owner
    return facts.record == training.record and same_people


def _phases(release: Release, redactions: frozenset[str]) -> list[Phase]:
    """Returns the phases of a release by the text that they read, as far as that is known and comparable."""
    if release.insecure_test_seed:
        return [Phase(name=release.release_id, rows="original", event=NonPrivate())]
    facts = release.facts
    if release.withdrawals:
        return [Phase(name=release.release_id, rows="original", event=release.charged_event)]
    if facts is None:
        event = NonPrivate() if reads_without_noise(release) else release.event
        return [Phase(name=release.release_id, rows="original", event=event)]
    phases = list(facts.phases)
    if reads_without_noise(release) and not any(phase.is_unnoised for phase in phases):
        phases.append(Phase(name=release.release_id, rows="redacted", event=NonPrivate()))
    if facts.redactions.isdisjoint(redactions):
        return [replace(phase, rows="original") for phase in phases]
    return phases


def _coupling(known: Sequence[ReleaseFacts], redactions: frozenset[str]) -> tuple[str, ...]:
    """Returns how the preparation of other releases may have coupled people, in words (`CorpusFacts`)."""
    is_any = any(
        COPIES_BY_PERSON not in facts.decisions or facts.redactions.isdisjoint(redactions)
        for facts in known
        if any(phase.rows != "original" for phase in facts.phases)
    )
    return ("another release may have been prepared by comparing the text of different people",) if is_any else ()


def _is_unnoised(release: Release) -> bool:
    return release.facts is None or reads_without_noise(release)


def _still_met(training: TrainingFacts, others: Sequence[Release]) -> frozenset[str]:
    """Returns the preconditions that all releases met."""
    unmet = {
        name
        for release in others
        if release.facts is not None
        for name in rule_of(release.facts.method, release.facts.variant).requires
        if name not in release.facts.met
    }
    return training.met - unmet


def _stability(corpus: CorpusFacts, training: TrainingFacts, others: Sequence[Release]) -> int | None:
    """Returns the most records of a release that one replaced sentence can change; None: no bound."""
    sizes = [1 if training.reads_original and corpus.dedup_stability is not None else corpus.dedup_stability]
    if training.record != "sentence" and not training.reads_original:
        sizes = [None]
    sizes += [None if release.facts is None else release.facts.records_per_sentence for release in others]
    bounded = [size for size in sizes if size is not None]
    return max(bounded) if len(bounded) == len(sizes) else None
