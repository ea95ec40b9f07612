"""A cache of values computed from files, each valid as long as the file's identity on disk stays the same.

An entry holds for equal (path, size, mtime_ns, ctime_ns, inode). As in git's index, an entry is not trusted when the
file was touched so close to the moment of reading that a later edit could carry the same timestamps ("racily clean").
An entry from the future is not trusted either: the clock was set back, and the same timestamps will come again.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipelines.errors import DamagedFileError
from pipelines.files import encode_json, read_file, write_atomic

RACY_NS = 50_000_000
"""Coarser than the timestamp granularity of the file systems in use (kernel ticks are at most 10 ms)."""


_COMPUTING = threading.RLock()
"""Threads compute one after the other: CPython 3.11 can fail in `ast.parse` when two threads are in it at once
("AST constructor recursion depth mismatch"), and none should do what another is doing."""


class StatCache:
    """A JSON file of values computed from files.

    Args:
        path: file of the cache. If it is missing or damaged, the cache is empty.
        secret: secret of the store, for the seal in the file's first line. A changed cache would hide changes.
    """

    def __init__(self, path: Path, secret: bytes = b"") -> None:
        self._path, self._secret = path, secret
        self._entries: dict[str, dict[str, Any]] = _entries(path, secret) or {}
        self._changed = False

    def peek(self, file: Path, tag: str) -> Any | None:
        """Returns the remembered value, or None if there is none that can be trusted. Does not read the file."""
        entry = self._entries.get(f"{tag}\0{file}")
        try:
            stat, observed, value = entry["stat"], entry["observed_ns"], entry["value"]  # type: ignore[index]
            touched = max(stat[1], stat[2])
        except (TypeError, KeyError, IndexError):  # no entry, or a damaged one
            return None
        if stat != _identity(file) or touched > observed - RACY_NS or observed > time.time_ns():
            return None
        return value

    def get(self, file: Path, tag: str, compute: Callable[[Path], Any]) -> Any:
        """Returns the remembered value, or computes and remembers it.

        Args:
            file: the file that the value is a function of.
            tag: name of the computation, with every setting that it depends on.
            compute: function of the file that returns a JSON value.
        """
        value = self.peek(file, tag)
        if value is not None:
            return value
        with _COMPUTING:
            value = self.peek(file, tag)
            if value is None:
                observed, identity = time.time_ns(), _identity(file)
                value = compute(file)
                if _identity(file) == identity and time.time_ns() >= observed:
                    self._entries[f"{tag}\0{file}"] = {"stat": identity, "observed_ns": observed, "value": value}
                    self._changed = True
        return value

    def save(self) -> None:
        """Writes the cache if it changed. Failing to write it costs only time, so this is no error."""
        with _COMPUTING:
            if self._changed:
                try:
                    data = encode_json(self._entries)
                    write_atomic(self._path, _seal(data, self._secret), b"\n", data)
                except OSError:
                    return
                self._changed = False

    def forget(self, files: tuple[str, ...]) -> None:
        """Drops the entries of files whose paths end with one of these names, and writes the cache."""
        kept = {tag: entry for tag, entry in self._entries.items() if not tag.endswith(files)}
        self._changed = self._changed or len(kept) < len(self._entries)
        self._entries = kept
        self.save()


def cache_problem(path: Path, secret: bytes) -> str | None:
    """Says why a cache is damaged; None if it is whole, is missing, or is of a version that wrote no seal."""
    try:
        data = read_file(path)
    except FileNotFoundError:
        return None
    except DamagedFileError as error:
        return str(error)
    is_whole = data.startswith(b"{") or _entries(path, secret) is not None
    return None if is_whole else f"{path} is not as it was written; remove it: the next run makes it again"


def _entries(path: Path, secret: bytes) -> dict[str, Any] | None:
    """Reads the entries of a file; None if it is missing or damaged, or has no seal."""
    try:
        seal, _, data = read_file(path).partition(b"\n")
        found = json.loads(data) if hmac.compare_digest(seal, _seal(data, secret)) else None
    except (OSError, DamagedFileError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _seal(data: bytes, secret: bytes) -> bytes:
    return hmac.new(secret, b"reticent cache\0" + data, hashlib.sha256).hexdigest().encode()


def _identity(file: Path) -> list[int]:
    status = file.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
