"""Training, its guarantee, the audit, and the report. CRT Algorithm 1, lines 5 to 8, and Theorem 8."""

from __future__ import annotations

from prefect import flow

from flows.audit import audit
from flows.fit import fit
from flows.running.auditing import require_no_alarm
from flows.running.lifecycle import run_of
from flows.running.spec import TRAINING
from flows.running.wiring import Outputs, whole
from tasks.stages import report


@flow(name="train", persist_result=False)
def train(config: str = "reticent.toml", prepared: dict[str, Outputs] | None = None) -> None:
    """Trains on shards that are already prepared, states the guarantee, audits if asked to, and reports.

    Args:
        config: a settings file, or the specification of a run that has begun.
        prepared: outputs of the preparation; looked up in the store if not given.
    """
    with run_of(config, TRAINING) as run:
        fitted = fit(run, prepared)
        whole(report, run, **fitted, audit=audit.fn(run, fitted))
        require_no_alarm(run)
