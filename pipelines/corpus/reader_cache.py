"""Keeps files open at the end of the last partition, so that the next partition continues there.

Compressed streams and Parquet row groups cannot be entered in the middle. If each partition read everything before it,
a file of a thousand partitions would be read five hundred times. A worker takes the partitions of a file in order, so
it reads the file once.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar


class Closable(Protocol):
    """An object that holds a file open."""

    def close(self) -> None:
        """Closes the file."""


T = TypeVar("T", bound=Closable)


class OpenReader(NamedTuple, Generic[T]):
    """A reader of a file and its position.

    Attributes:
        reader: reader of the rest of the file, from ``position`` on
        position: number of bytes or rows before the rest
    """

    reader: T
    position: int


class ReaderCache(Generic[T]):
    """The open readers of one process.

    Args:
        at_most: largest number of readers, each with a few MB; the oldest is closed first
        reach: largest distance that a reader may be behind to be useful
    """

    def __init__(self, at_most: int, reach: int) -> None:
        self._at_most = at_most
        self._reach = reach
        self._readers: OrderedDict[Hashable, OpenReader[T]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, key: Hashable, position: int) -> OpenReader[T] | None:
        """Removes and returns a reader at ``position`` or before it, or None."""
        with self._lock:
            found = self._readers.get(key)
            if found is None or not found.position <= position <= found.position + self._reach:
                return None
            return self._readers.pop(key)

    def keep(self, key: Hashable, reader: OpenReader[T]) -> None:
        """Keeps a reader for the next `take`. ``key`` is the file's key from when it was opened."""
        with self._lock:
            closed = [other] if (other := self._readers.pop(key, None)) is not None else []
            self._readers[key] = reader
            while len(self._readers) > self._at_most:
                closed.append(self._readers.popitem(last=False)[1])
        for one in closed:
            one.reader.close()


def key_of(path: Path, how: Hashable) -> Hashable:
    """Returns a reader's key. Call it before opening the file, because a file that changes later has another key.

    Args:
        path: path of the file
        how: other values that the reader depends on

    Raises:
        OSError: the file no longer exists.
    """
    status = path.stat()
    return path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, how
