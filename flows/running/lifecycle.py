"""Begins and ends a run inside a flow: worker processes, the store's lock, the record and ``latest/``."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.environment import apply_defaults, on_server
from flows.running.artifacts import run_metrics, run_warnings
from flows.running.executors.choosing import executor_of, require_installed, require_shared_by_machines
from flows.running.installation import check_installation
from flows.running.mirroring import mirror_published
from flows.running.progress import ServerProgress
from flows.running.signals import ends_promptly
from flows.running.spec import RELEASED, begin
from flows.running.temporary import temporary_files
from flows.server.guard import refuse_foreign_run
from pipelines.corpus.owners import check_folds, check_owners
from pipelines.corpus.rejection import check_rejected, check_trainable
from pipelines.errors import InputError, ReticentError, StoreError
from pipelines.settings.loading import load_settings
from pipelines.store.building.plan import check_settings, make_plan
from pipelines.store.objects import runs
from pipelines.store.objects.session import open_session
from pipelines.store.place.locks import store_lock
from pipelines.store.place.roots import private_umask
from pipelines.store.upkeep.public_cleanup import remove_superseded
from pipelines.store.upkeep.training_schedule import CurrentRelease, current_release
from pipelines.store.upkeep.views import publish_views
from tasks.builders import StageProgress, activate, deactivate

if TYPE_CHECKING:
    from pipelines.settings.corpus import CorpusConfig

_begun: set[str] = set()
"""Specifications of runs that this process has begun."""


@contextmanager
def run_of(config: str, selected: Sequence[str]) -> Iterator[str]:
    """Yields the run that a flow works on: a new run for a settings file, or the run of a given specification.

    A new run is recorded and becomes the latest one when the flow ends well. A failed run keeps what it finished.

    Raises:
        PrivacyGateError: a worker runs the flow, and the run is not defined by the worker's deployment.
        ReticentError: the run cannot begin.
    """
    if config in _begun:
        yield config
        return
    refuse_foreign_run(config)
    if config.endswith(".json"):
        yield config  # the caller has begun the run, and ends it
        return
    apply_defaults()
    check_installation()
    silence_libraries()
    with ends_promptly():
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
        mirror_published(load_settings(Path(config), os.environ))


def _begin(config: str, selected: Sequence[str]) -> str:
    """Begins a run for a flow. An error ends up in Prefect's database, outside the private root, so it must say little.

    Raises:
        ReticentError: an error of the type that `begin` raised, without its message. The message may name files of the
            corpus, which are often named after people, or quote settings such as patterns and lists of names.
    """
    kind: type[ReticentError] = StoreError
    try:
        run = begin(Path(config), os.environ, selected=selected)
        refuse_settings(run)
        return run
    except ReticentError as error:
        kind, shown = type(error), type(error).__name__
    except Exception as error:
        shown = type(error).__name__
    # This is outside the handlers, so that the first error is not the context of this one.
    raise kind(
        f"the run could not begin ({shown}). The message may name input files or quote settings, so it is not shown "
        f"here: `reticent plan {config}` on the worker's machine shows it"
    )


def refuse_settings(run: str) -> None:
    """Stops a run before its first stage if a later stage would refuse its settings.

    Raises:
        ConfigError: a plug-in cannot be imported, something is not installed, a folder is missing.
        ExecutorError: several machines are to train on a file system that they cannot share.
    """
    require_installed(run)
    require_shared_by_machines(run)
    session = open_session(run)
    with private_umask():
        check_settings(session, make_plan(session, None))


@contextmanager
def running(run: str, progress: StageProgress | None = None) -> Iterator[None]:
    """Holds the store's lock and the worker processes of a run."""
    display = ServerProgress(progress) if on_server() else nullcontext(progress)
    with temporary_files(), store_lock(open_session(run).roots.private), display as shown:
        activate(run, shown, executor_of(run))
        try:
            yield
        finally:
            deactivate(run)


def require_usable_input(run: str) -> None:
    """Stops a run whose input was largely unusable. The rejected table can then be inspected.

    Raises:
        InputError: no usable row, more rejected rows than ``corpus.max_rejected_fraction``, none to train on, or, with
            ``corpus.owner_from``, a document without an owner, or an owner in several folds.
    """
    session = open_session(run)
    split = [session.roots.private_files("split", o.key) for o in session.outcomes if o.stage == "split" and o.key]
    figures = [source.find_json("figures.json") or {} for source in split]
    if not figures:
        return
    corpus: CorpusConfig = session.configs["corpus"]  # type: ignore[assignment]
    try:
        if corpus.has_owners:
            from pipelines.corpus.tables import DOCUMENTS  # pyarrow, which a run with nothing to do does not load

            check_owners(figures, corpus.owner_missing)
            tables = (source.table(DOCUMENTS) for source in split)
            check_folds((row["owner"], row["fold"]) for table in tables for row in table.rows(["owner", "fold"]))
        check_rejected(figures, corpus.max_rejected_fraction)
        if "sample" in session.spec.selected:
            check_trainable(figures)
    except InputError as error:
        publish_views(session, session.outcomes)
        raise InputError(f"{error} `reticent inspect rejected --rows 50 --show-text -c SETTINGS` shows it.") from None


def fail(run: str) -> dict[str, Any]:
    """Records a failed run, so that `gc` does not remove what it finished."""
    session = open_session(run)
    extra = {"outputs": {}, "metrics": {}, "state": "failed"}
    return runs.record(session, session.outcomes, extra, make_latest=False)


def finish(run: str) -> dict[str, Any]:
    """Publishes ``latest/`` unless it is a child run, writes the run's record, and returns it."""
    session = open_session(run)
    stays = session.spec.trained_by is not None
    kept = current_release(session.roots, RELEASED) if stays else CurrentRelease()
    shown = [o for o in session.outcomes if not stays or o.stage not in RELEASED]
    outputs = publish_views(session, shown)
    session.stat_cache.save()
    extra = {
        "outputs": {**outputs, **kept.outputs},
        "metrics": kept.metrics if stays else run_metrics(session),
        "warnings": run_warnings(session),
        "state": "completed",
    }
    return runs.record(session, shown, extra, kept=kept.artifacts)


def retire(run: str) -> int | None:
    """Removes tables and reports of earlier runs from the public root, unless the settings keep them.

    Call it when the run no longer holds the store, as the claims of the run say. While another run holds the store,
    nothing is removed, and the next run does it.

    Returns:
        The number of removed folders; None if another run holds the store.
    """
    session = open_session(run)
    shard: Any = session.configs["shard"]
    published = {o.stage for o in session.outcomes if o.key}
    if shard.keep_superseded or not published >= {"publish", "report"}:
        return 0
    return remove_superseded(session.roots, [(o.stage, o.key) for o in session.outcomes if o.key])


def silence_libraries() -> None:
    """Hides messages of libraries that help no user, such as cancelled tasks and numerical warnings."""
    for name in ("uvicorn.error", "prefect.server", "prefect._internal", "asyncio", "absl", "presidio-analyzer"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    if os.environ.get("RETICENT_DEBUG") != "1":
        warnings.simplefilter("ignore")
