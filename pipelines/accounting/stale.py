"""Claims on older models of the store: trained on another text than the current one, or by a recipe found wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pipelines.accounting.claim_builder import Claim
from pipelines.accounting.facts import CorpusFacts, Phase, TrainingFacts
from pipelines.accounting.withdrawn import true_event
from pipelines.methods.registry import rule_of

OTHER_TEXT: Final = (
    "The model was trained on text that was redacted, or divided into public and private rows, in another way than it "
    "is now. What was measured since says nothing about that text, so redaction gives no credit. Training again "
    "(`--force train`) is a second release."
)


def on_other_text(training: TrainingFacts, corpus: CorpusFacts) -> tuple[TrainingFacts, CorpusFacts]:
    """Returns the facts of a training on unknown redactions: all text that it read counts as original."""
    rule = rule_of(training.method, training.variant)
    phases = tuple(replace(phase, rows="original") for phase in training.phases)
    has_foreign_rows = corpus.foreign_public_rows or rule.has_public_set
    couples_people = () if training.reads_original else ("the text was prepared otherwise than it is now",)
    facts = replace(corpus, foreign_public_rows=has_foreign_rows, couples_people=couples_people)
    return replace(training, phases=phases), facts


def as_withdrawn(training: TrainingFacts) -> TrainingFacts:
    """Returns the facts of a training with its true event, because its recipe was found wrong."""
    event = true_event(training.event, training.withdrawn)
    return replace(training, event=event, phases=(Phase(name=training.method, rows="original", event=event),))


def refused(claim: Claim, reason: str) -> Claim:
    """Returns the claim, refused and without its numbers."""
    return replace(claim, epsilon=None, delta=None, is_guarantee=False, not_guaranteed_because=(), refused=reason)


def void(claim: Claim, reason: str) -> Claim:
    """Returns the claim, refused and without its other figures, which are as wrong."""
    return replace(refused(claim, reason), epsilon_unamplified=None, together=None, as_in_paper={})
