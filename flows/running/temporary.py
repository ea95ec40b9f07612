"""One folder for all that a process, its workers and its server put into the temporary folder.

It goes when the process ends. What a killed process left is removed by the next one: a folder is dead when nobody holds
its lock, which the kernel frees. Libraries find it through ``TMPDIR``; semaphores, which are no files there, carry the
folder's name.
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
"""Of the folder's path: the name of a fork server's socket goes behind it, and has 107 characters at most."""

_own: dict[int, Path | None] = {}
"""The folder of this process, by its id, which a fork changes."""


@contextlib.contextmanager
def temporary_files() -> Iterator[None]:
    """Temporary files that are made inside go to this process's own folder.

    The folder is there until the process ends, so that what still stands in it can be used again.
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
    """This process's folder, or None where there can be none."""
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
            break  # and the lock is never given up
    else:
        return None
    # Only a name: semaphores of worker processes are kept elsewhere.
    getattr(multiprocessing.current_process(), "_config", {})["semprefix"] = f"/{folder.name}"
    # After multiprocessing's own (priority -100), which clears up in the folder at its end.
    Finalize(None, _remove_own, args=(os.getpid(), folder), exitpriority=-200)
    return folder


def _take(folder: Path) -> int | None:
    """The lock of a folder of ours, or None: somebody holds it, it is another user's, or it is gone."""
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
