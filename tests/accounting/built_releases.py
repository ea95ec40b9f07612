"""Trainings of each method as releases, and the claims of one beside others, for tests."""

from __future__ import annotations

import json
from dataclasses import replace

from support.trainings import DP, LIGHT_PHASES, MET, RATE, TWO_PHASES, UNNOISED, document

from pipelines.accounting.accountants import epsilon
from pipelines.accounting.claims import Review, build_claims
from pipelines.accounting.composition import Publication
from pipelines.accounting.events import Composed, from_json
from pipelines.accounting.facts import CorpusFacts, Phase, ReleaseFacts, TrainingFacts, parse_training
from pipelines.accounting.ledger import Release
from pipelines.methods.registry import rule_of
from pipelines.miss_rate.rates import Delta2, FalseNegativeRate, Stability

MU = "one kind of secret of a test"
DELTA = 1e-6
SAME, OTHER = frozenset({"recipe"}), frozenset({"another recipe"})
GAMMA = FalseNegativeRate(value=0.005, upper=0.01, confidence=0.95, mu=MU)
WORST = FalseNegativeRate(value=0.05, upper=0.2, confidence=0.95, mu=MU)
CORPUS = CorpusFacts(dedup_stability=1, dedup_reason="exact.")
# By method: (rows, event) of each phase.
PHASES = {
    "crt": (("redacted", DP),),
    "dpsgd": (("original", DP),),
    "redacted": (("redacted", UNNOISED),),
    "jft/direct": tuple((p["rows"], p["event"]) for p in TWO_PHASES),
    "jft/light_noise": tuple((p["rows"], p["event"]) for p in LIGHT_PHASES),
    "sdpsgd_lstm": (("original", DP), ("redacted", UNNOISED)),
}
STEADY = Stability(num_caught=50, num_unstable=0)


def training(name: str) -> TrainingFacts:
    """A training of which the phases are those of `PHASES`."""
    phases = [{"name": "p", "rows": rows, "event": event} for rows, event in PHASES[name]]
    event = {"type": "composed", "events": [event for _, event in PHASES[name]]}
    rate = RATE if name.endswith("light_noise") else None
    return parse_training(document(name, target_delta=DELTA, phases=phases, event=event, light_noise_miss_rate=rate))


def release(name: str, number: int, redactions: frozenset[str] = SAME, **changes: object) -> Release:
    method, _, variant = name.partition("/")
    phases = tuple(Phase(name="p", rows=rows, event=from_json(event)) for rows, event in PHASES[name])
    facts = ReleaseFacts(
        method=method,
        variant=variant or None,
        record="sentence",
        num_private_records=1000,
        phases=phases,
        met=frozenset(MET),
        redactions=redactions,
        sentence_stability=1,
        trains_on_public_rows=rule_of(method, variant or None).has_public_set,
    )
    made = Release(
        release_id=f"r{number}",
        key=f"k{number}",
        event=Composed(events=tuple(p.event for p in phases)),
        delta=DELTA,
        facts=facts,
    )
    return replace(made, **changes)


def review(upper: float = 0.2, escape: float = 0.0, source: str = "gold") -> Review:
    worst = FalseNegativeRate(value=0.0, upper=upper, confidence=0.95, mu=MU)
    found = Delta2(value=0.0, upper=escape, confidence=0.95, mu=MU)
    return Review(
        source=source,
        is_trusted=source in ("gold", "human"),
        false_negative_rate=GAMMA,
        delta2=found,
        worst_label=(worst, found),
    )


def build(name, others=(), corpus=CORPUS, known=None, publication=None, groups=(2,)):
    publication = publication or Publication(redactions=SAME)
    found = build_claims(training(name), corpus, known or review(), groups, publication, others)
    json.dumps(found, allow_nan=False)
    return found


def one(found, notion, size=1):
    return next(c for c in found["claims"] if c["notion"] == notion and c["group_size"] == size)


def alone() -> float:
    return epsilon(from_json(DP), DELTA)


def twice() -> float:
    return epsilon(Composed(events=(from_json(DP), from_json(DP))), DELTA)
