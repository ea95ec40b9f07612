"""Where a store lives: a copy of its private root is noticed before it spends what the first one spends as well.

``store.json`` knows a file of the private root, the marker, by inode and time of the last change of its inode (ctime).
Tools that copy, pack or restore files can set neither, so that in a copy both differ. They stay where the same files
are reached from several machines or containers, mounted elsewhere, or moved on their disk; a change of owner or mode
leaves the inode. So the store is at home where either fits. A copy of the disk itself (a snapshot, ``dd``, a cloned
virtual machine) keeps both and cannot be told from the first one.

An older copy that is put back in place may keep both as well. So the marker holds how long the ledger was, and so does
the witness: a small file in the state folder of the user, outside the store. A witness that knows a longer ledger stops
training. One that knows a shorter ledger is of another machine, and is brought up to date.
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
"""SHA-256 of the text that markers of earlier versions hold."""


@dataclass(frozen=True, kw_only=True)
class Location:
    """Where a store lives.

    Attributes:
        home_id: drawn when the store came to live there.
        inode, changed_ns: of the marker.
        machine, path: host name and private root at that time, for people.
        retired: how long the ledger was when it was retired; None while it may train.
    """

    home_id: str
    inode: int
    changed_ns: int
    machine: str
    path: str
    retired: Anchor | None = None

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Location:
        """The inverse of `to_json`."""
        return cls(**{**document, "retired": Anchor.from_json(document["retired"])})


def location_of(roots: Roots) -> Location | None:
    """Where the store lives, as ``store.json`` says; None for a store of a version that did not note it."""
    document = (read_identity(roots.private) or {}).get("home")
    return None if document is None else Location.from_json(document)


def is_here(roots: Roots, home: Location) -> bool:
    """Whether this private root is the one, and no copy of it."""
    try:
        status = (roots.private / MARKER).stat()
    except FileNotFoundError:
        return False
    return status.st_ino == home.inode or status.st_ctime_ns == home.changed_ns


def record_location(roots: Roots) -> Location:
    """Lets the store live where it lies from now on. The caller holds the ledger, and enters why."""
    marker = roots.private / MARKER
    marker.unlink(missing_ok=True)
    _write_marker(roots, anchor_of(roots.private) or Anchor(0, ""))
    marker.chmod(0o600)
    fsync_path(roots.private)
    status = marker.stat()  # after it was closed: a network disk may set the time as late as that
    home = Location(
        home_id=secrets.token_hex(8),
        inode=status.st_ino,
        changed_ns=status.st_ctime_ns,
        machine=platform.node(),
        path=str(roots.private),
    )
    write_location(roots.private, roots.secret, home.to_json())
    return home


def _write_marker(roots: Roots, anchor: Anchor) -> None:
    """Writes into the file that is there, which keeps its inode."""
    document = sealed({"schema_version": versions.HOME, "ledger": anchor.to_json()}, "home", roots.secret)
    marker = roots.private / MARKER
    with open_to_write(marker) as file:
        file.write(canonical_json(document) + b"\n")
    fsync_path(marker)


def note_ledger(roots: Roots, anchor: Anchor) -> None:
    """Writes the length of the ledger into marker, ``store.json`` and witness. The caller holds the ledger."""
    home = location_of(roots)
    if home is not None and is_here(roots, home):
        _write_marker(roots, anchor)
        status = (roots.private / MARKER).stat()
        home = replace(home, inode=status.st_ino, changed_ns=status.st_ctime_ns)
    write_anchor(roots.private, roots.secret, anchor, None if home is None else home.to_json())
    write_witness(roots, anchor)


def marker_problem(roots: Roots) -> str | None:
    """Why the marker is not as it was written; None if it is, or if a store of an earlier version has none."""
    if location_of(roots) is None:
        return None
    try:
        found = read_sealed(roots.private / MARKER, "home", roots.secret)
    except (SealError, DamagedFileError) as error:
        is_older = _is_older_marker(roots)
        return None if is_older else str(error)
    return f"{roots.private / MARKER} is missing" if found is None else None


def _is_older_marker(roots: Roots) -> bool:
    """Whether an earlier version wrote it, which wrote the same text each time."""
    try:
        return hashlib.sha256(read_file(roots.private / MARKER)).hexdigest() == _OLDER_MARKER
    except (OSError, DamagedFileError):
        return False


def noted_lengths(roots: Roots) -> list[tuple[str, Anchor | None]]:
    """Where marker and witness are, in words, with how long the ledger was; None where they do not say so."""
    home = location_of(roots) if roots.private.is_dir() else None
    if home is None:
        return []
    places = [(roots.private / MARKER, "home")]
    if (witness := _witness(roots, home)) is not None:
        places.append((witness, "witness"))
    found: list[tuple[str, Anchor | None]] = []
    for path, kind in places:
        try:
            document = read_sealed(path, kind, roots.secret)  # type: ignore[arg-type]
        except (SealError, DamagedFileError, OSError):
            continue  # `reticent verify` tells of the marker; a witness says nothing then
        found.append((str(path), Anchor.from_json((document or {}).get("ledger"))))
    return found


def write_witness(roots: Roots, anchor: Anchor) -> None:
    """Writes the witness. The caller holds the ledger. Where the state folder cannot be written, there is none."""
    home = location_of(roots)
    path = None if home is None else _witness(roots, home)
    if path is None:
        return
    document = {"schema_version": versions.HOME, "ledger": anchor.to_json()}
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_sealed(path, document, "witness", roots.secret)


def _witness(roots: Roots, home: Location) -> Path | None:
    """Where the witness is; None for a copy elsewhere, which spends nothing before it has a home of its own."""
    if roots.state is None or not (is_here(roots, home) or home.path == str(roots.private)):
        return None
    return roots.state / f"{fingerprint(roots.secret)}-{home.home_id}.json"


def mark_retired(roots: Roots, home: Location, ledger: Anchor) -> None:
    """Notes that the store trains no more where it lives."""
    write_location(roots.private, roots.secret, replace(home, retired=ledger).to_json())


def location_problem(roots: Roots) -> str | None:
    """Why nothing may be trained in this private root; None if it may, or will once a run begins."""
    home = location_of(roots) if roots.private.is_dir() else None
    if home is None:
        return None
    here = is_here(roots, home)
    if here and home.retired is not None:
        return (
            f"the store in {roots.private} was retired: a copy of it goes on elsewhere. Run there. If it is to train "
            "here as well, `reticent ledger --acknowledge-copy REASON` enters that, and claims say it"
        )
    if not here and home.retired is None and home.path == str(roots.private):
        return (
            f"the store in {roots.private} was put there from a backup, or copied: its file {MARKER} is another "
            "one. If something was released after the backup was made, put the newer ledger folder and store.json back "
            "first. Then `reticent ledger --acknowledge-copy REASON` lets the store go on, and claims say it"
        )
    if not here and home.retired is None:
        return (
            f"the store in {roots.private} is a copy; the first one lived in {home.path} on {home.machine}. Two that "
            "both train spend the budget twice, and neither ledger knows of the other. Run `reticent retire` on the "
            "old one, then here `reticent ledger --retired PROOF` with what it prints. If the old one is lost, or goes "
            "on as well, `reticent ledger --acknowledge-copy REASON` enters that, and claims say it"
        )
    return None


def require_valid_location(roots: Roots) -> None:
    """Stops what would be charged for where the store is a copy, or retired.

    Raises:
        PrivacyGateError: it is; the message says what to do.
    """
    if problem := location_problem(roots):
        raise PrivacyGateError(problem)
