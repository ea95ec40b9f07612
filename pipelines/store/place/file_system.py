"""The operations that a store needs from its file system, and the kinds of file system that lack them (Linux)."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from pipelines.errors import StoreError
from pipelines.files import fsync_path
from pipelines.store.place.disk import DISK_ERRORS, disk_error
from pipelines.store.place.locks import is_locked

_REFUSED: Final = frozenset({errno.ENOTSUP, errno.ENOSYS, errno.EINVAL, errno.ENOLCK, errno.EPERM})
_OBJECTS: Final = ("s3fs", "goofys", "gcsfuse", "rclone", "blobfuse", "blobfuse2", "mountpoint-s3", "geesefs")
_LOCAL_LOCKS: Final = frozenset({"fuse.sshfs", "9p"})
_NFS_LOCKS: Final = frozenset({"nolock", "local_lock=all", "local_lock=flock"})
_NFS_LOOKUPS: Final = frozenset({"lookupcache=pos", "lookupcache=positive", "lookupcache=none", "noac"})


class Mount(NamedTuple):
    """The source of a mounted folder.

    Attributes:
        device: the device, data set, or server.
        kind: the type of the file system.
        options: options of the mount, as the system lists them.
    """

    device: str
    kind: str
    options: frozenset[str] = frozenset()

    def unshared(self) -> str | None:
        """Says why several machines cannot share a store there; None if no reason is known.

        The answer rests on the kind of file system. Only a test between the machines shows whether sharing works
        (`flows.running.executors`).
        """
        if self.kind.removeprefix("fuse.") in _OBJECTS:
            return "an object store has no locks, and renames a folder file by file"
        if self.kind in _LOCAL_LOCKS:
            return "its locks hold on one machine only"
        if self.kind.startswith("nfs"):
            if found := sorted(self.options & _NFS_LOCKS):
                return f"its locks hold on one machine only ({found[0]})"
            if not self.options & _NFS_LOOKUPS:
                return (
                    "what another machine writes may stay unseen for a minute; mount it with lookupcache=positive, and "
                    "actimeo=1 or so"
                )
        return None


def nearest(folder: Path) -> Path:
    """Returns the folder itself if it exists, or else its nearest parent that exists."""
    folder = folder.resolve()
    return next(path for path in (folder, *folder.parents) if path.is_dir())


def mount_of(folder: Path, system: Path = Path("/")) -> Mount:
    """Returns the mount that a folder is on, of type ``unknown`` if the system does not say.

    Args:
        folder: existing folder.
        system: folder that holds ``proc`` and ``sys``.
    """
    try:
        lines = [line.split(" ") for line in (system / "proc/self/mounts").read_text("utf-8").splitlines()]
    except OSError:
        return Mount("", "unknown")
    found = [
        (_plain(at), Mount(_plain(device), kind, frozenset(options.split(","))))
        for device, at, kind, options, *_ in lines
        if folder.is_relative_to(_plain(at))
    ]
    # Of two mounts at one place, the later one hides the earlier.
    return max(reversed(found), key=lambda row: len(row[0]), default=("", Mount("", "unknown")))[1]


def _plain(text: str) -> str:
    """Removes the escapes from a field of the table of mounts."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


def require_usable(folder: Path) -> None:
    """Tries in a folder every operation that keeps artifacts whole and lets only one process build each.

    Leaves nothing behind.

    Raises:
        StoreError: the file system cannot do one of them, or the disk is full or cannot be written.
    """
    try:
        with tempfile.TemporaryDirectory(prefix=".probe-", dir=folder) as name:
            for what, works in _TRIALS.items():
                if not _does(works, Path(tempfile.mkdtemp(dir=name))):
                    raise StoreError(
                        f"the file system ({mount_of(folder.resolve()).kind}) below {folder} cannot {what}, on which a "
                        "store relies; choose another disk with store.private_root and store.public_root"
                    )
    except OSError as error:
        raise disk_error(error) from None


def _does(works: Callable[[Path], bool], folder: Path) -> bool:
    try:
        return works(folder)
    except OSError as error:
        if error.errno in DISK_ERRORS or error.errno not in _REFUSED:
            raise
        return False


def _replaces(folder: Path) -> bool:
    one, two = folder / "one", folder / "two"
    one.write_bytes(b"1")
    two.write_bytes(b"2")
    two.replace(one)
    return one.read_bytes() == b"2" and not two.exists()


def _renames_folders(folder: Path) -> bool:
    (folder / "work").mkdir()
    (folder / "work" / "file").write_bytes(b"1")
    (folder / "work").rename(folder / "object")
    return (folder / "object" / "file").read_bytes() == b"1"


def _links(folder: Path) -> bool:
    (folder / "file").write_bytes(b"1")
    (folder / "link").symlink_to("file")
    os.link(folder / "file", folder / "second")
    return (folder / "link").read_bytes() == (folder / "second").read_bytes() == b"1"


def _flushes(folder: Path) -> bool:
    (folder / "file").write_bytes(b"1")
    fsync_path(folder / "file")
    fsync_path(folder)
    return True


def _locks(folder: Path) -> bool:
    path = folder / "lock"
    path.touch()
    with path.open("r+b") as held:  # NFS locks for one holder only what is open for writing
        fcntl.flock(held, fcntl.LOCK_EX)
        is_exclusive = is_locked(path)
    return is_exclusive and not is_locked(path)


_TRIALS: Final[Mapping[str, Callable[[Path], bool]]] = {
    "replace a file in one step": _replaces,
    "rename a folder": _renames_folders,
    "hold links": _links,
    "flush a folder to the disk (fsync)": _flushes,
    "lock a file (flock)": _locks,
}
"""The operations that a store relies on, by their name in the error message."""
