"""Folders of the store on the disk: digests, flushing, removing, links, and what the disk's errors mean."""

from __future__ import annotations

import errno
import hashlib
import hmac
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipelines.encryption.places import place_of
from pipelines.errors import DamagedFileError, StoreError
from pipelines.files import fsync_path, open_to_read

_CHUNK_BYTES = 1 << 20
DAMAGED = "damaged"
"""In place of the digest of a sealed file that is not as it was written."""


def sha256_file(path: Path) -> str:
    """SHA-256 of what a file says, hexadecimal, read in bounded memory.

    Raises:
        DamagedFileError: it is sealed, and not as it was written.
    """
    return _digest(path, hashlib.sha256())


def digest_file(path: Path) -> str:
    """What a manifest says of a file: SHA-256; in an encrypted root, HMAC-SHA256 under the store's secret.

    Whoever sees a digest of a short text can guess the text, unless the digest is keyed. A sealed file that is not as
    it was written has a digest that no file has.
    """
    place = place_of(path)
    if place is None:
        return sha256_file(path)
    if place.digest_key is None:
        raise StoreError("a file of an encrypted store was read before the store's secret")
    try:
        return _digest(path, hmac.new(place.digest_key, digestmod=hashlib.sha256))
    except DamagedFileError:
        return DAMAGED


def _digest(path: Path, digest: Any) -> str:
    with open_to_read(path) as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return str(digest.hexdigest())


def size_of(path: Path) -> int:
    """How many bytes a file says; -1 for a sealed file that was cut off. Reads nothing of it."""
    size = path.stat().st_size
    if place_of(path) is None:
        return size
    from pipelines.encryption.sealed import plain_bytes

    try:
        return plain_bytes(size)
    except DamagedFileError:
        return -1


DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO})
"""Numbers of the errors that tell of the disk or the store's permissions, not of a fault of ours."""


def disk_error(error: OSError) -> StoreError:
    """What a failed file operation means to the user, and what to do. Names no file; no known number counts as EIO."""
    number = error.errno if error.errno in errno.errorcode else None
    reason = errno.errorcode[number] if number is not None else "I/O error"
    advice = {
        "ENOSPC": "the disk is full; free some space (reticent gc) and run again",
        "EDQUOT": "the disk quota is used up; free some space (reticent gc) and run again",
        "EROFS": "the store is on a read-only file system; make it writable and run again",
        "EACCES": "the store or an input cannot be accessed by this user",
    }.get(reason, "the store or an input could not be read or written")
    message = f"{advice} ({reason}); what was finished is kept"
    return StoreError(message, errno=errno.EIO if number is None else number)


def make_durable_dir(folder: Path) -> None:
    """Makes a folder and flushes the one that it is in, so that a power cut cannot lose it with all it holds."""
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        fsync_path(folder.parent)


def numbered(folder: Path, name: str) -> Path:
    """The first path in a folder that is not there, of those that ``name`` with a number in place of ``{}`` gives."""
    return next(path for n in itertools.count() if not (path := folder / name.format(n)).exists())


def data_files(folder: Path) -> Iterator[Path]:
    """Every regular file below ``folder``, sorted by relative path."""
    yield from sorted((p for p in folder.rglob("*") if p.is_file()), key=lambda p: p.relative_to(folder).as_posix())


def fsync_below(folder: Path) -> None:
    """Flushes every file and folder below ``folder``."""
    for path in sorted(folder.rglob("*"), reverse=True):
        fsync_path(path)


def fsync_tree(folder: Path) -> None:
    """Flushes every file and folder below ``folder``, and ``folder`` itself."""
    fsync_below(folder)
    fsync_path(folder)


def remove_tree(folder: Path) -> None:
    """Removes a folder if it is there."""
    if folder.exists():
        import shutil  # slow to import, and status needs none of it

        shutil.rmtree(folder)


def replace_link(link: Path, target: Path) -> None:
    """Points the symbolic link ``link`` at ``target`` (made relative) in one step."""
    temporary = link.with_name(f".{link.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(os.path.relpath(target, link.parent))
    temporary.replace(link)
