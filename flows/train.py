"""Training, its guarantee, and the report. CRT Algorithm 1, lines 5 to 8, and Theorem 8."""

from __future__ import annotations

from prefect import flow

from flows.lifecycle import run_of
from flows.prepare import prepare
from flows.spec import TRAINING
from flows.wiring import Outputs, whole
from tasks.guarantee import guarantee
from tasks.report import report
from tasks.train import train as train_model


@flow(name="train", persist_result=False)
def train(config: str = "reticent.toml", prepared: dict[str, Outputs] | None = None) -> None:
    """Trains on shards that are already prepared, states the guarantee, and reports.

    Args:
        config: a settings file, or the specification of a run that has begun.
        prepared: outputs of the preparation; looked up in the store if not given.
    """
    with run_of(config, TRAINING) as run:
        p = prepared or prepare.fn(run)
        model = whole(  # lines 5 to 8
            train_model, run, shard=p["shard"], split=p["split"], redact=p["redact"], gate=p["gate"]
        )
        claims = whole(guarantee, run, train=model, estimate=p["estimate"])  # Theorem 8
        whole(report, run, **p, train=model, guarantee=claims)
