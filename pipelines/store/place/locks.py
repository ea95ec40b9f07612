"""Locks that the kernel frees when their holder dies: ``flock`` on files that are never removed while in use."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from pipelines.errors import StoreError
from pipelines.files import has_holder
from pipelines.store.place.disk import disk_error


def _open(path: Path, *, shared: bool) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        if shared and error.errno == errno.EROFS and path.exists():
            return os.open(path, os.O_RDONLY)  # a store on a read-only file system can still be read and verified
        raise disk_error(error) from None


@contextmanager
def _flock(path: Path, operation: int, waiting: Callable[[], None] | None) -> Iterator[None]:
    descriptor = _open(path, shared=operation == fcntl.LOCK_SH)
    try:
        try:
            fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting is not None:
                waiting()
            fcntl.flock(descriptor, operation)
        yield
    finally:
        os.close(descriptor)  # releases the lock


def key_lock(locks_dir: Path, key: str, waiting: Callable[[], None] | None = None) -> AbstractContextManager[None]:
    """Holds the right to build one key. A second builder calls ``waiting`` once, waits, and then finds a hit.

    Raises:
        StoreError: the lock file cannot be made.
    """
    return _flock(locks_dir / f"{key}.lock", fcntl.LOCK_EX, waiting)


def is_held(locks_dir: Path, key: str) -> bool:
    """Returns True if some process is building the key at this moment."""
    try:
        return is_locked(locks_dir / f"{key}.lock")
    except FileNotFoundError:
        return False


def is_locked(path: Path) -> bool:
    """Returns True if a process on any machine holds the exclusive lock of a file.

    Opens nothing for writing, because the disk may be read-only.

    Raises:
        FileNotFoundError: there is no such file.
    """
    return has_holder(os.open(path, os.O_RDONLY))


def store_lock(private_root: Path) -> AbstractContextManager[None]:
    """Holds the store's shared lock. Everything that reads or builds holds it, so `gc` cannot remove what a run needs.

    Raises:
        StoreError: the lock file cannot be made.
    """
    return _flock(private_root / "store.lock", fcntl.LOCK_SH, None)


def exclusive_store_lock(private_root: Path) -> AbstractContextManager[None]:
    """Holds the store's exclusive lock, for removing artifacts or beginning the ledger anew.

    Raises:
        StoreError: a run is using the store, or the store cannot be written.
    """

    def refuse() -> None:
        raise StoreError("the store is in use by a run; wait for it to end, then try again") from None

    return _flock(private_root / "store.lock", fcntl.LOCK_EX, refuse)
