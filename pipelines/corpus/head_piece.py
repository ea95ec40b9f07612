"""Makes pieces of the first rows of a file, so that the real reader can read them without an index of a large file."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.context import Piece
from pipelines.corpus.formats import COLUMNAR, row_kind
from pipelines.corpus.open_input import DamagedFile, NotAFile, open_bytes
from pipelines.corpus.rows import RowReader
from pipelines.corpus.scan import DAMAGED, index_file

if TYPE_CHECKING:
    from pipelines.corpus.hashed_stream import HashedStream
    from pipelines.corpus.options import ReadOptions

CUT = "cut"
"""Digest of a piece that ends within a row. Its reader complains at its end that the file has changed."""
_ALL = 1 << 60


def head_pieces(
    path: Path, name: str, format: str, options: ReadOptions, *, max_rows: int, max_bytes: int
) -> tuple[list[Piece], bool]:
    """Returns pieces of the first rows of a file, and true if they are the whole file.

    They end with the row that reaches a limit, or after a smaller file. A large file whose rows only its reader finds
    is cut at ``max_bytes``.

    Args:
        path, name, format: file, and its name and format in the corpus
        options: options of reading
        max_rows, max_bytes: limits, both at least 1

    Raises:
        InputError: the file cannot be read.
    """
    kind = row_kind(format, name, options)
    if kind in COLUMNAR and max_rows < _ALL:
        return _of_columns(path, name, format, options, max_rows)
    if path.stat().st_size <= max_bytes:
        index = index_file(path, name, format, options, _ALL)
        return [_piece(path, name, format, p.start_byte, p.end_byte, p.digest, p.first_row) for p in index.pieces], True
    if kind == "whole":
        return [_piece(path, name, format, 0, max_bytes, CUT)], False
    try:
        with open_bytes(path) as file:
            reader = RowReader(file, name, format, options)
            stream = reader.stream()
            start = stream.position
            end, digest, is_whole = _last_row(reader, stream, max_rows, max_bytes)
    except (DamagedFile, NotAFile):
        return [_piece(path, name, format, 0, 0, DAMAGED)], True
    return [_piece(path, name, format, start, end, digest)], is_whole


def _last_row(reader: RowReader, stream: HashedStream, max_rows: int, max_bytes: int) -> tuple[int, str, bool]:
    """Returns the end of the last row within the limits, the digest up to there, and true if no row follows."""
    first = end = stream.position
    digest = stream.digest()
    with suppress(DamagedFile):  # the rows before the damage are good
        for number, _ in enumerate(reader.rows(stream), start=1):
            end, digest = stream.position, stream.digest()
            if number >= max_rows or end - first >= max_bytes:
                return end, digest, not stream.peek()
    return end, digest, True


def _of_columns(path: Path, name: str, format: str, options: ReadOptions, max_rows: int) -> tuple[list[Piece], bool]:
    from pipelines.corpus.columnar import RowHash, read_rows

    hashed = RowHash()
    num_rows = 0
    try:
        for values in islice(read_rows(path, row_kind(format, name, options), options), max_rows):
            hashed.add(values)
            num_rows += 1
    except (DamagedFile, NotAFile):
        return [_piece(path, name, format, num_rows, num_rows, DAMAGED)], True
    return [_piece(path, name, format, 0, num_rows, hashed.cut())], num_rows < max_rows


def _piece(path: Path, name: str, format: str, start: int, end: int, digest: str, first_row: int = 1) -> Piece:
    return Piece(
        path=str(path), name=name, format=format, start_byte=start, end_byte=end, first_row=first_row, digest=digest
    )
