"""Divides the input files into partitions, the units of parallel and incremental work.

The end of a partition depends only on file names and numbers of rows, never on the text or its length. Otherwise one
longer secret could move every later border, and with it the record that other people's text falls into. The
neighbouring relation of CRT, Theorem 8 (and of any claim per record) would then no longer hold for one record.

Public and non-public: file names are private, so partitions have pseudonyms, and messages name only the user's inputs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pipelines.context import Partition, Piece, pseudonym
from pipelines.corpus.formats import COLUMNAR, encoding_of_file, file_options, is_plugin, named_fold, row_kind
from pipelines.corpus.hashed_stream import HashedStream
from pipelines.corpus.listing import list_files
from pipelines.corpus.open_input import DamagedFile, NotAFile, open_bytes
from pipelines.corpus.options import ReadOptions
from pipelines.corpus.rows import RowReader
from pipelines.corpus.side_files import side_digest
from pipelines.errors import InputError

DAMAGED = "damaged"
"""Digest of an unreadable piece, the part after the last whole row of a damaged file."""
NOT_A_FILE = "not_a_file"
"""Digest of the only piece of a pipe, a device or the like, which is not read."""


class PieceIndex(NamedTuple):
    """A run of whole rows in a file; see `Piece`."""

    start_byte: int
    end_byte: int
    first_row: int
    num_rows: int
    digest: str


@dataclass(frozen=True, kw_only=True)
class FileIndex:
    """The positions of the rows in one file, and the SHA-256 of each piece."""

    size: int
    pieces: tuple[PieceIndex, ...]

    @property
    def num_rows(self) -> int:
        """Number of rows in the file."""
        return sum(piece.num_rows for piece in self.pieces)

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values, for a cache."""
        return {"size": self.size, "pieces": [[*piece] for piece in self.pieces]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> FileIndex:
        """Makes an index from the values of `to_json`."""
        return cls(size=value["size"], pieces=tuple(PieceIndex(*row) for row in value["pieces"]))


def index_file(
    path: Path, name: str, format: str, options: ReadOptions, partition_documents: int, *, given: str | None = None
) -> FileIndex:
    """Reads a file once, in bounded memory, and divides it into pieces of ``partition_documents`` rows.

    A damaged file (truncated, or of another format) ends in a piece with the digest `DAMAGED` after its last whole row,
    or after the last byte that can be read if the format finds its own rows (`keeps_part`).
    A pipe, a device or the like has one piece with the digest `NOT_A_FILE`.

    Args:
        path: path of the file
        name: name in the corpus
        format: name in `pipelines.corpus.formats.FORMATS`
        options: options of reading
        partition_documents: rows per piece; the last piece may have fewer
        given: input of the user, for messages

    Raises:
        InputError: the file cannot be read.
    """
    if partition_documents < 1:
        raise ValueError("partition_documents must be at least 1")
    options = file_options(name, format, options)
    try:
        kind = row_kind(format, name, options)
        if kind in COLUMNAR:
            from pipelines.corpus.columnar import index_rows  # imports pyarrow

            rows = index_rows(path, kind, options, partition_documents)
            pieces = [PieceIndex(**piece) for piece in rows.pieces]
            size, is_damaged = rows.num_rows, rows.is_damaged
        else:
            pieces, size, is_damaged = _index_bytes(path, name, format, options, partition_documents)
            if kind == "whole":  # the number of rows is unknown, so it is one partition
                pieces = [piece._replace(num_rows=partition_documents) for piece in pieces]
    except NotAFile:
        piece = PieceIndex(start_byte=0, end_byte=0, first_row=1, num_rows=1, digest=NOT_A_FILE)
        return FileIndex(size=0, pieces=(piece,))
    except OSError as error:
        where, hint = ("", "") if given is None else (f" of {given}", f" `find -L {given} ! -readable` shows which.")
        raise InputError(
            f"corpus.inputs: a file{where} cannot be read ({os.strerror(error.errno or 0)}).{hint}"
        ) from None
    if is_damaged:
        first_row = pieces[-1].first_row + pieces[-1].num_rows if pieces else 1
        pieces.append(PieceIndex(start_byte=size, end_byte=size, first_row=first_row, num_rows=1, digest=DAMAGED))
    return FileIndex(size=size, pieces=tuple(pieces))


def _index_bytes(
    path: Path, name: str, format: str, options: ReadOptions, partition_documents: int
) -> tuple[list[PieceIndex], int, bool]:
    """Returns the pieces, the end of the last row, and a flag that the file is damaged after it."""
    pieces: list[PieceIndex] = []
    start = end = num_rows = 0
    digest = ""
    first_row = 1
    is_damaged = False
    stream: HashedStream | None = None
    side = side_digest(path, name, format)
    with open_bytes(path, encoding_of_file(format, name, options)) as file:
        try:
            reader = RowReader(file, name, format, options, side)
            stream = reader.stream()
            start = end = stream.position
            for row in reader.rows(stream):
                num_rows += 1
                end = stream.position
                if num_rows == partition_documents:
                    pieces.append(PieceIndex(start, end, first_row, num_rows, stream.cut()))
                    start, num_rows, first_row = end, 0, row.number + 1
                else:
                    digest = stream.digest()
        except DamagedFile:
            is_damaged = True
            if stream is not None and stream.position > start and keeps_part(format, name, options):
                end, digest, num_rows = stream.position, stream.digest(), 1
    if num_rows:
        pieces.append(PieceIndex(start, end, first_row, num_rows, digest))
    return pieces, end if is_damaged or stream is None else stream.position, is_damaged


def keeps_part(format: str, name: str, options: ReadOptions) -> bool:
    """Checks if the rows before a damage are read in files that are one piece, with rows that only a reader can find.

    A reader of another package need not know how to read a part of a file.
    """
    return not is_plugin(format) and row_kind(format, name, options) == "whole"


def group(
    files: Iterable[tuple[str, str | Path, str, FileIndex]],
    *,
    partition_documents: int,
    secret: bytes,
    draws: bool = False,
) -> list[Partition]:
    """Divides the corpus into partitions of at most ``partition_documents`` rows, in document order.

    A file with more rows has partitions of its own. Each run of smaller files between such files is divided like a
    treap: while a run holds too many rows, it is divided before the file whose keyed hash is smallest. Every file's
    hash depends on its own name alone, so adding, removing or changing one file changes only groups next to it, with at
    most twice ``partition_documents`` other rows together. A running count would move every later border.

    Args:
        files: tuples (name, path, format, index) with unique names
        partition_documents: largest number of rows in a partition, with which the files were indexed
        secret: secret of the store, so that neither names nor borders can be guessed
        draws: true if the folds in file names do not count (`pipelines.corpus.formats.draws_folds`)

    Raises:
        InputError: the corpus has no row.
    """
    partitions: list[Partition] = []
    run: list[tuple[str, int, tuple[Piece, ...]]] = []

    def flush() -> None:
        for low, high in _cut([(name, rows) for name, rows, _ in run], partition_documents, secret):
            partitions.append(_partition(tuple(p for _, _, pieces in run[low:high] for p in pieces), secret))
        run.clear()

    for name, path, form, index in sorted(files, key=lambda file: file[0]):
        pieces = tuple(
            Piece(
                path=str(path),
                name=name,
                format=form,
                start_byte=p.start_byte,
                end_byte=p.end_byte,
                first_row=p.first_row,
                digest=p.digest,
                draws_fold=draws and named_fold(name, form) is not None,
            )
            for p in index.pieces
        )
        if len(pieces) == 1:
            run.append((name, index.num_rows, pieces))
        elif pieces:
            flush()
            partitions.extend(_partition((piece,), secret) for piece in pieces)
    flush()
    if not partitions:
        raise InputError("corpus.inputs holds no text: every file is empty.")
    return partitions


def _cut(files: Sequence[tuple[str, int]], partition_documents: int, secret: bytes) -> list[tuple[int, int]]:
    """Returns half-open index ranges of the groups in a run of small files, given as (name, rows)."""
    priorities = [pseudonym(secret, "border", name) for name, _ in files]
    before = [0]
    for _, rows in files:
        before.append(before[-1] + rows)
    groups: list[tuple[int, int]] = []
    todo = [(0, len(files))] if files else []
    while todo:
        low, high = todo.pop()
        if high - low == 1 or before[high] - before[low] <= partition_documents:
            groups.append((low, high))
        else:
            cut = min(range(low + 1, high), key=priorities.__getitem__)
            todo += [(cut, high), (low, cut)]
    return groups


def _partition(pieces: tuple[Piece, ...], secret: bytes) -> Partition:
    # Named after its first row, so that a group keeps its name if files after the first one come and go.
    return Partition(pseudonym(secret, "partition", pieces[0].name, str(pieces[0].first_row))[:16], pieces)


def scan(
    inputs: Sequence[str | Path],
    *,
    base_dir: Path,
    format: str = "auto",
    options: ReadOptions | None = None,
    partition_documents: int = 1000,
    secret: bytes,
) -> list[Partition]:
    """Does `list_files`, `index_file` and `group` in one call, without a cache. Raises their errors."""
    options = options or ReadOptions()
    files = list_files(inputs, base_dir, format, options.sources)
    indexed = [
        (f.name, f.path, f.format, index_file(f.path, f.name, f.format, options, partition_documents, given=f.given))
        for f in files
    ]
    return group(indexed, partition_documents=partition_documents, secret=secret)
