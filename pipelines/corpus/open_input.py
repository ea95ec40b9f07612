"""Opens input files, plain or compressed, as streams of bytes."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import stat
import zlib
from pathlib import Path
from typing import BinaryIO, cast

from pipelines.corpus.encodings import UTF8, as_utf8
from pipelines.corpus.formats import compression_of

_BUFFER_BYTES = 1 << 20
_PART_BYTES = 1 << 16  # read at a time; this much may be lost before damage


class DamagedFile(Exception):
    """A compressed, Parquet or Arrow file that ends too early or holds invalid bytes."""


class NotAFile(Exception):
    """A pipe, a socket, a device or the like, which may have no bytes and no end."""


class _Ordinary(io.FileIO):
    """A file whose reads never block. A file that would block is not on a disk."""

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        given = super().readinto(buffer)
        if given is None:
            raise NotAFile
        return given


class _Guarded(io.RawIOBase):
    """A stream that distinguishes damage from disk errors, because decompressors raise OSError for both."""

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
            if error.errno is None:  # not from the operating system
                raise DamagedFile from error
            raise
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._inner.close()
        self._file.close()
        super().close()


def open_ordinary(path: Path) -> BinaryIO:
    """Opens the bytes of a file without ever blocking.

    Raises:
        NotAFile: the path is not a regular file. Reading may raise this too.
        OSError: the file cannot be read.
    """
    if not stat.S_ISREG(path.stat().st_mode):  # opening a device may already have an effect
        raise NotAFile
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotAFile
    return io.BufferedReader(_Ordinary(descriptor), _BUFFER_BYTES)


def open_bytes(path: Path, encoding: str = UTF8) -> BinaryIO:
    """Opens the decompressed bytes of a file, by its suffix, in UTF-8.

    Reading raises `DamagedFile`. Opening and reading raise `NotAFile` and `OSError`. The stream of a file that is
    compressed, or in another character set, cannot seek; see `skip_to`.

    Args:
        path: path of the file
        encoding: character set of the file, if the stream is to be in UTF-8; see `pipelines.corpus.encodings.as_utf8`
    """
    return as_utf8(_open_decompressed(path), encoding)


def _open_decompressed(path: Path) -> BinaryIO:
    compression = compression_of(path.name)
    file = open_ordinary(path)
    if compression is None:
        return file
    if compression == ".gz":
        inner = cast("BinaryIO", gzip.GzipFile(fileobj=file))
    elif compression == ".bz2":
        inner = cast("BinaryIO", bz2.BZ2File(file))
    else:
        import pyarrow as pa

        inner = cast("BinaryIO", pa.CompressedInputStream(file, "zstd"))
    return io.BufferedReader(_Guarded(inner, file), _BUFFER_BYTES)


def skip_to(file: BinaryIO, position: int, at: int) -> None:
    """Moves a stream from byte ``at`` to ``position``. Reads a compressed stream up to that position."""
    if file.seekable():
        file.seek(position)
        return
    while at < position:
        data = file.read(min(position - at, _BUFFER_BYTES))
        if not data:
            return
        at += len(data)


def is_at_end(file: BinaryIO) -> bool:
    """Checks if a stream of `open_bytes` has no more bytes. Damage counts as an end."""
    try:
        return not cast("io.BufferedReader", file).peek(1)
    except DamagedFile:
        return True
