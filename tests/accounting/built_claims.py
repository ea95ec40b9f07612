"""Claims of a training that is given as events, for tests."""

from __future__ import annotations

import json

from support import training_events

from pipelines.accounting.claims import Review, build_claims
from pipelines.accounting.facts import CorpusFacts, parse_training
from pipelines.miss_rate.rates import Delta2, FalseNegativeRate, Stability

MU = "uniform over the secrets of a test"
EVENTS = {
    **training_events.EVENTS,
    "tokenizer": {"kind": "bpe_public", "trained_on": "public"},
    "assumption_notes": ["a note of the training stage"],
}
GAMMA = FalseNegativeRate(value=0.05, upper=0.1, confidence=0.95, mu=MU)
NO_ESCAPE = Delta2(value=0.0, upper=0.0, confidence=1.0, mu=MU)
WORST_MU = "one kind of secret of a test"
WORST = (
    FalseNegativeRate(value=0.2, upper=0.4, confidence=0.95, mu=WORST_MU),
    Delta2(value=0.0, upper=1e-6, confidence=0.95, mu=WORST_MU),
)
NOTHING_MISSED = FalseNegativeRate(value=0.0, upper=0.0, confidence=1.0, mu=MU)
STABILITY = Stability(num_caught=950, num_unstable=20)
# A census in which the policy masks every labelled secret, and stably.
CLEAN_CENSUS = {
    "is_census": True,
    "stability": Stability(num_caught=1000, num_unstable=0),
    "false_negative_rate": NOTHING_MISSED,
    "delta2": NO_ESCAPE,
    "worst_label": (
        FalseNegativeRate(value=0.0, upper=0.0, confidence=1.0, mu=WORST_MU),
        Delta2(value=0.0, upper=0.0, confidence=1.0, mu=WORST_MU),
    ),
}
NOT_MEASURED = {
    "source": "not_measured",
    "is_trusted": False,
    "false_negative_rate": None,
    "delta2": None,
    "worst_label": None,
    "stability": None,
}
CONSERVATIVE = {"has_conservative": True}


def build(events=None, corpus=None, review=None, groups=(2,)):
    training = parse_training({**EVENTS, **(events or {})})
    facts = {"dedup_stability": 1, "dedup_reason": "exact copies.", **(corpus or {})}
    known = {
        "source": "gold",
        "is_trusted": True,
        "false_negative_rate": GAMMA,
        "delta2": NO_ESCAPE,
        "worst_label": WORST,
        "stability": STABILITY,
        **(review or {}),
    }
    found = build_claims(training, CorpusFacts(**facts), Review(**known), groups)
    json.dumps(found, allow_nan=False)
    return found


def claim(found, notion, group_size=1):
    (match,) = [c for c in found["claims"] if c["notion"] == notion and c["group_size"] == group_size]
    return match


def text(one):
    return " ".join(one["assumptions"])
