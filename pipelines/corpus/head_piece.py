"""Makes a piece of the first rows of a file, so that the real reader can read them without an index of the file."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.context import Piece
from pipelines.corpus.formats import COLUMNAR, row_kind
from pipelines.corpus.open_input import DamagedFile, NotAFile, open_bytes
from pipelines.corpus.rows import RowReader
from pipelines.corpus.scan import DAMAGED, NOT_A_FILE

if TYPE_CHECKING:
    from pipelines.corpus.hashed_stream import HashedStream
    from pipelines.corpus.options import ReadOptions


def head_piece(
    path: Path, name: str, format: str, options: ReadOptions, *, max_rows: int, max_bytes: int
) -> tuple[Piece, bool]:
    """Returns a piece of the first rows of a file, and true if they are the whole file.

    The piece ends with the row that reaches a limit. A file whose rows only its reader finds is cut at ``max_bytes``.

    Args:
        path, name, format: file, and its name and format in the corpus
        options: options of reading
        max_rows, max_bytes: limits, both at least 1
    """
    kind = row_kind(format, name, options)
    if kind in COLUMNAR:
        return _of_columns(path, name, format, options, max_rows)
    start = end = 0
    is_whole = True
    digest = ""
    try:
        with open_bytes(path) as file:
            reader = RowReader(file, name, format, options)
            stream = reader.stream()
            start = end = stream.position
            if kind == "whole":
                while stream.position < max_bytes and stream.readline():
                    pass
                end, digest, is_whole = stream.position, stream.digest(), not stream.peek()
            else:
                end, digest, is_whole = _last_row(reader, stream, max_rows, max_bytes)
    except (DamagedFile, OSError):
        return _piece(path, name, format, 0, 0, DAMAGED), True
    except NotAFile:
        return _piece(path, name, format, 0, 0, NOT_A_FILE), True
    return _piece(path, name, format, start, end, digest), is_whole


def _last_row(reader: RowReader, stream: HashedStream, max_rows: int, max_bytes: int) -> tuple[int, str, bool]:
    """Returns the end of the last row within the limits, the digest up to there, and true if no row follows."""
    end = stream.position
    digest = stream.digest()
    first = end
    with suppress(DamagedFile):  # the rows before the damage are good
        for number, _ in enumerate(reader.rows(stream), start=1):
            end, digest = stream.position, stream.digest()
            if number >= max_rows or end - first >= max_bytes:
                return end, digest, not stream.peek()
    return end, digest, True


def _of_columns(path: Path, name: str, format: str, options: ReadOptions, max_rows: int) -> tuple[Piece, bool]:
    from pipelines.corpus.columnar import RowHash, read_rows

    hashed = RowHash()
    num_rows = 0
    try:
        for values in islice(read_rows(path, row_kind(format, name, options), options), max_rows):
            hashed.add(values)
            num_rows += 1
    except (DamagedFile, NotAFile, OSError):
        return _piece(path, name, format, num_rows, num_rows, DAMAGED), True
    return _piece(path, name, format, 0, num_rows, hashed.cut()), num_rows < max_rows


def _piece(path: Path, name: str, format: str, start: int, end: int, digest: str) -> Piece:
    return Piece(path=str(path), name=name, format=format, start_byte=start, end_byte=end, first_row=1, digest=digest)
