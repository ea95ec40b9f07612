"""Removes tables and reports of earlier runs from the public root when a run has published new ones.

Claims are about the files in the public root. A table that was published under another policy may hold a row that is
private now, and an older report may say more than the newest. The newest claims cover neither. Models stay, because
each is a release of its own, which the privacy ledger charges for whether it is still there or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from pipelines.errors import StoreError
from pipelines.graph import GRAPH
from pipelines.store.objects.anchors import release_stages
from pipelines.store.objects.publish import remove_artifact
from pipelines.store.place.disk import remove_tree
from pipelines.store.place.locks import exclusive_store_lock
from pipelines.store.place.roots import Roots
from pipelines.store.upkeep.maintenance import shown_artifacts


def superseded(roots: Roots, used: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str, Path]]:
    """Finds public folders, other than models, that neither given artifacts nor ``latest/`` use: stage, key, folder.

    Folders of a stage that no longer publishes are always among them.

    Args:
        roots: the store.
        used: (stage, key) of the artifacts that the newest run made or found.
    """
    kept = {*used, *shown_artifacts(roots)}
    for folder in sorted((roots.public / "objects").glob("*/*")):
        stage, key = folder.parent.name, folder.name
        if stage in release_stages():
            continue
        if (stage, key) not in kept or not _publishes(stage):
            yield stage, key, folder
    for folder in sorted((roots.public / "quarantine").glob("*")):
        stage = folder.name.partition("-")[0]
        if stage not in release_stages():
            yield stage, folder.name, folder


def _publishes(stage: str) -> bool:
    return stage in GRAPH and "public" in GRAPH[stage].roots


def remove_superseded(roots: Roots, used: Iterable[tuple[str, str]]) -> int | None:
    """Removes the `superseded` folders, which can be made again from the private root.

    Returns:
        The number of removed folders; None if nothing was removed because a run is using the store.
    """
    try:
        with exclusive_store_lock(roots.private):
            removed = list(superseded(roots, used))
            for stage, key, folder in removed:
                if _publishes(stage):
                    remove_artifact(roots, stage, key)
                remove_tree(folder)
    except StoreError:
        return None
    return len(removed)
