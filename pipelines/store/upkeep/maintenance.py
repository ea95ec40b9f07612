"""Maintenance of a store: ``verify``, ``gc`` and ``adopt``."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.errors import ConfigError, StoreError
from pipelines.graph import GRAPH
from pipelines.stage import ROOTS, Root
from pipelines.store.building.lookup import compute_key
from pipelines.store.building.plan import present_inputs
from pipelines.store.ledger.check import check_releases
from pipelines.store.ledger.ledger import read_ledger
from pipelines.store.objects import manifest as manifests
from pipelines.store.objects import runs
from pipelines.store.objects.anchors import remember_release
from pipelines.store.objects.forgotten import read_forgotten
from pipelines.store.objects.manifest import Manifest
from pipelines.store.objects.overlays import overlays_dir
from pipelines.store.objects.publish import (
    is_left_over,
    joint_manifest_damage,
    prepare_build,
    publish,
    quarantine,
    remove_artifact,
    root_manifest_damage,
)
from pipelines.store.objects.session import Session
from pipelines.store.place.disk import remove_tree
from pipelines.store.place.ledger_file import LedgerError
from pipelines.store.place.location import MARKER, marker_problem
from pipelines.store.place.locks import exclusive_store_lock, key_lock, store_lock
from pipelines.store.place.roots import REBUILDABLE, SAMPLE_EXAMPLES, Roots, private_umask
from pipelines.store.place.seals import SealError
from pipelines.store.place.statcache import cache_problem
from pipelines.store.upkeep.views import drop_dangling
from pipelines.walks import source_and_sink_stages

LEDGER = "ledger"
DOCUMENTS = "documents"
"""The entries that `verify` checks in addition to the artifacts of stages."""


@dataclass(frozen=True)
class Checked:
    """The result of verifying an artifact, or one of `LEDGER` and `DOCUMENTS`. ``problem`` is None if it is whole."""

    stage: str
    key: str
    problem: str | None


def verify(roots: Roots, *, repair: bool = False) -> list[Checked]:
    """Compares every artifact with its manifest, byte by byte, and the store's own documents with their seals.

    Args:
        repair: true to move damaged artifacts to ``quarantine/``, so that the next run rebuilds them, and to remove
            their views from ``latest/``.
    """
    checked: list[Checked] = []
    if not roots.private.is_dir():
        return checked
    with store_lock(roots.private):
        for stage, key in sorted({*existing(roots), *_without_manifest(roots)}):
            problem = _problem(roots, stage, key)
            if problem and repair:
                with key_lock(roots.locks, key):
                    if _problem(roots, stage, key):  # a run may have rebuilt it meanwhile
                        quarantine(roots, stage, key)
            checked.append(Checked(stage, key, problem))
        checked += [Checked(LEDGER, "releases", _ledger_problem(roots))]
        documents = [*runs.changed_documents(roots), *runs.missing_documents(roots)]
        checked += [Checked(DOCUMENTS, path, problem) for path, problem in documents]
        checked += [Checked(DOCUMENTS, MARKER, problem) for problem in [marker_problem(roots)] if problem]
        for path in (roots.cache / "inputs.json", roots.cache / "code.json"):
            if problem := cache_problem(path, roots.secret):
                checked.append(Checked(DOCUMENTS, path.relative_to(roots.private).as_posix(), problem))
                if repair:
                    path.unlink()
        if repair:
            drop_dangling(roots)
    return checked


def _ledger_problem(roots: Roots) -> str | None:
    """Says why the ledger is damaged, or contradicts other records of releases; None if neither is so."""
    try:
        check_releases(roots, read_ledger(roots))
        read_forgotten(roots)
    except LedgerError as error:
        return str(error)
    except SealError:
        return None  # the list of forgotten documents, which `runs.changed_documents` reports
    return None


def _problem(roots: Roots, stage: str, key: str) -> str | None:
    manifest = manifests.load(roots, stage, key)
    if manifest is None and not roots.manifest_path(stage, key).exists():
        return "its manifest is missing; the next run makes the artifact again where it is needed"
    if manifest is None:
        return "its manifest is damaged"
    # The joint manifest comes first, because otherwise its entries about files cannot be relied on.
    return (
        joint_manifest_damage(roots, manifest)
        or manifests.damage(roots, manifest, full=True)
        or root_manifest_damage(roots, manifest)
    )


def _without_manifest(roots: Roots) -> Iterable[tuple[str, str]]:
    """Finds artifacts whose manifest is gone. The remains of a kill still have their work folder, and do not count."""
    for root in ROOTS:
        for folder in (roots.of(root) / "objects").glob("*/*"):
            stage, key = folder.parent.name, folder.name
            is_unfinished = roots.work_dir("private", key).exists()  # first, because a run may publish it just now
            if stage in GRAPH and not is_unfinished and not roots.manifest_path(stage, key).exists():
                yield stage, key


def existing(roots: Roots) -> Iterable[tuple[str, str]]:
    """Yields every existing artifact as (stage, key)."""
    for path in sorted((roots.private / "manifests").glob("*/*.json")):
        if path.parent.name in GRAPH:
            yield path.parent.name, path.stem


def gc(
    roots: Roots, *, keep_runs: int, dry_run: bool, work_days: float = 7.0, failure_days: float = 30.0
) -> dict[str, Any]:
    """Removes artifacts that no recent run used, old work and failures, quarantine, sample examples, and unused views.

    Args:
        keep_runs: number of the newest runs that keep their artifacts; at least 1.
        dry_run: true to only count.
        work_days: number of days after their last use to keep unfinished work (checkpoints of killed runs), rebuildable
            files, and overlays that no kept run trained with.
        failure_days: number of days to keep tracebacks and the gate's hits.

    Returns:
        Counts: ``num_objects``, ``num_bytes``, ``num_kept``.

    Raises:
        StoreError: a run is using the store, or a run's record was changed.
        ConfigError: ``keep_runs`` is below 1.
    """
    if keep_runs < 1:
        raise ConfigError("--keep-runs must be at least 1")
    with exclusive_store_lock(roots.private):
        if changed := runs.changed_documents(roots):
            raise StoreError(
                f"{changed[0][1]}; what that run used is not known, so nothing is removed. Restore the file, or remove "
                "its folder to forget the run (`reticent verify` lists all such files)"
            )
        records = list(runs.records(roots))
        listed = list(existing(roots))
        kept_records = _kept(records, runs.latest(roots), keep_runs)
        used = _used(kept_records) | shown_artifacts(roots)
        stale: list[Path] = []
        kept = 0
        for root in ROOTS:
            for folder in (roots.of(root) / "objects").glob("*/*"):
                if (folder.parent.name, folder.name) in used:
                    kept += root == "private"
                else:
                    stale.append(folder)
            stale += _stale_work(roots, root, {key for _, key in listed}, work_days)
            stale += (roots.of(root) / "quarantine").glob("*")
        stale += (roots.private / SAMPLE_EXAMPLES).glob("*")  # it quotes the text, and takes a minute to make again
        stale += _old(roots.private / "failures", failure_days)
        stale += _old(roots.cache / REBUILDABLE, work_days)
        overlays = {record.get("overlay") for record in kept_records}
        stale += [folder for folder in _old(overlays_dir(roots), work_days) if folder.name not in overlays]
        num_bytes = sum(f.stat().st_size for path in stale for f in (path, *path.rglob("*")) if f.is_file())
        if not dry_run:
            for stage, key in listed:
                if (stage, key) not in used:
                    remember_release(roots, stage, key)
                    remove_artifact(roots, stage, key)
            for path in stale:
                remove_tree(path) if path.is_dir() else path.unlink(missing_ok=True)
            # Every run compares its input with that of the last training (`pipelines.store.upkeep.training_schedule`).
            trained_by = {record.get("trained_by") for record in kept_records}
            for record in records:
                if record not in kept_records and record["run_id"] not in trained_by:
                    remove_tree(roots.runs / str(record["run_id"]))
            for folder in (*(roots.private / "manifests").iterdir(), *(roots.of(r) / "latest" for r in ROOTS)):
                for temporary in folder.glob(".*.tmp"):
                    temporary.unlink()  # the remains of a kill
            remove_dead_views(roots)
            for lock in roots.locks.glob("*.lock"):
                lock.unlink()  # nobody holds one, because we hold the exclusive store lock
    return {"num_objects": len(stale), "num_bytes": num_bytes, "num_kept": kept}


def _kept(records: list[dict[str, Any]], latest: dict[str, Any] | None, keep_runs: int) -> list[dict[str, Any]]:
    """Selects the newest records, the record of the latest run, and their child runs.

    Records sort by the start time of their run, so the latest run is not the first if the clock was set back. A child
    run is kept as long as all artifacts of its parent are, and does not count. So a later run with nothing to do does
    not end the audits of a model that is still the latest.
    """
    by_id = {r["run_id"]: r for r in records}
    kept = _newest([r for r in records if r.get("parent") not in by_id], keep_runs)
    if latest is not None and latest not in kept:
        kept = [latest, *kept]
    used = _used(kept)
    selected = {r["run_id"]: r for r in kept}
    for child in records:
        parent = by_id.get(child.get("parent"))
        if parent is not None and _used([parent]) <= used:
            selected |= {child["run_id"]: child, parent["run_id"]: parent}
    return list(selected.values())


def _used(records: Iterable[dict[str, Any]]) -> set[tuple[str, str]]:
    """Returns (stage, key) of the artifacts that runs made or found."""
    return {(stage, key) for record in records for stage, _, key in record.get("artifacts", [])}


def _newest(records: list[dict[str, Any]], keep_runs: int) -> list[dict[str, Any]]:
    """Returns the records, newest first, down to the ``keep_runs``-th that covers the whole graph.

    Runs of some stages, failed runs and child runs do not count. A run of an older version covers the graph although it
    lacks some of today's stages.
    """
    whole = 0
    ends = source_and_sink_stages()
    for number, record in enumerate(records, 1):
        covered = {stage for stage, _, _ in record.get("artifacts", [])}
        whole += record.get("state") == "completed" and covered >= ends and not runs.is_child(record)
        if whole == keep_runs:
            return records[:number]
    return records


def shown_artifacts(roots: Roots) -> set[tuple[str, str]]:
    """Returns (stage, key) of the artifacts behind ``latest/``."""
    shown = set()
    for root in ROOTS:
        objects = (roots.of(root) / "objects").resolve()
        for link in (roots.of(root) / "latest").iterdir():
            for path in (link, *(link.iterdir() if link.is_dir() else ())):
                target = path.resolve()
                if objects in target.parents:
                    stage, key = target.relative_to(objects).parts[:2]
                    shown.add((stage, key))
    return shown


def _stale_work(roots: Roots, root: Root, published: set[str], days: float) -> list[Path]:
    """Finds work folders that a kill left behind, and work folders that were not used for long.

    A kill leaves one after publishing, or an empty one while an artifact is removed (`remove_artifact`).
    """
    work = roots.of(root) / "work"
    done = [
        f
        for f in work.iterdir()
        if (f.name in published and is_left_over(roots, f.name)) or (f.is_dir() and not any(f.iterdir()))
    ]
    return [*done, *(f for f in _old(work, days) if f not in done)]


def _old(folder: Path, days: float) -> list[Path]:
    """Finds the entries of a folder that were not changed for so many days, nor anything below them."""
    limit = time.time() - days * 86_400
    return [
        path
        for path in (folder.iterdir() if folder.is_dir() else ())
        if max(p.lstat().st_mtime for p in (path, *path.rglob("*"))) < limit
    ]


def remove_dead_views(roots: Roots) -> None:
    """Removes views that ``latest/`` does not show."""
    for root in ROOTS:
        base = roots.of(root)
        live = {link.resolve() for link in (base / "latest").iterdir() if link.is_symlink()}
        for view in (base / "views").glob("*/*"):
            if view.resolve() not in live:
                remove_tree(view)


def adopt(session: Session, stage: str, old_key: str) -> str:
    """Keeps an expensive artifact although the code or the environment changed, and returns its new key.

    The artifact is published again under the stage's present key. Its lineage records the old key.

    Args:
        stage: name of a stage of the graph.
        old_key: key of an existing artifact, or its first 8 or more characters.

    Raises:
        ConfigError: there is no such artifact; its settings, inputs or seed differ from the present ones; or an input
            is not cached.
    """
    with private_umask(), store_lock(session.roots.private):
        source = _find_by_prefix(session.roots, stage, old_key)
        partition = _partition_of(session, stage, source.key)
        inputs = present_inputs(session, stage, partition)
        key, ingredients = compute_key(session, stage, partition, inputs)
        if key == source.key:
            return key
        old = source.lineage["ingredients"]
        compared = ("config", "inputs", "seed", "purpose")
        different = [name for name in compared if old.get(name) != ingredients.get(name)]
        if different:
            raise ConfigError(
                f"artifact {source.key[:12]} of stage {stage} was made from other {', '.join(different)}; "
                "only a change of code or environment can be adopted"
            )
        with key_lock(session.roots.locks, key):
            if manifests.load(session.roots, stage, key) is not None:
                return key
            folders = prepare_build(session.roots, stage, key, is_published="public" in source.roots)
            for path in source.files:
                root: Root = "private" if path.startswith("private/") else "public"
                name = path.partition("/")[2]
                target = folders[root] / name
                target.parent.mkdir(parents=True, exist_ok=True)
                _link_or_copy(session.roots.object_dir(root, stage, source.key) / name, target)
            lineage = {**source.lineage, "ingredients": ingredients, "adopted_from": source.key}
            publish(session.roots, Manifest(stage, key, source.files, source.stats, lineage, source.seconds))
    return key


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _find_by_prefix(roots: Roots, stage: str, prefix: str) -> Manifest:
    if stage not in GRAPH:
        raise ConfigError(f"there is no stage {stage}; the stages are {', '.join(GRAPH)}")
    found = [key for name, key in existing(roots) if name == stage and len(prefix) >= 8 and key.startswith(prefix)]
    if len(found) != 1:
        raise ConfigError(
            f"{len(found)} artifacts of stage {stage} have a key that starts with {prefix!r} "
            "(give at least 8 characters; `reticent status` lists the keys)"
        )
    manifest = manifests.load(roots, stage, found[0])
    if manifest is None or manifests.damage(roots, manifest, full=True):
        raise StoreError(f"artifact {found[0][:12]} of stage {stage} is damaged and cannot be adopted")
    return manifest


def _partition_of(session: Session, stage: str, key: str) -> str | None:
    if not GRAPH[stage].partitioned:
        return None
    for record in runs.records(session.roots):
        for name, partition, used in record.get("artifacts", []):
            if name == stage and used == key and isinstance(partition, str):
                return partition
    raise ConfigError(f"no run record says which partition artifact {key[:12]} of stage {stage} belongs to")
