"""``latest/``: stable paths to the newest run's tables and folders, switched in one step.

A view is a folder of relative links, one per partition, so that ``pl.scan_parquet("…/latest/redacted/*.parquet")``
reads exactly one run. Links in private views are numbered in corpus order. Links in the public root are numbered by
content digest, because corpus order is not public.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipelines.graph import GRAPH
from pipelines.stage import ROOTS, Root
from pipelines.store.objects import manifest as manifests
from pipelines.store.objects.session import Session
from pipelines.store.place.disk import made_whole, replace_link
from pipelines.store.place.locks import key_lock
from pipelines.store.place.outcome import Outcome
from pipelines.store.place.roots import Roots, make_readable
from pipelines.store.upkeep.report_view import report_view
from pipelines.store.upkeep.samples import SampledFrom

_FOLDERS: tuple[tuple[str, str, Root, str], ...] = (
    ("model", "train", "public", "model"),
    ("private_model", "train", "private", "model"),
    ("public_report", "report", "public", ""),
)
"""Whole folders under ``latest/``: name, stage, root, path inside the artifact."""
_LOCK = "latest"
"""The lock for changes to ``latest/``, so that no process drops a link that a run has just mended."""


def publish_views(session: Session, outcomes: Iterable[Outcome]) -> dict[str, str]:
    """Points ``latest/`` at this run's artifacts and returns the output paths by name.

    Stages that the run skipped keep their earlier view, and are not among the outputs. A child run has no outputs.
    """
    if session.spec.purpose != "release":
        return {}
    with key_lock(session.roots.locks, _LOCK):
        return _publish_views(session, outcomes)


def drop_dangling(roots: Roots) -> list[str]:
    """Removes damaged views from ``latest/`` until a run puts them back. Returns their names.

    A view with an artifact in quarantine is dropped as a whole, because a table with missing rows would look complete.
    """
    dropped = []
    with key_lock(roots.locks, _LOCK):
        for root in ROOTS:
            for link in sorted((roots.of(root) / "latest").iterdir()):
                inside = link.iterdir() if link.is_dir() else ()
                if not all(path.exists() for path in (link, *inside)):
                    link.unlink()
                    dropped.append(link.name)
    return dropped


def _publish_views(session: Session, outcomes: Iterable[Outcome]) -> dict[str, str]:
    for folder in (session.roots.public / "objects").iterdir():
        make_readable(folder)  # earlier versions left these folders closed
    by_stage: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        if outcome.key is not None:
            by_stage.setdefault(outcome.stage, []).append(outcome)
    outputs: dict[str, str] = {}
    for stage in GRAPH.values():
        found = by_stage.get(stage.name, [])
        if len(found) != len(session.partition_names(stage.name)):
            continue
        for table in stage.tables:
            files = [
                session.roots.object_dir(table.root, stage.name, o.key) / table.file for o in found if o.key is not None
            ]
            if table.root == "public":
                files = _by_content(session, stage.name, table.file, found)
            view = _make_view(session.roots, table.root, table.name, files)
            link = session.roots.of(table.root) / "latest" / table.name
            replace_link(link, view)
            outputs[table.name] = str(link)
    for name, stage_name, root, inside in _FOLDERS:
        for outcome in by_stage.get(stage_name, []):
            folder = session.roots.object_dir(root, stage_name, outcome.key or "") / inside
            link = session.roots.of(root) / "latest" / name
            if folder.is_dir():
                replace_link(link, folder)
                outputs[name] = str(link)
            else:
                link.unlink(missing_ok=True)  # a method without any bound publishes no model
    for outcome in by_stage.get("report", ()):
        shards = [o.key for o in by_stage.get("shard", ()) if o.key is not None]
        sampled = _sampled(session, by_stage)
        view = report_view(session.roots, session.spec.run_id, outcome.key or "", shards, sampled)
        link = session.roots.private / "latest" / "report"
        replace_link(link, view)
        outputs["report"] = str(link)
    for name in ("report", "public_report"):
        page = Path(outputs.pop(name, "")) / "report.html"
        if page.is_file():
            outputs[name] = str(page)
    return outputs


def _sampled(session: Session, by_stage: Mapping[str, Sequence[Outcome]]) -> SampledFrom | None:
    """Returns what samples come from; None if the settings ask for none, or a stage before was skipped."""
    sentences, redacted = ([o.key or "" for o in by_stage.get(stage, ())] for stage in ("split", "redact"))
    config: Any = session.configs["report"]
    if not config.show_samples or not sentences or len(sentences) != len(redacted):
        return None
    model = session.roots.public / "latest" / "model"
    return SampledFrom(partitions=tuple(zip(sentences, redacted, strict=True)), model=model)


def _by_content(session: Session, stage: str, file: str, outcomes: Sequence[Outcome]) -> list[Path]:
    dated = []
    for outcome in outcomes:
        manifest = manifests.load(session.roots, stage, outcome.key or "")
        if manifest is not None:
            path = session.roots.object_dir("public", stage, manifest.key) / file
            dated.append((manifest.files[f"public/{file}"]["sha256"], path))
    return [path for _, path in sorted(dated)]


def _make_view(roots: Roots, root: Root, name: str, files: Sequence[Path]) -> Path:
    base = roots.of(root)
    digest = hashlib.sha256("\0".join(os.path.relpath(f, base) for f in files).encode()).hexdigest()[:16]
    target = base / "views" / name / digest
    if not target.is_dir():
        with made_whole(target) as building:
            for number, file in enumerate(files):
                (building / f"part-{number:05d}.parquet").symlink_to(os.path.relpath(file, target))
    if root == "public":
        make_readable(target.parent)
        make_readable(target)
    return target
