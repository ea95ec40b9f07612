"""Makes the N-th change of files below given folders fail: the process dies there, or the call raises.

Wraps the functions of `os` (and `io.open` for writing) through which the library changes files, so every step of every
publish is a point at which a test can strike, with nothing in the library that knows about it.
"""

# Pathlib calls the functions that are wrapped here.
# ruff: noqa: PTH

from __future__ import annotations

import builtins
import errno
import io
import os
import shutil  # noqa: F401  (looks at the functions of os when imported; it must see the real ones)
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_BY_PATH = ("mkdir", "rename", "replace", "unlink", "rmdir", "link", "symlink")
_NEEDS_SPACE = {"mkdir", "link", "symlink", "open", "fsync"}
_WRITING = os.O_WRONLY | os.O_RDWR


class Counter:
    """How many changes were made so far, and what they were: ``operation path``."""

    def __init__(self) -> None:
        self.steps: list[str] = []


def die(step: str) -> None:
    """As the kernel ends a process: no handler, no clean-up."""
    os.kill(os.getpid(), signal.SIGKILL)


def full_disk(step: str) -> None:
    """Whatever needs room fails; moving and removing go on."""
    if step.partition(" ")[0] in _NEEDS_SPACE:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def read_only(step: str) -> None:
    """Nothing can be changed."""
    if step.partition(" ")[0] != "opened":
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))


@contextmanager
def striking(
    folders: Sequence[Path], action: Callable[[str], None], at: int | None, *, from_then_on: bool = False
) -> Iterator[Counter]:
    """Counts changes below ``folders`` and calls ``action`` just before the ``at``-th, counting from 0.

    Opening a file counts twice: before it, and when the file is there, empty.

    Args:
        at: None only counts.
        from_then_on: also before every later one.
    """
    bases = tuple(f"{os.path.realpath(folder)}{os.sep}" for folder in folders)
    counter = Counter()

    def step(operation: str, path: Any, dir_fd: int | None = None) -> None:
        if isinstance(path, int):
            shown = os.readlink(f"/proc/self/fd/{path}")
        elif dir_fd is not None:
            shown = os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), os.fspath(path))
        else:
            shown = os.path.join(os.path.realpath(os.path.dirname(os.path.abspath(path))), os.path.basename(path))
        if not f"{shown}{os.sep}".startswith(bases):
            return
        number = len(counter.steps)
        counter.steps.append(f"{operation} {shown}")
        if at is not None and (number == at or (from_then_on and number > at)):
            action(counter.steps[-1])

    real: dict[str, Any] = {name: getattr(os, name) for name in (*_BY_PATH, "fsync", "open")}
    real_open = io.open

    def wrap(name: str) -> Callable[..., Any]:
        def call(path: Any, *arguments: Any, **named: Any) -> Any:
            # The name that a link or a move makes is what changes in the store.
            target = arguments[0] if name in ("rename", "replace", "link", "symlink") else path
            step(name, target, named.get("dir_fd"))
            return real[name](path, *arguments, **named)

        return call

    def fsync(descriptor: int) -> None:
        step("fsync", descriptor)
        real["fsync"](descriptor)

    def os_open(path: Any, flags: int, *arguments: Any, **named: Any) -> int:
        if flags & _WRITING:
            step("open", path, named.get("dir_fd"))
        descriptor: int = real["open"](path, flags, *arguments, **named)
        if flags & _WRITING:
            step("opened", path, named.get("dir_fd"))
        return descriptor

    def open_file(file: Any, mode: str = "r", *arguments: Any, **named: Any) -> Any:
        writes = not isinstance(file, int) and bool(set(mode) & set("wax+"))
        if writes:
            step("open", file)
        opened = real_open(file, mode, *arguments, **named)
        if writes:
            step("opened", file)
        return opened

    try:
        for name in _BY_PATH:
            setattr(os, name, wrap(name))
        os.fsync, os.open = fsync, os_open
        io.open = builtins.open = open_file
        yield counter
        assert counter.steps, "nothing was changed below the folders: the test proves nothing"
    finally:
        for name, function in real.items():
            setattr(os, name, function)
        io.open = builtins.open = real_open
