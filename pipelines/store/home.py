"""Where a store lives: a copy of its private root is noticed before it spends what the first one spends as well.

``store.json`` knows a file of the private root, the marker, by inode and time of the last change of its inode (ctime).
Tools that copy, pack or restore files can set neither, so that in a copy both differ. They stay where the same files
are reached from several machines or containers, mounted elsewhere, or moved on their disk; a change of owner or mode
leaves the inode. So the store is at home where either fits. A copy of the disk itself (a snapshot, ``dd``, a cloned
virtual machine) keeps both and cannot be told from the first one.
"""

from __future__ import annotations

import platform
import secrets
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from pipelines.errors import PrivacyGateError
from pipelines.files import fsync_path, open_to_write
from pipelines.store.identity import read_identity, write_home
from pipelines.store.ledger_file import Anchor
from pipelines.store.roots import Roots

MARKER: Final = "home"
_TEXT: Final = b"store.json knows this file by its inode and ctime, so that a copy of the store is noticed.\n"


@dataclass(frozen=True, kw_only=True)
class Home:
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
    def from_json(cls, document: dict[str, Any]) -> Home:
        """The inverse of `to_json`."""
        return cls(**{**document, "retired": Anchor.from_json(document["retired"])})


def home_of(roots: Roots) -> Home | None:
    """Where the store lives, as ``store.json`` says; None for a store of a version that did not note it."""
    document = (read_identity(roots.private) or {}).get("home")
    return None if document is None else Home.from_json(document)


def is_here(roots: Roots, home: Home) -> bool:
    """Whether this private root is the one, and no copy of it."""
    try:
        status = (roots.private / MARKER).stat()
    except FileNotFoundError:
        return False
    return status.st_ino == home.inode or status.st_ctime_ns == home.changed_ns


def settle(roots: Roots) -> Home:
    """Lets the store live where it lies from now on. The caller holds the ledger, and enters why."""
    marker = roots.private / MARKER
    marker.unlink(missing_ok=True)
    with open_to_write(marker) as file:
        file.write(_TEXT)
    marker.chmod(0o600)
    fsync_path(marker)
    fsync_path(roots.private)
    status = marker.stat()  # after it was closed: a network disk may set the time as late as that
    home = Home(
        home_id=secrets.token_hex(8),
        inode=status.st_ino,
        changed_ns=status.st_ctime_ns,
        machine=platform.node(),
        path=str(roots.private),
    )
    write_home(roots.private, roots.secret, home.to_json())
    return home


def mark_retired(roots: Roots, home: Home, ledger: Anchor) -> None:
    """Notes that the store trains no more where it lives."""
    write_home(roots.private, roots.secret, replace(home, retired=ledger).to_json())


def problem_of(roots: Roots) -> str | None:
    """Why nothing may be trained in this private root; None if it may, or will once a run begins."""
    home = home_of(roots) if roots.private.is_dir() else None
    if home is None:
        return None
    here = is_here(roots, home)
    if here and home.retired is not None:
        return (
            f"the store in {roots.private} was retired: a copy of it goes on elsewhere. Run there. If it is to train "
            "here as well, `reticent ledger --acknowledge-copy REASON` enters that, and claims say it"
        )
    if not here and home.retired is None:
        return (
            f"the store in {roots.private} is a copy; the first one lived in {home.path} on {home.machine}. Two that "
            "both train spend the budget twice, and neither ledger knows of the other. Run `reticent retire` on the "
            "old one, then here `reticent ledger --retired PROOF` with what it prints. If the old one is lost, or goes "
            "on as well, `reticent ledger --acknowledge-copy REASON` enters that, and claims say it"
        )
    return None


def require_home(roots: Roots) -> None:
    """Stops what would be charged for where the store is a copy, or retired.

    Raises:
        PrivacyGateError: it is; the message says what to do.
    """
    if problem := problem_of(roots):
        raise PrivacyGateError(problem)
