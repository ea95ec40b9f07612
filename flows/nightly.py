"""The flow of a nightly deployment: prepare, train, state the guarantee, report."""

from __future__ import annotations

from prefect import flow

from flows.prepare import prepare
from flows.running.artifacts import shown
from flows.running.ending import one_message
from flows.running.lifecycle import run_of
from flows.running.spec import EVERYTHING
from flows.train import train


@flow(name="nightly", persist_result=False)
@one_message
def nightly(config: str = "reticent.toml") -> None:
    """Brings everything up to date. Results that have not changed come from the store.

    Args:
        config: settings file, or specification of a run that has begun
    """
    with run_of(config, EVERYTHING) as run, shown(run):
        prepared = prepare.fn(run)  # .fn saves the two seconds of a subflow
        train.fn(run, prepared)
