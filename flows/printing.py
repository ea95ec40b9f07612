"""Output streams that escape quoted text, so that it cannot control the terminal."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any, TextIO

from pipelines.printable import printable


class _Printable(io.TextIOWrapper):
    """A text stream that escapes terminal control characters. It replaces another stream on the same buffer."""

    def __init__(self, replaced: io.TextIOWrapper) -> None:
        replaced.flush()
        super().__init__(
            replaced.buffer,
            encoding=replaced.encoding,
            errors=replaced.errors,
            line_buffering=replaced.line_buffering,
            write_through=replaced.write_through,
        )
        self._replaced = replaced  # kept alive: on collection it would close the buffer

    def write(self, text: str, /) -> int:
        super().write(printable(text))
        return len(text)

    def steer(self, text: str) -> None:
        """Writes text of our own without escaping it."""
        super().write(text)


def protect_streams() -> None:
    """Makes everything that this process prints pass `printable`: answers, errors, progress and library output."""
    sys.stdout, sys.stderr = _protected(sys.stdout), _protected(sys.stderr)


def _protected(stream: Any) -> Any:
    if not isinstance(stream, io.TextIOWrapper) or isinstance(stream, _Printable):
        return stream
    return _Printable(stream)


def training_progress() -> Callable[[int, int], None] | None:
    """Returns a function that shows the steps of a training on a terminal; None without a terminal."""

    def show(done: int, total: int) -> None:
        steer(sys.stderr, f"\rtraining {done}/{total}" + ("\n" if done == total else ""))

    return show if sys.stderr.isatty() else None


def steer(stream: TextIO, text: str) -> None:
    """Writes our own colours and cursor movements. Text that they quote must have passed `printable` before."""
    if isinstance(stream, _Printable):
        stream.steer(text)
    else:
        stream.write(text)
