"""A claim, the review of misses, and the builder with the facts that all claims of one run share.

`pipelines.accounting.claims` decides which claims are made, and when they are refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pipelines.accounting.assumptions import (
    NOT_STATED,
    OF_ALL_LABELS,
    about_corpus,
    common,
    contradictions,
    elsewhere_refusal,
    misses_nothing,
    unstable_count,
    voids,
)
from pipelines.accounting.composition import Publication
from pipelines.accounting.confidentiality import PrivacyLoss
from pipelines.accounting.decisions import OF_THE_PRIVATE_SET, about_decisions, ended_by
from pipelines.accounting.events import Event, NeighboringRelation, is_silent
from pipelines.accounting.facts import CorpusFacts, TrainingFacts
from pipelines.accounting.replaced_text import no_credit, relabelling_refusal
from pipelines.files import finite
from pipelines.methods.rule import MethodRule
from pipelines.miss_rate.rates import Delta2, FalseNegativeRate, Stability
from pipelines.numbers import real, upper_bound

NOT_MEASURED: Final = "not_measured"
WITHHELD: Final = (
    "not stated here: it rests on rates counted on private text, which are not published (report.publish_counts)"
)
LARGE_DELTA: Final = (
    "delta is not below one over the number of records, or of people where the claim is about a person: a run that "
    "publishes one random record whole, or all of one random person's, would satisfy it"
)
FOREIGN_ROWS: Final = (
    "no work on this run can mend this: an earlier release trained on rows, or published rows, that another redaction "
    "took for public, or nothing is known of it; a secret may stand in them"
)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A statement about a run.

    Attributes:
        notion: kind of promise: ``owner_dp``, ``dp_private_set``, ``confidentiality``,
            ``confidentiality_of_caught_secrets``, ``confidentiality_of_masked_secrets``, ``group_confidentiality``,
            ``group_confidentiality_at_average_rate`` (never a guarantee), ``bayesian_confidentiality``,
            ``selective_dp``, ``selective_dp_of_the_policy`` or ``light_noise_estimate`` (never a guarantee).
        statement: the promise in words.
        epsilon, delta: numbers of the claim, of this run's model alone; None if it is refused.
        epsilon_unamplified: epsilon of the training itself, without credit for redaction.
        together: the same claim about all releases that may share a record with this one, if there are earlier ones:
            ``num_releases``, ``statement``, ``assumptions``, ``epsilon``, ``delta``, ``is_guarantee``,
            ``not_guaranteed_because``, ``refused``, ``unit``, ``corpus``. Print its epsilon before the claim's own.
        covers: subject of the claim, in words: everything that the run publishes, or the model alone.
        beside: other contents of the public root, which the claim does not cover.
        is_guarantee: true if the numbers are a promise, under the assumptions.
        not_guaranteed_because: reasons why they are not.
        theorem: reference to the proof.
        relation: neighbouring relation.
        corpus: data on which the neighbours are taken: ``raw`` (after splitting into sentences, before deduplication),
            ``deduplicated``, or ``private_set``.
        unit: unit of a record.
        group_size: number of secrets that are protected together; 1 for a single one.
        dedup_stability: number of training records that one sentence before deduplication can change.
        mu: distribution over secrets that a Bayesian claim averages over.
        confidence: probability that the bounds from the review hold; None without a review.
        num_missed: number of secrets of the group that count as missed.
        assumptions: assumptions of the promise.
        refused: reason why there is no claim.
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
    together: dict[str, Any] | None = None
    covers: str = ""
    beside: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Review:
    """The measured rates of the policies' misses.

    Attributes:
        source: judge of the misses.
        is_trusted: true for a person or gold labels. Nothing rests on a proxy.
        false_negative_rate: gamma; None if unknown.
        delta2: delta2; None if unknown.
        worst_label: gamma and delta2 of the worst label, bounded for all labels at once; None if unknown.
        is_census: true if every training sentence was reviewed.
        covers_corpus: true if every training document carries labels, or people reviewed every sampled sentence.
            Otherwise the rates describe a part only.
        num_training_sentences: number of training sentences of the corpus; None if unknown.
        is_withheld: true if rates may have been measured and are not stated, because the claims are published.
        stability: counts of caught secrets that are not redacted stably; None if not measured.
    """

    source: str
    is_trusted: bool
    false_negative_rate: FalseNegativeRate | None
    delta2: Delta2 | None
    worst_label: tuple[FalseNegativeRate, Delta2] | None = None
    is_census: bool = False
    covers_corpus: bool = True
    num_training_sentences: int | None = None
    is_withheld: bool = False
    stability: Stability | None = None

    @classmethod
    def withheld(cls) -> Review:
        """Returns the review as the public sees it: without its rates, and without whether there was one."""
        return cls(source=NOT_MEASURED, is_trusted=False, false_negative_rate=None, delta2=None, is_withheld=True)

    @property
    def is_usable(self) -> bool:
        """True if a claim about the corpus may rest on the rates."""
        return self.is_trusted and self.covers_corpus

    def part_refusal(self, otherwise: str = "") -> str | None:
        """Returns why a judged part does not describe the corpus, and what to do (``otherwise`` too), or None."""
        if not self.is_trusted or self.covers_corpus:
            return None
        if self.source == "human":
            part, more = "only a part of the sampled sentences was reviewed", "Review every sampled sentence"
        else:
            part, more = "only a part of the training documents carries labels", "Label every training document"
        return f"{part}, so gamma and delta2 describe that part and not the corpus. {more}{otherwise}"


@dataclass(frozen=True)
class ClaimBuilder:
    """A builder of the claims of a run, with the facts that they share."""

    training: TrainingFacts
    corpus: CorpusFacts
    review: Review
    rule: MethodRule
    publication: Publication
    num_others: int  # other releases that may share a record
    loss: PrivacyLoss  # of one record, replace_one, no credit for anything
    add_or_remove: PrivacyLoss
    on_original: PrivacyLoss  # the part that read original text

    @property
    def on(self) -> str:
        """The corpus that claims are about: ``raw`` or ``deduplicated``."""
        if not self.corpus.reads_redacted and not self.uses_delta2:
            return "raw"
        return "deduplicated" if self.corpus.dedup_stability is None or self.training.record != "sentence" else "raw"

    @property
    def sentence_loss(self) -> PrivacyLoss:
        """The loss of one sentence of the claims' corpus."""
        return self.group_loss(self.training.event, self.records_per_sentence)

    def group_loss(self, event: Event, size: int) -> PrivacyLoss:
        """Returns the loss of a group of records at the training's delta (`pipelines.accounting.groups`)."""
        from pipelines.accounting.groups import group_epsilon  # dp-accounting is slow to import

        if size == 0 or is_silent(event):
            return PrivacyLoss(0.0, 0.0)
        return PrivacyLoss(group_epsilon(event, self.training.target_delta, size), self.training.target_delta)

    @property
    def records_per_sentence(self) -> int:
        """The number of training records that one sentence of the claims' corpus can change."""
        return (self.corpus.dedup_stability or 1) if self.on == "raw" else 1

    @property
    def uses_delta2(self) -> bool:
        """True if delta2 is a measured figure. It is 0 if no row is public."""
        return self.corpus.has_public_rows

    @property
    def tells(self) -> str:
        """The beginning of a statement: what is seen, and that it tells no more than epsilon allows."""
        is_model_alone = self.publication.not_covered or not self.publication.publishes_model
        return (
            f"{'The model' if is_model_alone else 'What this run publishes'} tells no more than ε allows about whether"
        )

    @property
    def neighbours_of_dp(self) -> str:
        """The two private sets that differential privacy compares, in words, by the text that training reads."""
        if not self.corpus.reads_redacted:
            found = "the neighbours are corpora after splitting, duplicates and secrets included, of equal size"
        elif not self.training.reads_any_original:
            found = (
                "the neighbours are private sets after deduplication and redaction, of equal size. The public set is "
                "the same in both"
            )
        else:
            found = (
                "the neighbours are corpora after splitting, of equal size. One part of training reads the original "
                "text, and another part reads what redaction leaves of it"
            )
        if self.publication.publishes_rows and not self.rule.has_public_set:
            found += ". Neither the record nor its replacement stands in the published table"
        return found

    def is_large(self, notion: str, delta: float) -> bool:
        """Returns true if a delta means nothing: it is not below one over the number of its records."""
        num_private = self.training.num_private_records
        num_records = num_private + (0 if notion in OF_THE_PRIVATE_SET else self.training.num_public_records)
        # The training's own delta counts too: gamma reduces the figure of an average secret, not the leak.
        return (num_private > 0 and self.loss.delta >= 1 / num_private) or (
            num_records > 0 and delta >= 1 / num_records
        )

    def claim(self, notion: str, statement: str, theorem: str, extra: Sequence[str] = (), **values: Any) -> Claim:
        """Makes a claim without numbers. Its own assumptions, ``extra``, come first."""
        is_dp = notion in OF_THE_PRIVATE_SET
        rests_on = common(self.training, self.rule, self.publication, self.num_others, self.corpus.has_public_rows)
        on = values.get("corpus", self.on)
        if not is_dp:
            rests_on += about_corpus(self.corpus, self.training, on)
        return Claim(
            notion=notion,
            statement=statement,
            theorem=theorem,
            unit=self.training.record,
            covers=self.publication.covers,
            beside=self.publication.not_covered,
            epsilon_unamplified=finite(self.loss.epsilon),
            assumptions=(*extra, *rests_on, *about_decisions(notion, self.corpus)),
            **{
                "corpus": "private_set" if is_dp else on,
                "dedup_stability": None if is_dp else self.corpus.dedup_stability,
                **values,
            },
        )

    def issue(self, claim: Claim, epsilon: float, delta: float) -> Claim:
        """Returns the claim with its numbers, or refused if they say nothing."""
        if ended := ended_by(claim.notion, self.corpus):
            return replace(claim, refused=ended)
        if clash := contradictions(claim.assumptions):
            about = f"its assumptions contradict each other about {', '.join(clash)}"
            return replace(claim, refused=f"{about}; this is a fault of ours, please report it")
        if not math.isfinite(epsilon):
            return replace(claim, refused="training adds no noise to private records, so epsilon is infinite")
        if not delta < 1:
            found = f"be {real(delta, 3)}" if math.isfinite(delta) else "exceed 1 by far"
            return replace(claim, refused=f"vacuous: delta would {found}, and a delta of 1 or more promises nothing")
        void = (*claim.not_guaranteed_because, *voids(self.training, self.rule))
        if self.is_large(claim.notion, delta):
            void = (*void, LARGE_DELTA)
        return replace(claim, epsilon=epsilon, delta=delta, is_guarantee=not void, not_guaranteed_because=void)

    def delta2(self) -> Delta2 | None:
        """Returns the delta2 that claims may use: 0 without a public set, None if unknown, partial, or from a proxy."""
        if not self.uses_delta2:
            mu = self.review.false_negative_rate.mu if self.review.false_negative_rate else ""
            return Delta2.zero(mu)
        return self.review.delta2 if self.review.is_usable else None

    def gamma(self) -> FalseNegativeRate | None:
        """Returns the gamma that claims may use: None if unknown, partial, from a proxy, or if masks show lengths."""
        return self.review.false_negative_rate if self.review.is_usable and self.corpus.gives_credit else None

    @property
    def no_credit(self) -> str | None:
        """The reason why redaction gives no credit; None if it gives some."""
        return no_credit(self.corpus)

    def misses_nothing(self) -> bool:
        """Returns true if certainly no labelled secret of the corpus was trained on: all are masked, and stably."""
        gamma = self.gamma()
        is_exact = gamma is not None and self.review.is_census and gamma.upper == 0
        return is_exact and misses_nothing(self.review.stability) and not self.training.reads_any_original

    @property
    def unstable(self) -> str:
        """The number of caught secrets that are not redacted stably, in words."""
        return NOT_STATED if self.review.is_withheld else unstable_count(self.review.stability)

    def elsewhere_refusal(self) -> str | None:
        """Returns why nothing is promised if a secret may change several records; None if no such reason is known."""
        if not (self.corpus.reads_redacted or self.uses_delta2):
            return None
        if (relabelling := relabelling_refusal(self.corpus)) is not None:
            return relabelling
        if self.review.is_withheld:
            return WITHHELD if self.corpus.reads_documents or self.corpus.plugins else None
        return elsewhere_refusal(self.review.stability)

    def escape_refusal(self, escape: Delta2 | None, of: str = OF_ALL_LABELS) -> str | None:
        """Returns why nothing can be said about missed secrets; None if something can. ``of``: labels of the rate."""
        if (elsewhere := self.elsewhere_refusal()) is not None:
            return elsewhere
        if not self.uses_delta2:
            return None
        if self.corpus.foreign_public_rows:
            return FOREIGN_ROWS
        if self.review.is_withheld:
            return WITHHELD
        if escape is None:
            part = self.review.part_refusal(
                ", or set no redact.conservative: missed secrets of the rest may stand in public sentences"
            )
            use = "trained on without noise" if self.rule.has_public_set else "published as they are"
            return part or (
                "delta2 was not measured, so missed secrets may stand in public sentences, which "
                f"are {use}; review a sample, or set no redact.conservative (then every sentence is private)"
            )
        if escape.upper > self.training.target_delta:
            return self._too_many_escape(escape, of)
        return None

    def _too_many_escape(self, escape: Delta2, of: str) -> str:
        """Returns the refusal for a delta2 above delta: what to do first, or that nothing helps, with the number."""
        target = self.training.target_delta
        found = (
            f"delta2 {of}, the probability that a secret is missed and its sentence is public, is at most "
            f"{upper_bound(escape.upper)} (estimate {upper_bound(escape.value)}, confidence {escape.confidence:g}), "
            f"above the target delta {real(target)}. "
        )
        otherwise = f"Without redact.conservative every sentence is private, and the claim holds{self._if_noised}"
        if escape.value > target:
            return (
                "no further review can mend this: of the reviewed secrets themselves too large a share is public. "
                f"{found}{otherwise}; or take a stricter redact.conservative"
            )
        from pipelines.intervals import num_clean_reviews_needed  # scipy is slow to import

        needed = num_clean_reviews_needed(target, escape.confidence) if escape.confidence < 1 else None
        size = self.review.num_training_sentences
        if needed is None or size is None or needed <= size:
            more = "" if needed is None else f" (about {needed:,} without a find)"
            return f"{found}Review more{more}, take a stricter redact.conservative, or set none"
        return (
            f"no sample of this corpus can give so small a bound: it takes about {needed:,} reviews without a find, "
            f"and the corpus has {size:,} training sentences. {found}{otherwise}; or label every training sentence "
            "(sample.fraction = 1), which leaves no sampling error"
        )

    @property
    def _if_noised(self) -> str:
        return "" if math.isfinite(self.loss.epsilon) else " as far as training adds noise"

    def worst_case_refusal(self) -> str | None:
        """Returns why nothing can be said about *each* secret that the policy misses; None if something can.

        Theorems 8.1 and 8.2 assume that the conservative policy catches every missed secret. A delta2 above 0 says
        that some may escape. For an escaped secret delta is 1, however small the share of such secrets is.
        """
        escape = self.delta2()
        refusal = self.escape_refusal(escape)
        if refusal is None and escape is not None and escape.upper > 0:
            return (
                "no sample can mend this: a missed secret may stand in a public sentence (delta2 is at most "
                f"{upper_bound(escape.upper)}), and for that one nothing holds; a bound on their share serves a secret "
                "drawn from mu only (see Bayesian confidentiality). Set no redact.conservative, or review every "
                "training sentence"
            )
        return refusal


def joint(first: float, second: float) -> float:
    """Returns a lower bound on the probability that two bounds hold at once (Bonferroni)."""
    return max(0.0, 1.0 - (1.0 - first) - (1.0 - second))


Builder = Callable[[ClaimBuilder, Sequence[int]], list[Claim]]
"""Function that makes claims; the numbers are the requested sizes of groups."""
