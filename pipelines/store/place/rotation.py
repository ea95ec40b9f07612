"""Gives an encrypted store a new key: wraps the ring of keys anew and, if asked, seals every file anew."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pipelines.encryption.places import FILE, Place, enter, place_of, reading, sealed_again
from pipelines.encryption.ring import KeyRing, open_ring
from pipelines.encryption.sealed import HEADER_BYTES, key_id_of
from pipelines.encryption.sources import KeySource
from pipelines.errors import ConfigError, DamagedFileError
from pipelines.files import fsync_path, read_json, write_json
from pipelines.store.place.location import MARKER
from pipelines.store.place.locks import exclusive_store_lock
from pipelines.store.place.roots import Roots, private_umask
from pipelines.store.place.unlocking import is_encrypted, ring_path

_TEMPORARY: Final = "work/.sealed_again"
"""The file that receives newly sealed bytes. Beside artifacts, the remains of a kill would count as damage."""


def rotate(roots: Roots, old: KeySource | None, new: KeySource, *, reencrypt: bool = False) -> dict[str, Any]:
    """Makes another store key open the store. From then on the old key opens only backups.

    A kill leaves a whole store that one of the two keys opens. Call the function again, with the key that opens it, to
    finish.

    Args:
        roots: the opened store.
        old, new: sources of the keys.
        reencrypt: true to also draw a fresh key for files, seal every file with it, and drop earlier keys. Use it if
            somebody may have got hold of the ring together with the old store key. It reads and writes all of the
            private root.

    Returns:
        ``num_files``, the number of files that were sealed anew.

    Raises:
        ConfigError: the store is not encrypted, or a key cannot be read.
        StoreError: a run is using the store.
        DamagedFileError: a file was changed. The files before it are sealed anew, and all can be read. A damaged file
            of unfinished work or of the quarantine is removed instead.
    """
    if old is None or not is_encrypted(roots.private):
        raise ConfigError("the store is not encrypted, so it has no key to rotate (see docs/encryption.md)")
    new_key = new.read()
    with exclusive_store_lock(roots.private), private_umask():
        ring = open_ring(read_json(ring_path(roots.private)), old.read())
        if not reencrypt:
            _write(roots.private, ring, new_key)
            return {"num_files": 0}
        ring = ring.renewed()
        _write(roots.private, ring, new_key)
        (roots.private / _TEMPORARY).unlink(missing_ok=True)  # a kill left it
        num_files = sum(_seal_again(path, roots.private) for path in list(_sealed_files(roots.private)))
        _write(roots.private, ring.only_current(), new_key)
    return {"num_files": num_files}


def _write(private: Path, ring: KeyRing, store_key: bytes) -> None:
    write_json(ring_path(private), ring.wrapped(store_key))
    known = place_of(private / MARKER)
    enter(private, Place(ring, None if known is None else known.digest_key))


def _sealed_files(private: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(private):
        for name in sorted(names):
            path = Path(folder, name)
            if path != private / FILE and not path.is_symlink() and path.stat().st_size:
                yield path


def _seal_again(path: Path, private: Path) -> bool:
    """Seals a file with the ring's current key. Returns False if it was already."""
    place = place_of(path)
    assert place is not None  # noqa: S101  (narrows the type)
    with path.open("rb") as file:
        header = file.read(HEADER_BYTES)
    if key_id_of(header) == place.keys.current:
        return False
    status = path.stat()
    if path == private / MARKER:  # known by its inode (`pipelines.store.place.location`)
        with reading(path.open("rb"), place) as old:
            text = old.read()
        sealed = io.BytesIO()
        sealed_again(io.BytesIO(text), sealed, header, place)
        with path.open("r+b") as file:
            file.write(sealed.getvalue())
            file.truncate()
        return True
    temporary = private / _TEMPORARY
    try:
        with reading(path.open("rb"), place) as old, temporary.open("wb") as file:
            sealed_again(old, file, header, place)
    except DamagedFileError:
        temporary.unlink(missing_ok=True)
        if not _is_left_over(path.relative_to(private)):
            raise
        path.unlink()
        return False
    temporary.chmod(status.st_mode)
    os.utime(temporary, ns=(status.st_atime_ns, status.st_mtime_ns))  # `gc` goes by the age of files
    fsync_path(temporary)
    temporary.replace(path)
    return True


def _is_left_over(path: Path) -> bool:
    """Returns True for the remains of a kill and for quarantined files, which nothing reads."""
    return path.parts[0] in ("work", "quarantine") or (path.name.startswith(".") and path.name.endswith(".tmp"))
