"""Opens input files, plain or compressed, as streams of bytes."""

from __future__ import annotations

import gzip
import io
import os
import stat
import zlib
from pathlib import Path
from typing import BinaryIO, cast

from pipelines.corpus.formats import compression_of

_BUFFER_BYTES = 1 << 20
_PART_BYTES = 1 << 16  # what is read at a time is what is lost before the damage


class DamagedFile(Exception):
    """A compressed file, or a Parquet or Arrow file, ends too early or holds bytes that make no sense."""


class NotAFile(Exception):
    """A pipe, a socket, a device, or something else that gives no bytes and comes to no end."""


class _Ordinary(io.FileIO):
    """Never waits: what has nothing to give at the moment is not a file that lies on a disk."""

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        given = super().readinto(buffer)
        if given is None:
            raise NotAFile
        return given


class _Guarded(io.RawIOBase):
    """Tells damage from trouble with the disk: decompressors raise both as OSError."""

    def __init__(self, inner: BinaryIO, file: BinaryIO) -> None:
        self._inner = inner
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            data = self._inner.read(min(len(buffer), _PART_BYTES))
        except (EOFError, zlib.error) as error:
            raise DamagedFile from error
        except OSError as error:
            if error.errno is None:  # not the operating system's
                raise DamagedFile from error
            raise
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._inner.close()
        self._file.close()
        super().close()


def open_ordinary(path: Path) -> BinaryIO:
    """The bytes of a file, which is never waited for.

    Raises:
        NotAFile: it is none; also from reading.
        OSError: it cannot be read.
    """
    if not stat.S_ISREG(path.stat().st_mode):  # to open a device may already do something
        raise NotAFile
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotAFile
    return io.BufferedReader(_Ordinary(descriptor), _BUFFER_BYTES)


def open_bytes(path: Path) -> BinaryIO:
    """The decompressed bytes of a file, by its suffix.

    `DamagedFile` comes from reading; `NotAFile` and `OSError` from opening or reading. The stream of a compressed file
    cannot be sought; see `skip_to`.
    """
    compression = compression_of(path.name)
    file = open_ordinary(path)
    if compression is None:
        return file
    if compression == ".gz":
        inner = cast("BinaryIO", gzip.GzipFile(fileobj=file))
    else:
        import pyarrow as pa

        inner = cast("BinaryIO", pa.CompressedInputStream(file, "zstd"))
    return io.BufferedReader(_Guarded(inner, file), _BUFFER_BYTES)


def skip_to(file: BinaryIO, position: int, at: int) -> None:
    """Moves a stream from byte ``at`` on to ``position``. A compressed one is read up to there."""
    if file.seekable():
        file.seek(position)
        return
    while at < position:
        data = file.read(min(position - at, _BUFFER_BYTES))
        if not data:
            return
        at += len(data)


def is_at_end(file: BinaryIO) -> bool:
    """Whether a stream of `open_bytes` has no more bytes; damage is an end too."""
    try:
        return not cast("io.BufferedReader", file).peek(1)
    except DamagedFile:
        return True
