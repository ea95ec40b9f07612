"""Gets a stage's output: finds it, or locks its key, builds it and publishes it."""

from __future__ import annotations

import multiprocessing
import time
import traceback
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from pipelines.artifacts import Artifact, Output
from pipelines.context import Environment, Outside, Progress, StageContext, silent, unsearched
from pipelines.errors import ConfigError, ReticentError, StageError, StoreError
from pipelines.files import write_json
from pipelines.graph import GRAPH
from pipelines.processes import withhold_library_messages
from pipelines.stage import LEFT_OUT, OUTSIDE, OVERLAY, SOURCE, Input
from pipelines.store.building.lookup import find_any_build, find_published, must_build, releases_for, resolve_key
from pipelines.store.building.published_tables import note_table
from pipelines.store.ledger.documents import split_keys
from pipelines.store.ledger.ledger import StoreLedger
from pipelines.store.objects import manifest as manifests
from pipelines.store.objects.keys import built_with, stage_seed
from pipelines.store.objects.manifest import Manifest
from pipelines.store.objects.overlays import overlay_of
from pipelines.store.objects.public_search import search_public_files
from pipelines.store.objects.publish import prepare_build, publish, publish_earlier_build, quarantine, scratch_dir
from pipelines.store.objects.reviews import reviews_of
from pipelines.store.objects.session import Session
from pipelines.store.place.disk import DISK_ERRORS, disk_error
from pipelines.store.place.locks import key_lock, store_lock
from pipelines.store.place.outcome import Outcome, PartitionKeys
from pipelines.store.place.roots import REBUILDABLE, RENDEZVOUS, private_umask
from pipelines.walks import upstream


def probe(session: Session, stage: str, partition: str | None, key: str) -> Outcome | None:
    """Returns the outcome of a cached or skipped stage; None if the stage must be built.

    Also adds the stage's published rows to the ledger, if the ledger lacks them.

    Raises:
        LedgerError: the ledger was changed or damaged.
        ConfigError: the stage must be built and a selected stage needs it, but the run may not build it.
    """
    if not must_build(session, stage, partition) and (manifest := find_published(session, stage, key)) is not None:
        if GRAPH[stage].publishes_rows:
            note_table(session, key, manifest.stats)
        return Outcome(stage=stage, partition=partition, state="cached", key=key)
    if stage not in session.spec.selected:
        if stage in upstream(session.spec.selected):
            raise ConfigError(
                f"stage {GRAPH[stage].table} is not cached, and the stages that you selected need it; "
                "run without --from and --only, or select it as well"
            )
        return Outcome(stage=stage, partition=partition, state="skipped", key=None)
    return None


def execute(
    session: Session,
    stage: str,
    partition: str | None,
    inputs: Mapping[str, PartitionKeys],
    progress: Progress = silent,
    keyed: tuple[str, Mapping[str, object]] | None = None,
) -> Outcome:
    """Returns the stage's output from the store, building it first if need be.

    Args:
        inputs: artifacts of every input stage of the graph.
        progress: callback for the progress of the stage.
        keyed: result of `resolve_key` for them, if this process knows it already.

    Raises:
        StageError: the stage failed; the traceback is kept in the private root.
        ReticentError: the stage raised it, with a message for the user.
        StoreError: the store cannot be written.
    """
    started = time.monotonic()
    with private_umask(), store_lock(session.roots.private):
        key, ingredients = keyed or resolve_key(session, stage, partition, inputs)
        outcome = probe(session, stage, partition, key)
        if outcome is None:
            waiting = lambda: progress(0, None, "waiting for another run that builds the same")  # noqa: E731
            try:
                with key_lock(session.roots.locks, key, waiting):
                    outcome = _build_locked(session, stage, partition, inputs, key, ingredients, progress)
            except OSError as error:
                raise disk_error(error) from None
        session.built[(stage, partition)] = outcome.key or ""
    return Outcome(
        stage=stage, partition=partition, state=outcome.state, key=outcome.key, seconds=time.monotonic() - started
    )


def _build_locked(
    session: Session,
    stage: str,
    partition: str | None,
    inputs: Mapping[str, PartitionKeys],
    key: str,
    ingredients: Mapping[str, object],
    progress: Progress,
) -> Outcome:
    forced = must_build(session, stage, partition)
    if not forced and find_published(session, stage, key) is not None:  # another run built it while we waited
        return Outcome(stage=stage, partition=partition, state="cached", key=key)
    kept = None if forced else find_any_build(session, stage, key)
    if kept is not None:  # a comparison made it, so it is only published
        if GRAPH[stage].publishes_rows:
            note_table(session, key, kept.stats)
        publish_earlier_build(session.roots, kept)
        return Outcome(stage=stage, partition=partition, state="cached", key=key)
    is_published = session.spec.purpose == "release" or "public" not in GRAPH[stage].roots
    if not is_published and session.roots.object_dir("public", stage, key).exists():
        raise StoreError(
            f"the artifact {key[:12]} of stage {GRAPH[stage].shown_name}, which a run has published, is damaged, and "
            "this run publishes nothing, so it cannot replace the artifact; rebuild it first, with `reticent run`"
        )
    if not forced and session.roots.manifest_path(stage, key).exists():
        quarantine(session.roots, stage, key)  # damaged; with --force, the old artifact stays until publishing
    session.verified.discard((stage, key))
    folders = prepare_build(session.roots, stage, key, is_published=is_published)
    public_dir = folders.get("public") if is_published else folders["private"] / manifests.UNPUBLISHED
    if public_dir is not None:
        public_dir.mkdir(exist_ok=True)
    ledger = None
    if GRAPH[stage].is_release:
        ledger = StoreLedger(session, key, scratch_dir(session.roots, key), inputs, split_keys(session))
    read = _input_artifacts(session, stage, inputs)
    out = Output(
        folder=folders["private"],
        public_folder=public_dir,
        scratch_folder=scratch_dir(session.roots, key),
        failures_folder=session.roots.private / "failures" / f"{stage}-{key[:12]}",
        # Libraries open these files by path, and they hold no secret. An encrypted store makes them each time.
        cache=None if session.spec.store_key else session.roots.cache / REBUILDABLE,
    )
    is_searched = (
        public_dir is not None and not session.makes_unpublishable(stage) and not GRAPH[stage].is_post_processed
    )
    context = StageContext(
        stage=stage,
        partition=partition,
        configs={t: session.configs[t] for t in GRAPH[stage].configs if GRAPH[stage].fields.get(t) != ()},
        inputs=read,
        outside=Outside(
            pieces=session.pieces(partition) if partition and GRAPH[stage].reads(SOURCE) else (),
            reviews=reviews_of(session.roots, session.spec.reviews),
            releases=releases_for(session, stage, partition, inputs),
            overlay=overlay_of(session) if GRAPH[stage].reads(OVERLAY) else None,
            left_out=session.spec.left_out if GRAPH[stage].reads(LEFT_OUT) else {},
        ),
        out=out,
        seed=stage_seed(session.spec.seed, stage),
        runtime=session.spec.runtime,
        run=Environment(
            progress=progress,
            secret=session.roots.secret,
            ledger=ledger,
            processes=_own_processes(session, stage),
            rendezvous=session.roots.cache / RENDEZVOUS,
            search=partial(search_public_files, stage, read, out) if is_searched else unsearched,
        ),
    )
    started = time.monotonic()
    stats = _run_guarded(session, stage, partition, key, context)
    files = {path: entry for root, folder in folders.items() for path, entry in manifests.measure(folder, root).items()}
    lineage = {
        "ingredients": ingredients,
        "inputs": {name: [list(pair) for pair in inputs[name]] for name in context.inputs},
        **({"built_with": built_with(session, stage)} if GRAPH[stage].has_recipe else {}),
        **({"ledger": ledger.anchor.to_json()} if ledger is not None and ledger.anchor is not None else {}),
        **({} if is_published else {manifests.PURPOSE: session.spec.purpose}),
    }
    if GRAPH[stage].publishes_rows:
        note_table(session, key, stats)
    publish(session.roots, Manifest(stage, key, files, stats, lineage, time.monotonic() - started))
    session.verified.add((stage, key))
    return Outcome(stage=stage, partition=partition, state="completed", key=key)


def _own_processes(session: Session, stage: str) -> int:
    """Returns a partition's share of the run's workers; 1 in a process that may have no children (Dask's and Ray's)."""
    if multiprocessing.current_process().daemon:
        return 1
    return max(1, session.spec.runtime.workers // max(1, len(session.partition_names(stage))))


def _input_artifacts(
    session: Session, stage: str, inputs: Mapping[str, PartitionKeys]
) -> dict[str, tuple[Artifact, ...]]:
    return {
        edge.stage: tuple(_artifact(session, edge, partition, key) for partition, key in inputs[edge.stage])
        for edge in GRAPH[stage].edges_read(session.configs)
        if edge.stage not in OUTSIDE and (edge.stage in inputs or not edge.optional)
    }


def _artifact(session: Session, edge: Input, partition: str | None, key: str) -> Artifact:
    public = "public" in GRAPH[edge.stage].roots
    manifest = manifests.of_input(session.roots, edge.stage, key)
    return Artifact(
        stage=edge.stage,
        partition=partition,
        key=key,
        folder=session.roots.object_dir("private", edge.stage, key),
        public_folder=manifest.public_dir(session.roots) if public else None,
        recipe=manifest.recipe,
    )


def _run_guarded(
    session: Session, stage: str, partition: str | None, key: str, context: StageContext
) -> dict[str, object]:
    """Runs the stage. An unexpected error may quote private text, so only our own messages get out."""
    try:
        withhold_library_messages()
        stats = dict(GRAPH[stage].run()(context))
        if context.out.public_folder is not None:
            context.run.progress(0, None, "searching what is to be published")
            context.run.search(context.out.public)
        return stats
    except ReticentError as error:
        error.__traceback__ = None
        error.__cause__ = error.__context__ = None
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in DISK_ERRORS:
            raise disk_error(error) from None
        note = _keep_traceback(session, stage, key)
        name = GRAPH[stage].shown_name
        where = f"{name} of partition {partition}" if partition else name
        raise StageError(
            f"stage {where} failed with {type(error).__name__}; the traceback is in the private root: {note}"
        ) from None


def _keep_traceback(session: Session, stage: str, key: str) -> Path:
    path = session.roots.private / "failures" / f"{stage}-{key[:12]}.json"
    try:
        write_json(path, {"stage": stage, "key": key, "run": session.spec.run_id, "traceback": traceback.format_exc()})
    except OSError:
        return path.parent
    return path
