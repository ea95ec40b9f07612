"""Beginning and ending a run inside a flow: worker processes, the store's lock, the record and ``latest/``."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any
from uuid import UUID

from flows.artifacts import ServerProgress, on_server, run_metrics
from flows.environment import apply_defaults
from flows.installation import check_installation
from flows.server.guard import refuse_foreign_run
from flows.signals import GRACE_SECONDS, TERMINATED
from flows.spec import begin
from flows.temporary import temporary_files
from pipelines.corpus.rejection import check_rejected
from pipelines.errors import InputError, ReticentError, StoreError
from pipelines.store import runs
from pipelines.store.files import read_json
from pipelines.store.locks import store_lock
from pipelines.store.session import open_session
from pipelines.store.superseded import remove_superseded
from pipelines.store.views import publish_views
from tasks.builders import StageProgress, activate, deactivate

_begun: set[str] = set()
"""Specifications of runs that this process began itself."""


@contextmanager
def run_of(config: str, selected: Sequence[str]) -> Iterator[str]:
    """The run that a flow works on: a new one for a settings file, or the one whose specification is given.

    A new run is recorded and made the latest one when the flow ends well. A failed one keeps what it finished.

    Raises:
        PrivacyGateError: a worker runs the flow, and the run is not its deployment's own.
        ReticentError: the run cannot begin.
    """
    if config in _begun:
        yield config
        return
    refuse_foreign_run(config)
    if config.endswith(".json"):
        yield config  # begun, and ended, by the caller
        return
    apply_defaults()
    check_installation()
    silence_libraries()
    with _prompt_end():
        run = _begin(config, selected)
        _begun.add(run)
        with running(run):
            try:
                yield run
            except BaseException:
                fail(run)
                raise
            finish(run)
        retire(run)


def _begin(config: str, selected: Sequence[str]) -> str:
    """`begin`, for a flow: what is raised here ends up in Prefect's database, which is outside the private root.

    Raises:
        ReticentError: of the kind that `begin` raised, without its message: that may name files of the corpus, which
            are often named after people, or quote settings such as patterns and lists of names.
    """
    kind: type[ReticentError] = StoreError
    try:
        return begin(Path(config), os.environ, selected=selected)
    except ReticentError as error:
        kind, shown = type(error), type(error).__name__
    except Exception as error:
        shown = type(error).__name__
    # Outside the handlers, so that the first error is not this one's context.
    raise kind(
        f"the run could not begin ({shown}). The message may name input files or quote settings, so it is not shown "
        f"here: `reticent plan {config}` on the worker's machine shows it"
    )


@contextmanager
def running(run: str, progress: StageProgress | None = None) -> Iterator[None]:
    """Holds the store for a run and keeps its worker processes."""
    display = ServerProgress(progress) if on_server() else nullcontext(progress)
    with temporary_files(), store_lock(open_session(run).roots.private), display as shown:
        activate(run, shown)
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


def fail(run: str) -> dict[str, Any]:
    """Records a run that did not end well, so that what it finished is neither forgotten nor collected."""
    session = open_session(run)
    extra = {"outputs": {}, "metrics": {}, "state": "failed"}
    return runs.record(session, session.outcomes, extra, make_latest=False)


def finish(run: str, *, make_latest: bool = True) -> dict[str, Any]:
    """Publishes ``latest/``, writes the run's record, and returns it."""
    session = open_session(run)
    outputs = publish_views(session, session.outcomes) if make_latest else {}
    session.stat_cache.save()
    extra = {"outputs": outputs, "metrics": run_metrics(session), "state": "completed"}
    return runs.record(session, session.outcomes, extra, make_latest=make_latest)


def retire(run: str) -> int | None:
    """Takes tables and reports of earlier runs out of the public root, unless the settings keep them.

    Called when the run no longer holds the store. The claims of the run say so; while another run holds the store
    nothing is taken out, and the next run does it.

    Returns:
        How many were removed; None if another run holds the store.
    """
    session = open_session(run)
    shard: Any = session.configs["shard"]
    published = {o.stage for o in session.outcomes if o.key}
    if shard.keep_superseded or not published >= {"publish", "report"}:
        return 0
    return remove_superseded(session.roots, [(o.stage, o.key) for o in session.outcomes if o.key])


def silence_libraries() -> None:
    """What libraries print says nothing to a user: cancelled tasks at the server's end, numerical warnings."""
    for name in ("uvicorn.error", "prefect.server", "prefect._internal", "asyncio", "absl"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    if os.environ.get("RETICENT_DEBUG") != "1":
        warnings.simplefilter("ignore")


_REPORT_SECONDS = 3.0


@contextmanager
def _prompt_end() -> Iterator[None]:
    """Sees to it that a run which Prefect or systemd terminates is over within ten seconds.

    Prefect turns SIGTERM into an exception, but then waits for task threads, and a thread that trains cannot be
    interrupted. Everything that a run makes survives a kill, so after a grace the server is told and the process ends;
    worker processes notice that and end themselves.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can have signal handlers
        return
    before = signal.getsignal(signal.SIGTERM)
    flow_run_id = _flow_run_id()

    def handle(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # one is enough; a second must not spoil the clean end
        threading.Thread(target=_end_after_grace, args=(flow_run_id,), daemon=True).start()
        if callable(before):
            before(number, frame)
        raise SystemExit(TERMINATED)

    signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is handle:
            signal.signal(signal.SIGTERM, before)


def _flow_run_id() -> UUID | None:
    from prefect.context import FlowRunContext

    context = FlowRunContext.get()
    return context.flow_run.id if context and context.flow_run else None


def _end_after_grace(flow_run_id: UUID | None) -> None:
    time.sleep(GRACE_SECONDS)
    if flow_run_id is not None and on_server():
        telling = threading.Thread(target=_tell_server, args=(flow_run_id,), daemon=True)
        telling.start()
        telling.join(_REPORT_SECONDS)
    os._exit(TERMINATED)


def _tell_server(flow_run_id: UUID) -> None:
    from prefect import get_client
    from prefect.states import Cancelled, Crashed

    with get_client(sync_client=True) as client:
        state = client.read_flow_run(flow_run_id).state
        if state is None or state.is_final():
            return
        ended = Cancelled if state.is_cancelling() else Crashed
        message = "Stopped by SIGTERM. What was finished is kept; the next run goes on from there."
        client.set_flow_run_state(flow_run_id, ended(message=message), force=True)
