"""Overlays: rows that a child run adds or leaves out in training, in ``overlays/<digest>/`` of the private root.

A child run names an overlay (`RunSpec.overlay`), and its digest enters the keys of the stages that train. Without rows
to add or to leave out there is no overlay, and the keys are those of a run without one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.artifacts import Source, Target
from pipelines.context import pseudonym
from pipelines.errors import StoreError
from pipelines.files import fsync_path
from pipelines.store.objects.session import Session
from pipelines.store.place.disk import data_files, digest_file, fsync_tree, remove_tree
from pipelines.store.place.roots import Roots, private_umask

if TYPE_CHECKING:
    from pipelines.training.data.overlay import AddedRow, Place


def overlays_dir(roots: Roots) -> Path:
    """Returns the folder of all overlays."""
    return roots.private / "overlays"


def make_overlay(session: Session, rows: Sequence[AddedRow], excluded: Iterable[Place] = ()) -> str | None:
    """Puts an overlay into the store, redacted as the run's text is.

    Args:
        session: parent of the child runs; its settings say how rows are tokenised and redacted.
        rows: rows to add.
        excluded: rows of the corpus to leave out, by ``doc_id`` and sentence index; without an index, documents.

    Returns:
        The overlay's digest, for `pipelines.store.objects.session.child_of`; None if no row is added or left out.

    Raises:
        ConfigError: a row cannot be used, or a policy cannot be made.
    """
    places = frozenset(excluded)
    if not rows and not places:
        return None
    from pipelines.policies.judging.apply import Redactor
    from pipelines.training.data.overlay import write_overlay_of_run

    configs: Any = session.configs
    roots, folder = session.roots, overlays_dir(session.roots)
    with private_umask():
        folder.mkdir(exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=".", dir=folder))
        try:
            with Redactor.from_spec(configs["redact"].redactor_spec(configs["corpus"].separator())) as redactor:
                write_overlay_of_run(
                    Target(folder=work), rows, places, configs=configs, secret=roots.secret, redactor=redactor
                )
            digest = _digest(roots, work)
            if not (folder / digest).exists():
                fsync_tree(work)
                work.rename(folder / digest)
                fsync_path(folder)
        finally:
            remove_tree(work)
    return digest


def overlay_of(session: Session) -> Source | None:
    """Returns the run's overlay; None if it has none.

    Raises:
        StoreError: the overlay is gone, or was changed.
    """
    digest = session.spec.overlay
    if digest is None:
        return None
    folder = overlays_dir(session.roots) / digest
    if not folder.is_dir() or _digest(session.roots, folder) != digest:
        raise StoreError("the overlay of this run is gone or damaged; make it again and start a new run")
    return Source(folder=folder)


def _digest(roots: Roots, folder: Path) -> str:
    files = (part for path in data_files(folder) for part in (path.name, digest_file(path)))
    return pseudonym(roots.secret, "overlay", *files)
