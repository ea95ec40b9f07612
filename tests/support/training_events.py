"""``events.json`` as a CRT training leaves it, for tests of what is claimed from it."""

from __future__ import annotations

from typing import Any

# REPLACE_ONE epsilon of noise 4, rate 0.1, 10 steps at delta 1e-5 is about 1.2.
STEP: dict[str, Any] = {
    "type": "poisson_sampled",
    "sample_rate": 0.1,
    "event": {"type": "gaussian", "noise_multiplier": 4.0},
}
EVENTS: dict[str, Any] = {
    "schema_version": 1,
    "method": "crt",
    "record": "sentence",
    "num_private_records": 1000,
    "num_public_records": 500,
    "event": {"type": "self_composed", "count": 10, "event": STEP},
    "target_delta": 1e-5,
    "target_epsilon": None,
    "relation": "replace_one",
    "max_grad_norm": 0.5,
    "insecure_test_seed": False,
    "tokenizer": {"kind": "bytes", "trained_on": "none"},
    "public_order": "content_hash",
    "assumption_notes": [],
}
