"""The places that record the length of the privacy ledger, such as the remains of releases whose models are gone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pipelines.files import read_json
from pipelines.graph import GRAPH
from pipelines.store.place import versions
from pipelines.store.place.disk import digest_file, numbered
from pipelines.store.place.identity import FILE as IDENTITY
from pipelines.store.place.identity import anchor_of
from pipelines.store.place.ledger_file import Anchor
from pipelines.store.place.location import noted_lengths
from pipelines.store.place.roots import Roots
from pipelines.store.place.seals import SealError, read_sealed, write_sealed

LINEAGE = "ledger"
"""The field of a manifest, or of its lineage, that holds an anchor."""
EVENTS = "events.json"
_REMOVED = "releases"
"""The folder of the private root for the remains of releases whose models were removed."""


def release_stages() -> tuple[str, ...]:
    """Returns the stages that publish a model trained on private records."""
    return tuple(stage.name for stage in GRAPH.values() if stage.is_release)


def anchors(roots: Roots) -> list[tuple[str, Anchor]]:
    """Returns every recorded length of the ledger, with the name of the place that holds it.

    Raises:
        SealError: the remains of a removed release were changed.
    """
    found = [(f"{roots.private / IDENTITY}", anchor_of(roots.private)), *noted_lengths(roots)]
    for stage in release_stages():
        for path in sorted((roots.private / "manifests" / stage).glob("*.json")):
            found.append((f"the manifest {path}", _of_lineage(read_json(path))))
        places = (roots.public / "objects" / stage, roots.public / "quarantine")
        for path in sorted(p for place in places for p in place.glob("*/manifest.json")):
            document = read_json(path)
            found.append((f"the manifest {path}", Anchor.from_json((document or {}).get(LINEAGE))))
    found += [(f"{path}", Anchor.from_json(document.get(LINEAGE))) for path, document in removed_releases(roots)]
    return [(where, anchor) for where, anchor in found if anchor is not None]


def _of_lineage(document: Any) -> Anchor | None:
    try:
        return Anchor.from_json(document["lineage"].get(LINEAGE))
    except (TypeError, KeyError, AttributeError):
        return None


def removed_releases(roots: Roots) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yields the remains of releases whose models were removed.

    Raises:
        SealError: one of them was changed.
    """
    for path in sorted((roots.private / _REMOVED).glob("*.json")):
        document = read_sealed(path, "release", roots.secret)
        if document is not None:
            yield path, document


def events_of(roots: Roots, stage: str, key: str) -> dict[str, Any] | None:
    """Reads what the training of a release recorded; None if the file is gone, or differs from its manifest."""
    path = roots.object_dir("private", stage, key) / EVENTS
    manifest, document = read_json(roots.manifest_path(stage, key)), read_json(path)
    try:
        is_whole = manifest["files"][f"private/{EVENTS}"]["sha256"] == digest_file(path)
    except (TypeError, KeyError, OSError):
        return None
    return document if is_whole and isinstance(document, dict) else None


def remember_release(roots: Roots, stage: str, key: str) -> None:
    """Keeps what the ledger is checked against, before a release's manifest is removed."""
    if stage not in release_stages():
        return
    events = events_of(roots, stage, key)
    anchor = _of_lineage(read_json(roots.manifest_path(stage, key)))
    document: Mapping[str, Any] = {
        "schema_version": versions.REMOVED,
        "stage": stage,
        "key": key,
        "events": events,
        LINEAGE: anchor.to_json() if anchor else None,
    }
    folder = roots.private / _REMOVED
    folder.mkdir(mode=0o700, exist_ok=True)
    write_sealed(numbered(folder, f"{key}-{{}}.json"), document, "release", roots.secret)


def set_changed_aside(roots: Roots) -> list[str]:
    """Renames changed remains of removed releases, so that nothing reads them. Returns the keys in their names."""
    keys = []
    for path in sorted((roots.private / _REMOVED).glob("*.json")):
        try:
            read_sealed(path, "release", roots.secret)
        except SealError:
            path.rename(path.with_suffix(".damaged"))
            keys.append(path.stem.rpartition("-")[0])
    return keys
