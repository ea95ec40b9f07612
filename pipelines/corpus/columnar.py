"""Reads rows of Parquet files and of Arrow files (a saved ``datasets`` folder), in bounded memory.

Indexing and reading share `read_rows`, so that they never disagree about a row. The digest of a piece covers only the
values of the columns that are read: rewriting a file with other row groups or codecs changes no digest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.corpus.format_spec import RowKind
from pipelines.corpus.open_input import DamagedFile, open_ordinary
from pipelines.corpus.options import ReadOptions
from pipelines.corpus.reader_cache import OpenReader, ReaderCache, key_of
from pipelines.files import is_utf8

_BATCH_ROWS = 1_024
_BUFFER_BYTES = 1 << 20  # per column; without a buffer size, Arrow holds whole columns of a row group
_ARROW_FILE_MAGIC = b"ARROW1"

Values = dict[str, Any]


@dataclass(frozen=True)
class RowIndex:
    """The pieces of a columnar file, each with the fields of `pipelines.corpus.scan.PieceIndex`."""

    pieces: list[dict[str, Any]]
    num_rows: int
    is_damaged: bool


class RowHash:
    """SHA-256 of rows, independent of their batches."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, values: Mapping[str, Any]) -> None:
        """Adds the next row."""
        text = json.dumps(values, sort_keys=True, default=_as_text)
        self._hash.update(text.encode() + b"\n")

    def cut(self) -> str:
        """Returns the digest, hexadecimal, and resets it."""
        digest = self._hash.hexdigest()
        self._hash = hashlib.sha256()
        return digest


def _as_text(value: Any) -> str:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else repr(value)


def index_rows(path: Path, kind: RowKind, options: ReadOptions, partition_documents: int) -> RowIndex:
    """Reads a file once and divides it into pieces of ``partition_documents`` rows.

    Raises:
        NotAFile: the path is a pipe, a device or the like.
        OSError: the file cannot be read.
    """
    pieces: list[dict[str, Any]] = []
    hashed = RowHash()
    start = at = 0
    is_damaged = False

    def close() -> None:
        nonlocal start
        if at > start:
            piece = {"start_byte": start, "end_byte": at, "first_row": start + 1, "num_rows": at - start}
            pieces.append({**piece, "digest": hashed.cut()})
            start = at

    try:
        for values in read_rows(path, kind, options):
            hashed.add(values)
            at += 1
            if at - start == partition_documents:
                close()
    except DamagedFile:
        is_damaged = True
    close()
    return RowIndex(pieces, at, is_damaged)


def read_rows(path: Path, kind: RowKind, options: ReadOptions, start: int = 0) -> Generator[Values, None, None]:
    """Yields the mapped columns of the rows from ``start`` (from 0) on. Text that is not UTF-8 comes as bytes.

    Raises:
        DamagedFile: the file has another format, or ends too early.
        NotAFile: the path is a pipe, a device or the like.
        OSError: the file cannot be read.
    """
    source = _parquet if kind == "parquet" else _arrow
    with open_ordinary(path) as file:  # raises the operating system's errors, before Arrow raises its own
        yield from _rows_of(source(path, file, options.columns, start))


def _rows_of(batches: Iterator[tuple[pa.RecordBatch, int]]) -> Generator[Values, None, None]:
    try:
        for batch, skip in batches:
            columns = {field: _values(column) for field, column in zip(batch.schema.names, batch.columns, strict=True)}
            for at in range(skip, batch.num_rows):
                yield {field: values[at] for field, values in columns.items()}
    except (pa.ArrowException, UnicodeDecodeError) as error:  # UnicodeDecodeError: a column's name
        raise DamagedFile from error
    except OSError as error:
        if error.errno is None:
            raise DamagedFile from error
        raise


class _Rows:
    """Rows of a file from a start on, with a look at the next row."""

    def __init__(self, rows: Generator[Values, None, None]) -> None:
        self._rows = rows
        self._peeked: list[Values] = []

    def __iter__(self) -> _Rows:
        return self

    def __next__(self) -> Values:
        return self._peeked.pop() if self._peeked else next(self._rows)

    def is_at_end(self) -> bool:
        """Checks if there are no more rows. Damage counts as an end."""
        try:
            self._peeked.extend(islice(self, 1))
        except DamagedFile:
            return True
        return not self._peeked

    def close(self) -> None:
        """Closes the file."""
        self._rows.close()


# Row groups further away are read faster from their own start.
_READERS: ReaderCache[_Rows] = ReaderCache(at_most=4, reach=100_000)


def take_rows(path: Path, kind: RowKind, options: ReadOptions, start: int, stop: int) -> Iterator[Values]:
    """Does `read_rows` up to ``stop``. For pieces in order, a process reads each row group once."""
    with ExitStack() as stack:
        key = key_of(path, (kind, options))
        rows, at = _READERS.take(key, start) or (_Rows(read_rows(path, kind, options, start)), start)
        stack.enter_context(closing(rows))
        for values in islice(rows, stop - at):
            if at >= start:
                yield values
            at += 1
        if at == stop and not rows.is_at_end():
            stack.pop_all()
            _READERS.keep(key, OpenReader(rows, stop))


def _parquet(
    path: Path, opened: BinaryIO, columns: tuple[str, ...], start: int
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yields batches from the row group of row ``start`` on, each with the number of its rows to skip."""
    # Arrow reads faster by name than through Python, and accepts names in UTF-8 only.
    source = path if is_utf8(path) else opened
    with pq.ParquetFile(source, pre_buffer=False, buffer_size=_BUFFER_BYTES) as file:
        present = [name for name in columns if name in file.schema_arrow.names]
        first = 0
        while first < file.num_row_groups and start >= file.metadata.row_group(first).num_rows:
            start -= file.metadata.row_group(first).num_rows
            first += 1
        groups = list(range(first, file.num_row_groups))
        if not present:
            yield from _nothing(sum(file.metadata.row_group(group).num_rows for group in groups), start)
            return
        for batch in file.iter_batches(_BATCH_ROWS, row_groups=groups, columns=present):
            skip = min(start, batch.num_rows)
            start -= skip
            yield batch, skip


def _arrow(path: Path, opened: BinaryIO, columns: tuple[str, ...], start: int) -> Iterator[tuple[pa.RecordBatch, int]]:
    with pa.memory_map(str(path)) if is_utf8(path) else pa.PythonFile(opened) as source:
        is_file = source.read(len(_ARROW_FILE_MAGIC)) == _ARROW_FILE_MAGIC
        source.seek(0)
        reader = pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
        present = [name for name in columns if name in reader.schema.names]
        names = _class_names(reader.schema)
        for whole in (reader.get_batch(i) for i in range(reader.num_record_batches)) if is_file else reader:
            for offset in range(0, whole.num_rows, _BATCH_ROWS):
                batch = whole.slice(offset, _BATCH_ROWS)
                skip = min(start, batch.num_rows)
                start -= skip
                if skip == batch.num_rows:
                    continue
                if not present:
                    yield from _nothing(batch.num_rows, skip)
                    continue
                # Of several columns with one name the last one counts, as in the other formats.
                at = [batch.schema.get_all_field_indices(name)[-1] for name in present]
                taken = [_as_bytes(batch.column(index)) for index in at]
                for column in taken:
                    column.validate(full=True)  # the file's offsets may point anywhere
                named = [_named(column, names.get(name)) for name, column in zip(present, taken, strict=True)]
                yield pa.RecordBatch.from_arrays(named, names=present), skip


def _nothing(num_rows: int, skip: int) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yields rows without any of the mapped columns, so that each is rejected."""
    for at in range(0, num_rows, _BATCH_ROWS):
        size = min(_BATCH_ROWS, num_rows - at)
        yield pa.RecordBatch.from_arrays([pa.nulls(size)], names=[""]), min(max(skip - at, 0), size)


def _class_names(schema: pa.Schema) -> dict[str, list[str]]:
    """Returns the names of class labels by column, which ``datasets`` keeps in the schema's metadata."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        found = {name: feature["names"] for name, feature in features.items() if feature.get("_type") == "ClassLabel"}
    except (KeyError, TypeError, ValueError, AttributeError):
        return {}
    return {k: v for k, v in found.items() if isinstance(v, list) and all(isinstance(name, str) for name in v)}


def _named(column: pa.Array, names: list[str] | None) -> pa.Array:
    if names is None or not pa.types.is_integer(column.type):
        return column
    values = column.to_pylist()
    return pa.array([names[v] if v is not None and 0 <= v < len(names) else v if v is None else str(v) for v in values])


def _as_bytes(column: pa.Array) -> pa.Array:
    """Returns text columns as bytes, because Arrow does not check that text is UTF-8 and then fails on it."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_string(column.type):
        return column.view(pa.binary())
    return column.view(pa.large_binary()) if pa.types.is_large_string(column.type) else column


def _values(column: pa.Array) -> list[Any]:
    try:
        return [_decoded(value) for value in _as_bytes(column).to_pylist()]
    except UnicodeDecodeError:  # inside a list or a struct
        return [_value(column[at]) for at in range(len(column))]
    except pa.ArrowException:
        raise
    except (ValueError, OverflowError, LookupError):  # Python lacks the value: a year, a nanosecond, a time zone
        return [_value(column[at]) for at in range(len(column))]


def _value(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        return b"\xff"  # readers reject what is not UTF-8
    except (ValueError, OverflowError, LookupError):
        return (str(scalar.type),)  # and reject a value that is neither a string nor a number


def _decoded(value: Any) -> Any:
    try:
        return value.decode("utf-8") if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        return value
