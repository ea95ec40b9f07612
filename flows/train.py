"""Training, its guarantee, and the report. CRT Algorithm 1, lines 5 to 8, and Theorem 8."""

from __future__ import annotations

from prefect import flow

from flows.prepare import prepare
from flows.running.lifecycle import run_of
from flows.running.spec import TRAINING
from flows.running.wiring import Outputs, whole
from tasks.stages import evaluate, guarantee, report, train_phase1, train_utility
from tasks.stages import train as train_model


@flow(name="train", persist_result=False)
def train(config: str = "reticent.toml", prepared: dict[str, Outputs] | None = None) -> None:
    """Trains on shards that are already prepared, states the guarantee, and reports.

    Args:
        config: a settings file, or the specification of a run that has begun.
        prepared: outputs of the preparation; looked up in the store if not given.
    """
    with run_of(config, TRAINING) as run:
        p = prepared or prepare.fn(run)
        redacted = {name: p[name] for name in ("shard", "redact")}
        rows = {"split": p["split"], **redacted}
        first = whole(train_phase1, run, **rows, estimate=p["estimate"])  # JFT, section 4.1; nothing for the others
        model = whole(train_model, run, train_phase1=first, **rows, gate=p["gate"])  # lines 5 to 8
        scores = whole(evaluate, run, train=model, split=p["split"], redact=p["redact"])
        utility = whole(train_utility, run, evaluate=scores, redact=p["redact"])
        claims = whole(guarantee, run, train=model, estimate=p["estimate"], **redacted)  # Theorem 8
        whole(report, run, **p, train=model, evaluate=scores, train_utility=utility, guarantee=claims)
