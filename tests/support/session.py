"""What the processes of one session of tests share: each thing is made once, by whoever asks for it first."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

_root: Path


def use(factory: pytest.TempPathFactory) -> None:
    """Takes note of where the session's folders are; `tests/conftest.py` calls it."""
    global _root
    base = factory.getbasetemp()
    _root = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@contextlib.contextmanager
def locked(name: str) -> Iterator[Path]:
    """The session's folder of a name, while no other process holds it; it may not exist yet."""
    with (_root / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield _root / name


def made_once(name: str, make: Callable[[Path], None]) -> Path:
    """A folder that ``make`` has filled, in this process or in another. Nobody may change what is in it."""
    with locked(name) as folder:
        done = folder.with_name(f"{name}.done")
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)  # whoever began may have failed
            folder.mkdir()
            make(folder)
            done.touch()
    return folder
