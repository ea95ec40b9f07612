"""Opens input files, plain or compressed, as streams of bytes."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path
from typing import BinaryIO, cast

from pipelines.corpus.formats import compression_of

_BUFFER_BYTES = 1 << 20
_PART_BYTES = 1 << 16  # what is read at a time is what is lost before the damage


class DamagedFile(Exception):
    """A compressed file, or a Parquet or Arrow file, ends too early or holds bytes that make no sense."""


class _Guarded(io.RawIOBase):
    """Tells damage from trouble with the disk: decompressors raise both as OSError."""

    def __init__(self, inner: BinaryIO) -> None:
        self._inner = inner

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
        super().close()


def open_bytes(path: Path) -> BinaryIO:
    """The decompressed bytes of a file, by its suffix; `DamagedFile` comes from reading, `OSError` from either.

    The stream of a compressed file cannot be sought; see `skip_to`.
    """
    compression = compression_of(path.name)
    if compression is None:
        return path.open("rb", buffering=_BUFFER_BYTES)
    if compression == ".gz":
        inner = cast("BinaryIO", gzip.open(path, "rb"))  # noqa: SIM115  (closed with the stream)
    else:
        import pyarrow as pa

        inner = cast("BinaryIO", pa.CompressedInputStream(path.open("rb"), "zstd"))
    return io.BufferedReader(_Guarded(inner), _BUFFER_BYTES)


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
