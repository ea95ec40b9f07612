"""Runs as the guarantee stage may meet them: every method, and every fact about a run changed by itself.

Not every combination: a text that two facts change together is a new one only where both change the same sentence.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, Final, get_args

from flows.own_words.cards import notes_of_training
from flows.own_words.variants import choices, variants
from pipelines.accounting.claim_builder import Review
from pipelines.accounting.composition import Publication
from pipelines.accounting.corpus_facts import corpus_facts
from pipelines.accounting.decisions import DECISIONS
from pipelines.accounting.events import Composed, Event, NonPrivate, dp_sgd
from pipelines.accounting.facts import PUBLIC_BASES, CorpusFacts, Phase, ReleaseFacts, TrainingFacts
from pipelines.accounting.ledger import Release
from pipelines.gate.own import HOLE
from pipelines.mask import Replacement
from pipelines.methods.registry import RULES
from pipelines.methods.rule import MethodRule, Rows
from pipelines.miss_rate.breakdown import MU_OF_ONE_LABEL
from pipelines.miss_rate.estimate import MU
from pipelines.miss_rate.rates import Delta2, FalseNegativeRate, MissRate, Stability
from pipelines.policies.detectors.specs import SPECS
from pipelines.settings.dedup import DedupConfig
from pipelines.settings.train import TrainConfig

_NOISED: Final = dp_sgd(noise_multiplier=4.0, sample_rate=0.1, num_steps=5)
_HARDLY_NOISED: Final = dp_sgd(noise_multiplier=0.001, sample_rate=0.5, num_steps=1)
"""Its epsilon takes no time to compute."""
_UNNOISED: Final = NonPrivate()
_REDACTION: Final = "this redaction"
_RECORDS: Final = choices(TrainConfig.model_fields["record"].annotation)
_STABLE: Final = Stability(num_caught=10, num_unstable=0)
_RATE: Final = MissRate(value=0.005, upper=0.01, confidence=0.95)


@dataclass(frozen=True, kw_only=True)
class Case:
    """What the claims of a run are built from: the arguments of `pipelines.accounting.claims.build_claims`."""

    training: TrainingFacts
    corpus: CorpusFacts
    review: Review
    publication: Publication = Publication(redactions=frozenset({_REDACTION}))  # noqa: RUF009  # frozen
    others: tuple[Release, ...] = ()


def cases() -> Iterator[Case]:
    """All of them."""
    yield _case(replace(next(_trainings(_NOISED)), method=HOLE))  # a method of another package
    for training, has_conservative in itertools.product(_trainings(_NOISED, _UNNOISED), (False, True)):
        yield from _by_review(_case(training, has_conservative))
    for training, has_conservative in itertools.product(_trainings(_NOISED), (False, True)):
        first = _case(training, has_conservative)
        for case in (first, replace(first, review=_review())):
            yield from (replace(case, training=found) for found in _variants_of_training(training))
            yield from (replace(case, corpus=found) for found in _variants_of_corpus(case.corpus))
            yield from (replace(case, publication=found) for found in _publications())
    for training, has_conservative in itertools.product(_trainings(_HARDLY_NOISED), (False, True)):
        first = _case(training, has_conservative)
        for review in (first.review, _review()):
            yield from (replace(first, review=review, others=found) for found in _others(training))


def few_cases() -> Iterator[Case]:
    """Some of them, in which every kind of claim is issued, estimated and refused: for what a page makes of it."""
    yield from (_case(training) for training in _trainings(_NOISED))
    for training in _trainings(_HARDLY_NOISED, _UNNOISED):
        first = replace(_case(training), review=_review(0.0, 0.0, confidence=1.0, is_census=True))
        case = replace(first, corpus=replace(first.corpus, redactor_is_stable=True))
        yield from (replace(case, publication=publication) for publication in _publications())
        for review, others in itertools.product((Review.withheld(), _review()), ((), *_others(training))):
            yield replace(case, review=review, others=others)
        yield replace(case, corpus=replace(case.corpus, dedup_stability=2))
        for record in _RECORDS:
            yield replace(case, training=replace(training, insecure_test_seed=True, record=record))


def _case(training: TrainingFacts, has_conservative: bool = False) -> Case:
    corpus = CorpusFacts(dedup_stability=1, dedup_reason=HOLE, has_conservative=has_conservative)
    return Case(training=training, corpus=corpus, review=Review.withheld())


def _by_review(case: Case) -> Iterator[Case]:
    for review, is_stable in itertools.product(_reviews(), (False, True)):
        yield replace(case, corpus=replace(case.corpus, redactor_is_stable=is_stable), review=review)


def _publications() -> Iterator[Publication]:
    return variants(Publication(redactions=frozenset({_REDACTION})), {"redactions": ()})


def _trainings(*events: Event) -> Iterator[TrainingFacts]:
    for name, rule in RULES.items():
        method, _, variant = name.partition("/")
        is_light = rule.rows is None and not rule.is_unnoised
        for first in events:
            phases = _phases(method, variant, rule, first)
            yield TrainingFacts(
                method=method,
                variant=variant or None,
                record="sentence",
                num_private_records=1_000,
                num_public_records=0,
                event=Composed(events=tuple(phase.event for phase in phases)),
                phases=phases,
                target_delta=1e-6,
                target_epsilon=None,
                insecure_test_seed=False,
                tokenizer_trained_on="none",
                public_order="content_hash",
                met=frozenset(rule.requires),
                light_noise_miss_rate=_RATE if is_light else None,
                noise_basis=PUBLIC_BASES[0] if is_light else None,
            )


def _phases(method: str, variant: str, rule: MethodRule, first: Event) -> tuple[Phase, ...]:
    if rule.rows is not None:
        return (Phase(name=method, rows=rule.rows, event=first),)
    read: Rows = "reviewed" if variant == "manual_screening" else "redacted"
    return (
        Phase(name=read, rows=read, event=first),
        Phase(name="private", rows="original", event=_NOISED if first == _NOISED else _HARDLY_NOISED),
    )


def _variants_of_training(training: TrainingFacts) -> Iterator[TrainingFacts]:
    left_as_they_are = ("method", "variant", "event", "phases", "num_public_records", "target_delta", "target_epsilon")
    met = training.met
    yield from variants(
        training,
        {
            **dict.fromkeys(left_as_they_are, ()),
            "record": _RECORDS,
            "num_private_records": (0, 10**7),
            "tokenizer_trained_on": ("public", "elsewhere", HOLE),
            "public_order": ("none", HOLE),
            "notes": (notes_of_training(),),
            "met": (*(met - {name} for name in sorted(met)), frozenset()),
            "light_noise_miss_rate": (None, _RATE),
            "noise_basis": (*PUBLIC_BASES, "measured", None),
        },
    )


def _variants_of_corpus(corpus: CorpusFacts) -> Iterator[CorpusFacts]:
    fitted = tuple(sorted(name for name, spec in SPECS.items() if spec.is_fitted))
    tried = {
        "dedup_reason": (),
        "has_conservative": (),
        "reads_documents": (tuple(sorted(name for name, spec in SPECS.items() if spec.reads_documents)), (HOLE,)),
        "fitted": (fitted, (HOLE,)),
        "learnt": (fitted, (HOLE,)),
        "plugins": (("plug-in",), (HOLE,)),
        "decisions": tuple(frozenset({d.name}) for d in DECISIONS if d.is_made is not None),
    }
    yield from variants(corpus, tried)
    for replacement in get_args(Replacement):
        yield replace(corpus, replacement=replacement, plugins=(HOLE,))
    for stability, reason in reasons():
        yield replace(corpus, dedup_stability=stability, dedup_reason=reason)


@functools.cache
def reasons() -> tuple[tuple[int | None, str], ...]:
    """How stable deduplication may be, and why, by its settings and those of redaction."""
    fields = ("mode", "normalise", "unit")
    every = itertools.product(*(choices(DedupConfig.model_fields[name].annotation) for name in fields))
    flags = itertools.product((False, True), repeat=3)
    found: dict[tuple[int | None, str], None] = {}
    for values, (verify, has_public_rows, reads_places) in itertools.product(every, flags):
        dedup = SimpleNamespace(**dict(zip(fields, values, strict=True)), verify=verify, min_tokens=0)
        for policy in ("digits", *(name for name, spec in SPECS.items() if spec.reads_documents)):
            for replacement in get_args(Replacement):
                redact = SimpleNamespace(
                    policies=(policy,),
                    conservative="conservative",
                    collapse=True,
                    replacement=replacement,
                    surrogate_scope="document",
                )
                facts = corpus_facts(dedup, redact, has_public_rows=has_public_rows, reads_places=reads_places)
                found[facts.dedup_stability, facts.dedup_reason] = None
    return tuple(found)


def _review(
    value: float = 0.0,
    upper: float = 0.01,
    escaped: tuple[float, float] = (0.0, 0.0),
    *,
    source: str = "gold",
    confidence: float = 0.95,
    stability: Stability | None = _STABLE,
    **known: Any,
) -> Review:
    gamma = FalseNegativeRate(value=value, upper=upper, confidence=confidence, mu=MU)
    delta2 = Delta2(value=escaped[0], upper=escaped[1], confidence=confidence, mu=MU)
    return Review(
        source=source,
        is_trusted=source in ("gold", "human"),
        false_negative_rate=gamma,
        delta2=delta2,
        worst_label=(replace(gamma, mu=MU_OF_ONE_LABEL), replace(delta2, mu=MU_OF_ONE_LABEL)),
        stability=stability,
        **known,
    )


@functools.cache
def _reviews() -> tuple[Review, ...]:
    return (
        Review.withheld(),
        Review(source="not_measured", is_trusted=False, false_negative_rate=None, delta2=None),
        _review(source="proxy"),
        _review(source="human", covers_corpus=False),
        _review(source="gold", covers_corpus=False),
        _review(0.0, 0.0, confidence=1.0, is_census=True),
        _review(0.2, 0.2, (0.1, 0.1), confidence=1.0, is_census=True),
        _review(),
        _review(stability=None),
        *(_review(stability=replace(_STABLE, num_unstable=number)) for number in (1, 2)),
        _review(stability=replace(_STABLE, num_unstable_elsewhere=1)),
        _review(escaped=(0.0, 1e-9)),
        _review(0.4, 0.5, (0.4, 0.5)),
        _review(0.4, 0.5, (0.0, 0.5), confidence=1.0),
        *(_review(0.4, 0.5, (0.0, 0.5), num_training_sentences=size) for size in (None, 100, 10**12)),
    )


def _others(training: TrainingFacts) -> Iterator[tuple[Release, ...]]:
    """Earlier releases: of which no more is known than what ran, that redacted alike, that did otherwise, compared."""
    facts = ReleaseFacts(
        method=training.method,
        variant=training.variant,
        record=training.record,
        num_private_records=training.num_private_records,
        phases=training.phases,
        redactions=frozenset({_REDACTION}),
        met=training.met,
        sentence_stability=1,
    )
    foreign = replace(facts, redactions=frozenset(), trains_on_public_rows=True, publishes_rows=True)
    for known in (None, facts, foreign, replace(facts, met=frozenset()), replace(facts, sentence_stability=None)):
        release = Release(release_id="1", key="1", event=training.event, delta=training.target_delta, facts=known)
        yield (release,)
    yield (release, replace(release, release_id="2", key="2"))
    yield (replace(release, purpose="comparison"),)
