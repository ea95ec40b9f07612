"""Files that stand open where the last partition ended, so that the next one need not begin at the start.

Neither a compressed stream nor a row group of Parquet can be entered in the middle. Were each partition to read all
that is before it, a file of a thousand partitions would be read five hundred times. A worker takes the partitions of a
file in order, so that it reads the file once.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar


class Closable(Protocol):
    """What holds a file open."""

    def close(self) -> None:
        """Gives up the file."""


T = TypeVar("T", bound=Closable)


class OpenReader(NamedTuple, Generic[T]):
    """What reads a file, and where it is.

    Attributes:
        reader: gives what comes from ``position`` on.
        position: bytes or rows before that.
    """

    reader: T
    position: int


class ReaderCache(Generic[T]):
    """The readers of one process.

    Args:
        at_most: how many; each holds a few MB. The one that was left first is closed first.
        reach: how far behind a reader may be to be of use.
    """

    def __init__(self, at_most: int, reach: int) -> None:
        self._at_most = at_most
        self._reach = reach
        self._readers: OrderedDict[Hashable, OpenReader[T]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, key: Hashable, position: int) -> OpenReader[T] | None:
        """Gives up a reader that stands at ``position`` or before it.

        Args:
            key: `key_of` the file.
            position: of what is read next.
        """
        with self._lock:
            found = self._readers.get(key)
            if found is None or not found.position <= position <= found.position + self._reach:
                return None
            return self._readers.pop(key)

    def keep(self, key: Hashable, reader: OpenReader[T]) -> None:
        """Keeps a reader for the next `take`; ``key`` is that of the file when it was opened."""
        with self._lock:
            closed = [other] if (other := self._readers.pop(key, None)) is not None else []
            self._readers[key] = reader
            while len(self._readers) > self._at_most:
                closed.append(self._readers.popitem(last=False)[1])
        for one in closed:
            one.reader.close()


def key_of(path: Path, how: Hashable) -> Hashable:
    """What a reader reads. Asked before the file is opened: one that is replaced or written to later has another key.

    Args:
        path: the file.
        how: what else the reader depends on.

    Raises:
        OSError: the file is gone.
    """
    status = path.stat()
    return path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, how
