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
_own: Path


def use(factory: pytest.TempPathFactory) -> None:
    """Takes note of where the session's folders are; `tests/conftest.py` calls it."""
    global _root, _own
    base = factory.getbasetemp()
    _root = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    _own = base / "own"


@contextlib.contextmanager
def locked(name: str) -> Iterator[Path]:
    """The session's folder of a name, while no other process holds it; it may not exist yet."""
    with (_root / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield _root / name


def made_once(name: str, make: Callable[[Path], None], *, is_live: bool = False) -> Path:
    """Returns a folder that ``make`` has filled, in this process or in another. Nobody may change what is in it.

    Whoever needs to write, if only a lock, works on a copy (`own`).

    Args:
        name: name of the folder, in the session's.
        make: function that fills the empty folder.
        is_live: True for the folder of a server, which goes on writing. It may not be copied.

    Raises:
        AssertionError: a test has changed the folder since.
    """
    with locked(name) as folder:
        done = folder.with_name(f"{name}.done")
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)  # whoever began may have failed
            folder.mkdir()
            make(folder)
            done.write_text("" if is_live else _listing(folder))
        assert is_live or done.read_text() == _listing(folder), f"a test wrote into {folder}, which all processes share"
    return folder


def _listing(folder: Path) -> str:
    """Lists each file below a folder with its size and time of change."""
    files = sorted(path for path in folder.rglob("*") if not path.is_dir())
    return "\n".join(f"{p.relative_to(folder)} {p.lstat().st_size} {p.lstat().st_mtime_ns}" for p in files)


def own(name: str) -> Path:
    """Returns where this process may keep a folder that no other process writes to; it may not exist yet."""
    _own.mkdir(exist_ok=True)
    return _own / name
