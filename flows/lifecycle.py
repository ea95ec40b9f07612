"""Beginning and ending a run inside a flow: worker processes, the store's lock, the record and ``latest/``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flows.spec import begin
from pipelines.corpus.rejection import check_rejected
from pipelines.errors import InputError
from pipelines.store import manifest as manifests
from pipelines.store import runs
from pipelines.store.files import read_json
from pipelines.store.locks import store_lock
from pipelines.store.session import open_session
from pipelines.store.views import publish_views
from tasks.builders import StageProgress, activate, deactivate


@contextmanager
def run_of(config: str, selected: Sequence[str]) -> Iterator[str]:
    """The run that a flow works on: a new one for a settings file, or the one whose specification is given.

    A new run is recorded and made the latest one when the flow ends well. A failed one keeps what it finished.
    """
    if config.endswith(".json"):
        yield config  # begun, and ended, by the caller
        return
    run = begin(Path(config), os.environ, selected=selected)
    with running(run):
        yield run
        finish(run)


@contextmanager
def running(run: str, progress: StageProgress | None = None) -> Iterator[None]:
    """Holds the store for a run and keeps its worker processes."""
    with store_lock(open_session(run).roots.private):
        activate(run, progress)
        try:
            yield
        finally:
            deactivate(run)


def require_usable_input(run: str) -> None:
    """Stops a run whose input was largely unusable; the rejected table can then be inspected.

    Raises:
        InputError: no usable row, or more rejected rows than ``corpus.max_rejected_fraction``.
    """
    session = open_session(run)
    keys = [o.key for o in session.outcomes if o.stage == "split" and o.key]
    figures = [read_json(session.roots.object_dir("private", "split", key) / "figures.json") or {} for key in keys]
    if not figures:
        return
    try:
        check_rejected(figures, session.configs["corpus"].max_rejected_fraction)  # type: ignore[attr-defined]
    except InputError as error:
        publish_views(session, session.outcomes)
        raise InputError(f"{error} `reticent inspect rejected --show-text` shows it.") from None


def finish(run: str) -> dict[str, Any]:
    """Publishes ``latest/``, writes the run's record, and returns it."""
    session = open_session(run)
    outputs = publish_views(session, session.outcomes)
    metrics: dict[str, Any] = {}
    for outcome in session.outcomes:
        if outcome.stage == "report" and outcome.key:
            manifest = manifests.load(session.roots, "report", outcome.key)
            metrics = dict(manifest.stats.get("metrics", {})) if manifest else {}
    session.stat_cache.save()
    return runs.record(session, session.outcomes, {"outputs": outputs, "metrics": metrics, "state": "completed"})
