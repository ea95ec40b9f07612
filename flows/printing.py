"""What commands print: nothing that they quote may steer the terminal."""

from __future__ import annotations

import io
import sys
from typing import Any, TextIO

from pipelines.printable import printable


class _Printable(io.TextIOWrapper):
    """A stream of text that escapes what would steer a terminal, in place of another one on the same buffer."""

    def __init__(self, replaced: io.TextIOWrapper) -> None:
        replaced.flush()
        super().__init__(
            replaced.buffer,
            encoding=replaced.encoding,
            errors=replaced.errors,
            line_buffering=replaced.line_buffering,
            write_through=replaced.write_through,
        )
        self._replaced = replaced  # it would close the buffer when it is collected

    def write(self, text: str, /) -> int:
        super().write(printable(text))
        return len(text)

    def steer(self, text: str) -> None:
        """Writes as it is what we have put together ourselves."""
        super().write(text)


def protect_streams() -> None:
    """Has all that this process prints pass `printable`: answers, errors, progress, and what libraries say."""
    sys.stdout, sys.stderr = _protected(sys.stdout), _protected(sys.stderr)


def _protected(stream: Any) -> Any:
    if not isinstance(stream, io.TextIOWrapper) or isinstance(stream, _Printable):
        return stream
    return _Printable(stream)


def steer(stream: TextIO, text: str) -> None:
    """Writes our own colours and movements of the cursor. Whatever the text quotes has passed `printable` before."""
    if isinstance(stream, _Printable):
        stream.steer(text)
    else:
        stream.write(text)
