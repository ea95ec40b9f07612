"""Folders of the store on the disk: digests, flushing, removing, links, and what the disk's errors mean."""

from __future__ import annotations

import errno
import hashlib
import hmac
import itertools
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipelines.encryption.places import place_of
from pipelines.errors import DamagedFileError, StoreError
from pipelines.files import fsync_path, open_to_read

_CHUNK_BYTES = 1 << 20
DAMAGED = "damaged"
"""Stands in for the digest of a sealed file that was changed."""


def sha256_file(path: Path) -> str:
    """Returns the SHA-256 of a file's plaintext in hexadecimal, read in bounded memory.

    Raises:
        DamagedFileError: the file is sealed, and was changed.
    """
    return _digest(path, hashlib.sha256())


def digest_file(path: Path) -> str:
    """Returns the digest of a file for its manifest: SHA-256, or HMAC-SHA256 under the store's secret if encrypted.

    Whoever sees a digest of a short text can guess the text, unless the digest is keyed. A sealed file that was changed
    has a digest that no file has.
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
    """Returns the size of a file's plaintext in bytes, without reading it; -1 for a sealed file that was cut off."""
    size = path.stat().st_size
    if place_of(path) is None:
        return size
    from pipelines.encryption.sealed import plain_bytes  # loads cryptography

    try:
        return plain_bytes(size)
    except DamagedFileError:
        return -1


DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO})
"""Numbers of the errors that come from the disk or the store's permissions, and not from a bug."""


def disk_error(error: OSError) -> StoreError:
    """Says what a failed file operation means and what to do. Names no file. An unknown number counts as EIO."""
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
    """Makes a folder and flushes its parent, so that a power cut cannot lose the folder and its files."""
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        fsync_path(folder.parent)


def numbered(folder: Path, name: str) -> Path:
    """Returns the first free path in a folder: ``name`` with a number in place of ``{}``, counted from 0."""
    return next(path for n in itertools.count() if not (path := folder / name.format(n)).exists())


def data_files(folder: Path) -> Iterator[Path]:
    """Yields every regular file below ``folder``, sorted by relative path."""
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
        shutil.rmtree(folder)


@contextmanager
def made_whole(target: Path) -> Iterator[Path]:
    """Yields a new folder beside ``target``, which becomes it at the end, unless another process was first."""
    building = target.with_name(f".{target.name}.{os.getpid()}")
    remove_tree(building)
    building.mkdir(parents=True)
    yield building
    fsync_path(building)
    try:
        building.rename(target)
    except OSError:
        if not target.is_dir():
            raise
        remove_tree(building)
    fsync_path(target.parent)


def replace_link(link: Path, target: Path) -> None:
    """Points the symbolic link ``link`` at ``target`` (made relative) in one step."""
    temporary = link.with_name(f".{link.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(os.path.relpath(target, link.parent))
    temporary.replace(link)
