"""Durable file operations: atomic writes, fsync of files and folders, digests; and how JSON documents are written."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import itertools
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipelines.errors import StoreError

_CHUNK_BYTES = 1 << 20


def canonical_json(value: Any) -> bytes:
    """One byte string per JSON value: sorted keys, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def finite(value: float | None) -> float | None:
    """A number as JSON has it: None for an infinite one."""
    return value if value is not None and math.isfinite(value) else None


def sha256_file(path: Path) -> str:
    """SHA-256 of a file's bytes, hexadecimal, read in bounded memory."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


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


def fsync_path(path: Path) -> None:
    """Flushes a file or folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomic(path: Path, *parts: bytes | memoryview, mode: int | None = 0o600, is_durable: bool = True) -> None:
    """Writes a file so that readers see the old content or the new one, never a part.

    Args:
        path: of the file.
        *parts: its content, one after the other.
        mode: of the file, whatever the umask; None leaves it to the umask.
        is_durable: whether it outlasts a power cut from here on; not needed in a folder that is flushed as a whole.

    Raises:
        OSError: the folder is missing, read-only or full; the old content is then untouched.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666 if mode is None else mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if mode is not None:
                os.fchmod(descriptor, mode)
            for part in parts:
                file.write(part)
            if is_durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if is_durable:
        fsync_path(path.parent)


def append_lines(path: Path, lines: bytes) -> None:
    """Appends whole lines to a file of its owner's, made if need be; they are on the disk when this returns.

    Several processes may append at once. What a kill left of a last line was never confirmed to anybody, and is
    removed first.

    Raises:
        OSError: the disk did not take them; the file then ends as it did.
    """
    is_new = not path.exists()
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        size = _whole_bytes(descriptor)
        os.ftruncate(descriptor, size)
        os.lseek(descriptor, size, os.SEEK_SET)
        try:
            rest = memoryview(lines)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, size)
            raise
    finally:
        os.close(descriptor)
    if is_new:
        fsync_path(path.parent)


def _whole_bytes(descriptor: int) -> int:
    """The length of the file up to its last newline."""
    end = os.fstat(descriptor).st_size
    while end > 0:
        start = max(0, end - 65_536)
        at = os.pread(descriptor, end - start, start).rfind(b"\n")
        if at >= 0:
            return start + at + 1
        end = start
    return 0


def encode_json(value: Any, *, allow_nan: bool = True) -> bytes:
    """An indented JSON document whose bytes depend on the value alone."""
    return json.dumps(value, sort_keys=True, indent=1, allow_nan=allow_nan).encode() + b"\n"


def write_json(path: Path, value: Any, mode: int = 0o600) -> None:
    """`write_atomic` of `encode_json`."""
    write_atomic(path, encode_json(value), mode=mode)


def read_json(path: Path) -> Any:
    """Reads a JSON document; None when the file is missing or is not valid JSON (a damaged file counts as none)."""
    try:
        return json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None


def data_files(folder: Path) -> Iterator[Path]:
    """Every regular file below ``folder``, sorted by relative path."""
    yield from sorted((p for p in folder.rglob("*") if p.is_file()), key=lambda p: p.relative_to(folder).as_posix())


def fsync_tree(folder: Path) -> None:
    """Flushes every file and folder below ``folder``, and ``folder`` itself."""
    for path in sorted(folder.rglob("*"), reverse=True):
        fsync_path(path)
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
