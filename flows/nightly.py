"""All of it: prepare, train, state the guarantee, report. What a nightly deployment runs."""

from __future__ import annotations

from prefect import flow

from flows.prepare import prepare
from flows.running.artifacts import shown
from flows.running.lifecycle import run_of
from flows.running.spec import EVERYTHING
from flows.train import train


@flow(name="nightly", persist_result=False)
def nightly(config: str = "reticent.toml") -> None:
    """Brings everything up to date; what has not changed is taken from the store.

    Args:
        config: a settings file, or the specification of a run that has begun.
    """
    with run_of(config, EVERYTHING) as run, shown(run):
        prepared = prepare.fn(run)  # .fn: the same steps without the two seconds of a subflow
        train.fn(run, prepared)
