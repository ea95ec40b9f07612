"""How files are written: as a whole or not at all, line by line, and as JSON documents."""

from __future__ import annotations

import fcntl
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


def canonical_json(value: Any) -> bytes:
    """One byte string per JSON value: sorted keys, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def finite(value: float | None) -> float | None:
    """A number as JSON has it: None for an infinite one."""
    return value if value is not None and math.isfinite(value) else None


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
    descriptor = _open_locked(path)
    try:
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


def _open_locked(path: Path) -> int:
    """The file, held; not one that was replaced while we waited for it."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def remove_lines(path: Path, is_removed: Callable[[bytes], bool]) -> int:
    """Takes whole lines out of a file that `append_lines` writes; the others stay byte for byte.

    Returns:
        How many were taken out; a missing file has none.

    Raises:
        OSError: the disk did not take the file; the old one is then untouched.
    """
    if not path.exists():
        return 0
    descriptor = _open_locked(path)
    try:
        with path.open("rb") as file:
            lines = file.read().splitlines(keepends=True)
        kept = [line for line in lines if not is_removed(line)]
        if len(kept) < len(lines):
            write_atomic(path, *kept)
    finally:
        os.close(descriptor)
    return len(lines) - len(kept)


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
