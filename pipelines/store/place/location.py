"""The recorded location of a store. It reveals a copy of the private root before that copy spends the same budget.

The private root holds a file, the marker. ``store.json`` records the marker's inode and the time of the last change of
that inode (ctime). Tools that copy, pack or restore files can set neither, so both differ in a copy. Both stay the same
if the files are reached from several machines or containers, mounted elsewhere, or moved on their disk. A change of
owner or mode leaves the inode. So a store is at its location if either fits. A copy of the disk itself (a snapshot,
``dd``, a cloned virtual machine) keeps both and cannot be recognised.

An older copy that is put back in place may keep both too. So the marker holds the length of the ledger, and so does the
witness, a small file in the user's state folder outside the store. A witness of a longer ledger stops training. A
witness of a shorter ledger is from another machine, and is brought up to date.
"""

from __future__ import annotations

import contextlib
import hashlib
import platform
import secrets
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from pipelines.errors import DamagedFileError, PrivacyGateError
from pipelines.files import canonical_json, fsync_path, open_to_write, read_file
from pipelines.store.place import versions
from pipelines.store.place.identity import anchor_of, read_identity, write_anchor, write_location
from pipelines.store.place.ledger_file import Anchor
from pipelines.store.place.roots import Roots
from pipelines.store.place.seals import SealError, fingerprint, read_sealed, sealed, write_sealed

MARKER: Final = "home"
_OLDER_MARKER: Final = "1a4424edbfd6c78acb2f1c3049ec663f0e841a2674b8d5a80a00dc11f1c34d17"
"""SHA-256 of the text in markers of earlier versions."""


@dataclass(frozen=True, kw_only=True)
class Location:
    """The location of a store.

    Attributes:
        home_id: random name, drawn when the location was recorded.
        inode, changed_ns: inode of the marker, and the time of its last change.
        machine, path: host name and private root at that time, for people.
        retired: length of the ledger when the store was retired; None while it may train.
    """

    home_id: str
    inode: int
    changed_ns: int
    machine: str
    path: str
    retired: Anchor | None = None

    def to_json(self) -> dict[str, Any]:
        """Returns the location as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Location:
        """Reads a location from the values of `to_json`."""
        return cls(**{**document, "retired": Anchor.from_json(document["retired"])})


def location_of(roots: Roots) -> Location | None:
    """Reads the store's location from ``store.json``; None if an earlier version wrote the store."""
    document = (read_identity(roots.private) or {}).get("home")
    return None if document is None else Location.from_json(document)


def is_here(roots: Roots, location: Location) -> bool:
    """Returns True if this private root is the recorded one, and not a copy."""
    try:
        status = (roots.private / MARKER).stat()
    except FileNotFoundError:
        return False
    return status.st_ino == location.inode or status.st_ctime_ns == location.changed_ns


def record_location(roots: Roots) -> Location:
    """Records the present folder as the store's location. The caller holds the ledger's lock and enters the reason."""
    marker = roots.private / MARKER
    marker.unlink(missing_ok=True)
    _write_marker(roots, anchor_of(roots.private) or Anchor(0, ""))
    marker.chmod(0o600)
    fsync_path(roots.private)
    status = marker.stat()  # after it was closed, because a network disk may set the time only then
    location = Location(
        home_id=secrets.token_hex(8),
        inode=status.st_ino,
        changed_ns=status.st_ctime_ns,
        machine=platform.node(),
        path=str(roots.private),
    )
    write_location(roots.private, roots.secret, location.to_json())
    return location


def _write_marker(roots: Roots, anchor: Anchor) -> None:
    """Writes into the existing file, which keeps its inode."""
    document = sealed({"schema_version": versions.HOME, "ledger": anchor.to_json()}, "home", roots.secret)
    marker = roots.private / MARKER
    with open_to_write(marker) as file:
        file.write(canonical_json(document) + b"\n")
    fsync_path(marker)


def note_ledger(roots: Roots, anchor: Anchor) -> None:
    """Writes the length of the ledger to marker, ``store.json`` and witness. The caller holds the ledger's lock."""
    location = location_of(roots)
    if location is not None and is_here(roots, location):
        _write_marker(roots, anchor)
        status = (roots.private / MARKER).stat()
        location = replace(location, inode=status.st_ino, changed_ns=status.st_ctime_ns)
    write_anchor(roots.private, roots.secret, anchor, None if location is None else location.to_json())
    write_witness(roots, anchor)


def marker_problem(roots: Roots) -> str | None:
    """Says why the marker is damaged; None if it is whole, or if a store of an earlier version has none."""
    if location_of(roots) is None:
        return None
    try:
        document = read_sealed(roots.private / MARKER, "home", roots.secret)
    except (SealError, DamagedFileError) as error:
        return None if _is_older_marker(roots) else str(error)
    return f"{roots.private / MARKER} is missing" if document is None else None


def _is_older_marker(roots: Roots) -> bool:
    """Returns True if an earlier version wrote the marker. It wrote the same text each time."""
    try:
        return hashlib.sha256(read_file(roots.private / MARKER)).hexdigest() == _OLDER_MARKER
    except (OSError, DamagedFileError):
        return False


def noted_lengths(roots: Roots) -> list[tuple[str, Anchor | None]]:
    """Returns the lengths of the ledger that marker and witness hold, each with the file's path; None for no length."""
    location = location_of(roots) if roots.private.is_dir() else None
    if location is None:
        return []
    places = [(roots.private / MARKER, "home")]
    if (witness := _witness(roots, location)) is not None:
        places.append((witness, "witness"))
    lengths: list[tuple[str, Anchor | None]] = []
    for path, kind in places:
        try:
            document = read_sealed(path, kind, roots.secret)  # type: ignore[arg-type]
        except (SealError, DamagedFileError, OSError):
            continue  # `reticent verify` reports the marker; a damaged witness counts as none
        lengths.append((str(path), Anchor.from_json((document or {}).get("ledger"))))
    return lengths


def write_witness(roots: Roots, anchor: Anchor) -> None:
    """Writes the witness, unless the state folder cannot be written. The caller holds the ledger's lock."""
    location = location_of(roots)
    path = None if location is None else _witness(roots, location)
    if path is None:
        return
    document = {"schema_version": versions.HOME, "ledger": anchor.to_json()}
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_sealed(path, document, "witness", roots.secret)


def _witness(roots: Roots, location: Location) -> Path | None:
    """Returns the path of the witness. A copy elsewhere has none, and spends nothing until its location is recorded."""
    if roots.state is None or not (is_here(roots, location) or location.path == str(roots.private)):
        return None
    return roots.state / f"{fingerprint(roots.secret)}-{location.home_id}.json"


def mark_retired(roots: Roots, location: Location, ledger: Anchor) -> None:
    """Records that the store trains no more at its location."""
    write_location(roots.private, roots.secret, replace(location, retired=ledger).to_json())


def location_problem(roots: Roots) -> str | None:
    """Says why this private root may not train; None if it may, or will be allowed to once a run begins."""
    location = location_of(roots) if roots.private.is_dir() else None
    if location is None:
        return None
    here = is_here(roots, location)
    if here and location.retired is not None:
        return (
            f"the store in {roots.private} was retired: a copy of it goes on elsewhere. Run there. If it is to train "
            "here as well, `reticent ledger --acknowledge-copy REASON` enters that, and claims say it"
        )
    if not here and location.retired is None and location.path == str(roots.private):
        return (
            f"the store in {roots.private} was put there from a backup, or copied: its file {MARKER} is another "
            "one. If something was released after the backup was made, put the newer ledger folder and store.json back "
            "first. Then `reticent ledger --acknowledge-copy REASON` lets the store go on, and claims say it"
        )
    if not here and location.retired is None:
        return (
            f"the store in {roots.private} is a copy; the first one lived in {location.path} on {location.machine}. "
            "Two that both train spend the budget twice, and neither ledger knows of the other. Run `reticent retire` "
            "on the old one, then here `reticent ledger --retired PROOF` with what it prints. If the old one is lost, "
            "or goes on as well, `reticent ledger --acknowledge-copy REASON` enters that, and claims say it"
        )
    return None


def require_valid_location(roots: Roots) -> None:
    """Stops spending in a copy of a store, or in a retired one.

    Raises:
        PrivacyGateError: the store is a copy, or is retired. The message says what to do.
    """
    if problem := location_problem(roots):
        raise PrivacyGateError(problem)
