"""What trainings of every method record, and the claims that follow, for tests."""

from __future__ import annotations

import json
from typing import Any

from pipelines.accounting.claims import Review, build_claims
from pipelines.accounting.facts import CorpusFacts, parse_training
from pipelines.methods.registry import RULES
from pipelines.miss_rate.rates import Delta2, FalseNegativeRate, Stability

DP = {
    "type": "self_composed",
    "count": 5,
    "event": {"type": "poisson_sampled", "sample_rate": 0.1, "event": {"type": "gaussian", "noise_multiplier": 4.0}},
}
UNNOISED = {"type": "non_private"}
TWO_PHASES = [
    {"name": "redacted", "rows": "redacted", "event": UNNOISED},
    {"name": "private", "rows": "original", "event": DP},
]
LIGHT_PHASES = [{**TWO_PHASES[0], "event": DP}, TWO_PHASES[1]]
RATE = {"value": 0.005, "upper": 0.01, "confidence": 0.95, "basis": "fixed_beforehand"}
MET = {name: True for rule in RULES.values() for name in rule.requires}
RUNS = {
    "no_dp": {"event": UNNOISED},
    "redacted": {"event": UNNOISED},
    "anonymized": {"event": UNNOISED},
    "dpsgd": {"event": DP},
    "crt": {"event": DP},
    "jft/direct": {"phases": TWO_PHASES},
    "jft/manual_screening": {"phases": [{**TWO_PHASES[0], "rows": "reviewed"}, TWO_PHASES[1]]},
    "jft/light_noise": {"phases": LIGHT_PHASES, "light_noise_miss_rate": RATE},
    "jft/conservative_light_noise": {"phases": LIGHT_PHASES, "light_noise_miss_rate": {**RATE, "upper": 0.2}},
    "redaction_schedule": {"phases": TWO_PHASES},
    "sdpsgd_lstm": {"event": DP},
}


def document(name: str, **changes: Any) -> dict[str, Any]:
    """``events.json`` of a method, or a variant of one as ``method/variant``."""
    method, _, variant = name.partition("/")
    run = {**RUNS[name], **changes}
    if "event" not in run:
        run["event"] = {"type": "composed", "events": [p["event"] for p in run["phases"]]}
    return {
        "schema_version": 1,
        "method": method,
        "variant": variant or None,
        "record": "sentence",
        "num_private_records": 1000,
        "num_public_records": 0,
        "target_delta": 1e-6,
        "target_epsilon": None,
        "insecure_test_seed": False,
        "tokenizer": {"kind": "bytes", "trained_on": "none"},
        "public_order": "content_hash",
        "preconditions": MET,
        **run,
    }


MU = "one kind of secret of a test"
STABILITY = Stability(num_caught=90, num_unstable=7)


def build(name, **facts):
    """The claims of a method by notion, from facts about text and review that decide them."""
    return {c["notion"]: c for c in build_all(name, **facts)["claims"]}


def build_all(
    name,
    clean=False,
    stable=False,
    preconditions=MET,
    gamma=0.1,
    conservative=False,
    stability=STABILITY,
    replacement="mask",
    people=None,
    **changes,
):
    """What `build_claims` returns for a method."""
    training = parse_training(document(name, preconditions=preconditions, **changes))
    upper = 0.0 if clean else gamma
    rate = FalseNegativeRate(value=0.0, upper=upper, confidence=1.0, mu=MU)
    review = Review(
        source="gold",
        is_trusted=True,
        false_negative_rate=rate,
        delta2=Delta2(value=0.0, upper=0.5, confidence=1.0, mu=MU) if conservative else Delta2.zero(MU),
        worst_label=(rate, Delta2.zero(MU)),
        is_census=clean,
        stability=stability,
    )
    corpus = CorpusFacts(
        dedup_stability=1,
        dedup_reason="exact.",
        redactor_is_stable=stable,
        has_conservative=conservative,
        replacement=replacement,
    )
    found = build_claims(training, corpus, review, (2,), people=people)
    json.dumps(found, allow_nan=False)
    return found
