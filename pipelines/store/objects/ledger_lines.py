"""Reads and appends lines of the store's privacy ledger, under its lock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipelines.files import fsync_path, hold_lock
from pipelines.store.objects.anchors import anchors
from pipelines.store.place import ledger_file
from pipelines.store.place.ledger_file import FILE, WAY_OUT, Anchor, LedgerError
from pipelines.store.place.location import note_ledger
from pipelines.store.place.roots import Roots
from pipelines.store.place.seals import SealError


def ledger_dir(roots: Roots) -> Path:
    """Returns the ledger's folder in the private root."""
    return roots.private / "ledger"


@contextmanager
def locked(roots: Roots) -> Iterator[Path]:
    """Holds the ledger's lock and yields its path. The kernel frees the lock when the holder dies."""
    folder = ledger_dir(roots)
    created = not folder.is_dir()
    folder.mkdir(mode=0o700, exist_ok=True)
    if created:
        fsync_path(folder.parent)
    with hold_lock(folder / "lock"):
        yield folder / FILE


def append(roots: Roots, path: Path, documents: Sequence[Mapping[str, Any]]) -> Anchor:
    """Adds lines and records the ledger's new length. The caller holds the lock and has read the ledger."""
    anchor = ledger_file.append(path, roots.secret, documents)
    note_ledger(roots, anchor)
    return anchor


def read_documents(roots: Roots, path: Path) -> list[dict[str, Any]]:
    """Reads and checks all lines of the ledger.

    Raises:
        LedgerError: the ledger was changed or damaged.
    """
    try:
        return ledger_file.read_lines(path, roots.secret, anchors(roots))
    except SealError as error:
        raise LedgerError(f"{error}. {WAY_OUT}") from None
