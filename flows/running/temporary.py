"""One folder for all temporary files of a process, its workers and its server.

The folder is removed when the process ends. The next process removes the folder of a killed one: no process holds its
lock any more, because the kernel freed it. Libraries find the folder through ``TMPDIR``. Semaphores are no files in the
folder, and carry its name.
"""

from __future__ import annotations

import contextlib
import fcntl
import multiprocessing
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Final

_PREFIX: Final = f"reticent-{os.geteuid()}-"
_SHARED: Final = Path("/dev/shm")  # noqa: S108  (where Linux keeps named semaphores)
_MAX_LENGTH: Final = 70
"""The maximal length of the folder's path. With the name of a fork server's socket it may have 107 characters."""

_own: dict[int, Path | None] = {}
"""The folder of this process, by process id, which a fork changes."""


@contextlib.contextmanager
def temporary_files() -> Iterator[None]:
    """Puts temporary files that are made inside the ``with`` block into this process's own folder.

    The folder stays until the process ends, so that its files can be used again.
    """
    folder = _own_folder()
    if folder is None:
        yield
        return
    variable, setting = os.environ.get("TMPDIR"), tempfile.tempdir
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = setting
        if variable is None:
            os.environ.pop("TMPDIR", None)
        else:
            os.environ["TMPDIR"] = variable


def _own_folder() -> Path | None:
    """Returns this process's folder; None if it cannot be made."""
    if os.getpid() not in _own:
        base = Path(tempfile.gettempdir())
        _remove_dead(base)
        _own[os.getpid()] = _make(base)
    return _own[os.getpid()]


def _make(base: Path) -> Path | None:
    if len(str(base)) + len(_PREFIX) + 9 > _MAX_LENGTH:
        return None
    for _ in range(10):
        try:
            folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
            lock = _take(folder)
        except OSError:
            return None
        if lock is not None:
            break  # the lock is held until the process ends
    else:
        return None
    # This sets only a prefix of names, because semaphores of worker processes lie elsewhere.
    getattr(multiprocessing.current_process(), "_config", {})["semprefix"] = f"/{folder.name}"
    # This runs after multiprocessing's own finalizers (priority -100), which clean up in the folder.
    Finalize(None, _remove_own, args=(os.getpid(), folder), exitpriority=-200)
    return folder


def _take(folder: Path) -> int | None:
    """Takes the lock of our folder; None if it is held, belongs to another user, or is gone."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        status = os.fstat(descriptor)
        if status.st_uid == os.geteuid() and os.path.samestat(status, folder.lstat()):
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None


def _remove_dead(base: Path) -> None:
    with contextlib.suppress(OSError):
        for folder in base.glob(f"{_PREFIX}*"):
            if not stat.S_ISDIR(folder.lstat().st_mode):
                continue
            lock = _take(folder)
            if lock is not None:
                _remove(folder)
                os.close(lock)


def _remove(folder: Path) -> None:
    if _SHARED.is_dir():
        for semaphore in _SHARED.glob(f"sem.{folder.name}-*"):
            with contextlib.suppress(OSError):
                semaphore.unlink()
    shutil.rmtree(folder, ignore_errors=True)


def _remove_own(process: int, folder: Path) -> None:
    if process == os.getpid():
        _remove(folder)
