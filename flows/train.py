"""The flow of training, guarantee, audit, synthetic text and report. CRT Algorithm 1, lines 5 to 8, and Theorem 8."""

from __future__ import annotations

from prefect import flow

from flows.audit import audit
from flows.fit import fit
from flows.running.auditing import require_no_alarm
from flows.running.ending import one_message
from flows.running.lifecycle import run_of
from flows.running.spec import TRAINING
from flows.running.wiring import Outputs, whole
from flows.synthesis import synthesize
from tasks.stages import report


@flow(name="train", persist_result=False)
@one_message
def train(config: str = "reticent.toml", prepared: dict[str, Outputs] | None = None) -> None:
    """Trains on prepared shards, states the guarantee, audits and lets the model write if asked to, and reports.

    Args:
        config: settings file, or specification of a run that has begun
        prepared: outputs of the preparation; looked up in the store if not given
    """
    with run_of(config, TRAINING) as run:
        fitted = fit(run, prepared)
        attacks = audit.fn(run, fitted)
        written = synthesize.fn(run, fitted)
        # The report shows no published rows.
        report_inputs = {name: outputs for name, outputs in fitted.items() if name != "publish"}
        whole(report, run, **report_inputs, audit=attacks, **written)
        require_no_alarm(run)
