"""Reads and writes files: as a whole or not at all, line by line, and as JSON documents.

All code that reads or writes a file of a private root uses these functions. Below the private root of an encrypted
store (`pipelines.encryption.places`) they seal what they write, and return plaintext.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from pipelines.encryption import places

_COPIED_BYTES = 1 << 20


def canonical_json(value: Any) -> bytes:
    """Encodes a JSON value as its one canonical byte string: sorted keys, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def is_utf8(path: Path) -> bool:
    """Checks if a path is UTF-8, which the names of files need not be."""
    try:
        return bool(str(path).encode())
    except UnicodeEncodeError:
        return False


def decoded_name(name: str | Path) -> str:
    """Returns a name that encodes as UTF-8 even if the file system's bytes do not."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def finite(value: float | None) -> float | None:
    """Returns a number for JSON: None in place of an infinite one."""
    return value if value is not None and math.isfinite(value) else None


def source_digest(home: Path, packages: Iterable[str]) -> str:
    """Returns the SHA-256, in hexadecimal, of names and contents of all modules of some packages in ``home``."""
    digest = hashlib.sha256()
    for package in packages:
        for path in sorted((home / package).rglob("*.py")):
            name = path.relative_to(home).as_posix().encode()
            digest.update(name + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def open_to_read(path: Path) -> BinaryIO:
    """Opens a file to read from any position.

    Raises:
        OSError: the file is missing or cannot be read.
        DamagedFileError: the file lies in an encrypted root, and was changed.
    """
    place = places.place_of(path)
    return path.open("rb") if place is None else places.reading(path.open("rb"), place)


def open_to_write(path: Path) -> BinaryIO:
    """Opens a file to write from its beginning to its end."""
    place = places.place_of(path)
    return path.open("wb") if place is None else places.writing(path.open("wb"), place)


def to_be_read(path: Path) -> Path | BinaryIO:
    """Returns the path of a file, or its opened plaintext if it is sealed, for a library that takes both."""
    return path if places.place_of(path) is None else open_to_read(path)


def to_be_written(path: Path) -> Path | BinaryIO:
    """Returns a path, or an opened file that seals, for a library to write. The caller closes the file at the end."""
    return path if places.place_of(path) is None else open_to_write(path)


def read_file(path: Path) -> bytes:
    """Reads the whole content of a file. Raises the errors of `open_to_read`."""
    if places.place_of(path) is None:
        return path.read_bytes()
    with open_to_read(path) as file:
        return file.read()


def read_before_damage(path: Path) -> bytes:
    """Reads a file of appended lines. A sealed file is read up to its first damage."""
    place = places.place_of(path)
    if place is None:
        return path.read_bytes()
    with path.open("rb") as file:
        return places.before_damage(file, place)


def copy_file(source: Path, target: Path) -> None:
    """Copies the plaintext of a file, also between roots, without mode and times."""
    with open_to_read(source) as old, open_to_write(target) as new:
        while part := old.read(_COPIED_BYTES):
            new.write(part)


def fsync_path(path: Path) -> None:
    """Flushes a file or folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Holds the exclusive lock of a file, which is made if it is missing. The kernel frees it when the holder dies."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def has_holder(descriptor: int) -> bool:
    """Returns True if a process on any machine holds the exclusive lock of an open file. Closes the file.

    Asks for a shared lock, so that two processes that ask at once do not take each other for the holder.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def write_atomic(path: Path, *parts: bytes | memoryview, mode: int | None = 0o600, is_durable: bool = True) -> None:
    """Writes a file so that readers see the old content or the new one, never a part.

    Args:
        path: path of the file.
        *parts: parts of its content, in order.
        mode: mode of the file, whatever the umask; None to follow the umask.
        is_durable: true if the file must survive a power cut from now on. Not needed in a folder that is flushed later.

    Raises:
        OSError: the folder is missing, read-only or full. The old content is then untouched.
    """
    _replace(path, parts, places.place_of(path), mode, is_durable=is_durable)


def _replace(
    path: Path,
    parts: Iterable[bytes | memoryview],
    place: places.Place | None,
    mode: int | None = 0o600,
    *,
    is_durable: bool = True,
) -> None:
    """Writes a file like `write_atomic`, and seals it unless ``place`` is None."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666 if mode is None else mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if mode is not None:
                os.fchmod(descriptor, mode)
            with contextlib.nullcontext(file) if place is None else places.writing(file, place, closes=False) as sink:
                for part in parts:
                    sink.write(part)
            if is_durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if is_durable:
        fsync_path(path.parent)


def write_first(path: Path, data: bytes) -> None:
    """Writes a file as a whole, unless another process makes it first: that file then stays."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        write_atomic(temporary, data)
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        temporary.unlink(missing_ok=True)


def append_lines(path: Path, lines: bytes) -> None:
    """Appends whole lines to a file that only its owner can read, and flushes them to the disk. Makes a missing file.

    Several processes may append at once. The remains of a last line that a kill cut short were never confirmed, and are
    removed first.

    Raises:
        OSError: the disk did not take the lines. The file then ends as before.
        DamagedFileError: the file lies in an encrypted root, and was changed. It stays as it is.
    """
    is_new = not path.exists()
    descriptor = _open_locked(path)
    try:
        place = places.place_of(path)
        size, added = (_whole_bytes(descriptor), lines) if place is None else places.extending(descriptor, place, lines)
        os.ftruncate(descriptor, size)
        os.lseek(descriptor, size, os.SEEK_SET)
        try:
            rest = memoryview(added)
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
    """Opens and locks the file, again if it was replaced while we waited for the lock."""
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
    """Removes whole lines from a file that `append_lines` writes. The others stay byte for byte.

    Returns:
        The number of removed lines; 0 for a missing file.

    Raises:
        OSError: the disk did not take the file. The old file is then untouched.
        DamagedFileError: the file lies in an encrypted root, and was changed.
    """
    if not path.exists():
        return 0
    descriptor = _open_locked(path)
    try:
        lines = read_file(path).splitlines(keepends=True)
        kept = [line for line in lines if not is_removed(line)]
        if len(kept) < len(lines):
            place = places.place_of(path)
            _replace(path, kept if place is None else [places.log_of(b"".join(kept), place)], None)
    finally:
        os.close(descriptor)
    return len(lines) - len(kept)


def _whole_bytes(descriptor: int) -> int:
    """Returns the length of the file up to its last newline."""
    end = os.fstat(descriptor).st_size
    while end > 0:
        start = max(0, end - 65_536)
        at = os.pread(descriptor, end - start, start).rfind(b"\n")
        if at >= 0:
            return start + at + 1
        end = start
    return 0


def encode_json(value: Any, *, allow_nan: bool = True) -> bytes:
    """Encodes an indented JSON document whose bytes depend only on the value."""
    return json.dumps(value, sort_keys=True, indent=1, allow_nan=allow_nan).encode() + b"\n"


def write_json(path: Path, value: Any, mode: int = 0o600) -> None:
    """Writes a JSON document with `write_atomic`."""
    write_atomic(path, encode_json(value), mode=mode)


def read_json(path: Path) -> Any:
    """Reads a JSON document; None if the file is missing, damaged or not valid JSON."""
    try:
        return json.loads(read_file(path))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
