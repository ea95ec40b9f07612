"""Training and its guarantee, the steps that `train` and `audit` share. CRT Algorithm 1, lines 5 to 8."""

from __future__ import annotations

from flows.prepare import prepare
from flows.running.wiring import Outputs, whole
from tasks.stages import evaluate, guarantee, train, train_phase1, train_utility


def fit(run: str, prepared: dict[str, Outputs] | None = None) -> dict[str, Outputs]:
    """Trains, states the guarantee, and returns the outputs with those of the preparation.

    Args:
        run: specification of a run that has begun
        prepared: outputs of the preparation; looked up in the store if not given
    """
    p = prepared or prepare.fn(run)
    rows = {name: p[name] for name in ("split", "shard", "redact")}
    first = whole(train_phase1, run, **rows, estimate=p["estimate"])  # JFT, section 4.1; skipped for other methods
    model = whole(train, run, train_phase1=first, **rows, gate=p["gate"])  # lines 5 to 8
    scores = whole(evaluate, run, train=model, split=p["split"], redact=p["redact"])
    utility = whole(train_utility, run, evaluate=scores, redact=p["redact"])
    claims = whole(guarantee, run, train=model, estimate=p["estimate"], **rows)  # Theorem 8
    return {**p, "train": model, "evaluate": scores, "train_utility": utility, "guarantee": claims}
