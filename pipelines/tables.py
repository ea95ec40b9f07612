"""Tables (design, section 4): schemas and deterministic Parquet files.

The schema of a table is defined beside the code that owns it. Every table is written by a `TableWriter` and read as a
`Table`, which checks the schema and its version. The same rows give the same bytes: fixed row groups, zstd at one
level, no timestamps.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.errors import StageError, StoreError
from pipelines.files import to_be_read, to_be_written

ROW_GROUP_ROWS = 16_384
_VERSION_KEY = b"reticent.schema"
_COUNTS = frozenset({"sentence_index"})


@dataclass(frozen=True)
class Schema:
    """The schema of a table.

    Attributes:
        name: name of the table, and of its file unless another is given.
        columns: columns in order, without metadata.
        hashes: columns that neither a dictionary nor compression makes smaller. Both take most of the time of writing.
        plain: further columns that a dictionary makes larger: counters, and references that occur once or twice.
            ``sentence_index`` is always one of them.
        version: version, raised whenever the columns or their meaning change.
        optional: columns that a file may have behind the others, all or none of them.
    """

    name: str
    columns: pa.Schema
    hashes: frozenset[str] = frozenset()
    plain: frozenset[str] = frozenset()
    version: int = 1
    optional: pa.Schema = field(default_factory=lambda: pa.schema([]))

    @property
    def whole(self) -> Schema:
        """The schema with the optional columns."""
        return replace(self, columns=pa.schema([*self.columns, *self.optional]), optional=pa.schema([]))

    @property
    def names(self) -> list[str]:
        """The columns' names."""
        return list(self.columns.names)

    @property
    def mark(self) -> str:
        """The name and version, as in a file's metadata."""
        return f"{self.name}/{self.version}"


ROW = "doc_id: string, sentence_index: uint32"
"""The columns that identify a sentence, and on which tables of sentences are joined."""


def schema(
    name: str,
    columns: str,
    *,
    hashes: Sequence[str] = (),
    plain: Sequence[str] = (),
    optional: str = "",
    **types: pa.DataType,
) -> Schema:
    """Makes a `Schema` from a text: ``text: string, fold: string?, token_starts: uint32[]``.

    Args:
        name: name of the table.
        columns: names with Arrow's names of types; ``[]`` makes a list, and ``?`` allows null.
        hashes, plain, optional: see `Schema`; ``optional`` in the form of ``columns``.
        **types: further types that ``columns`` names.
    """
    return Schema(
        name,
        pa.schema(fields(columns, **types)),
        frozenset(hashes),
        frozenset(plain),
        optional=pa.schema(fields(optional, **types) if optional else []),
    )


def fields(columns: str, **types: pa.DataType) -> list[pa.Field]:
    """Returns the columns of a text in the format of `schema`."""
    found = []
    for column in columns.split(", "):
        name, type_name = column.split(": ")
        base = type_name.removesuffix("?").removesuffix("[]")
        of = types[base] if base in types else pa.type_for_alias(base)
        found.append(pa.field(name, pa.list_(of) if "[]" in type_name else of, nullable=type_name.endswith("?")))
    return found


def _layout(schema: Schema) -> dict[str, Any]:
    """Returns the encoding of columns, which decides bytes like the row groups do."""
    leaves = [leaf for field in schema.columns for leaf in _leaves(field.name, field.type)]
    compressed = [name for name in leaves if name not in schema.hashes]
    return {
        "compression": {name: "none" if name in schema.hashes else "zstd" for name in leaves},
        "compression_level": dict.fromkeys(compressed, 3),
        "use_dictionary": [name for name in leaves if name not in schema.hashes | schema.plain | _COUNTS],
    }


def _leaves(path: str, type: pa.DataType) -> Iterator[str]:
    """Yields the file's columns that hold a field, by Parquet's names."""
    if pa.types.is_list(type):
        yield from _leaves(f"{path}.list.element", type.value_type)
    elif pa.types.is_struct(type):
        for child in type:
            yield from _leaves(f"{path}.{child.name}", child.type)
    else:
        yield path


def arrow_file(path: Path, mode: Literal["rb", "wb"]) -> pa.NativeFile:
    """Opens a file of Arrow to read from any position, or to write from beginning to end, sealed if required."""
    opened = to_be_read(path) if mode == "rb" else to_be_written(path)
    return pa.OSFile(str(path), mode) if isinstance(opened, Path) else pa.PythonFile(opened, mode[0])


class TableWriter:
    """A writer of one Parquet file in fixed row groups. It holds one row group and the latest rows in memory.

    The bytes depend only on the rows, and not on how they were divided into calls.
    Use as a context manager: the file gets its name when it is whole, and is removed on an error.
    """

    def __init__(self, path: Path, schema: Schema) -> None:
        self._schema = schema.columns.with_metadata({_VERSION_KEY: schema.mark.encode()})
        self._path, self._unfinished = path, path.with_name(f".{path.name}.tmp")
        self._columns: dict[str, list[Any]] = {name: [] for name in self._schema.names}  # rows given as Python values
        self._num_values = 0
        self._tables: list[pa.Table] = []  # rows before those
        self._num_waiting = 0
        self.num_rows = 0
        self._file = to_be_written(self._unfinished)
        self._writer = pq.ParquetWriter(self._file, self._schema, **_layout(schema))

    def append(self, **row: Any) -> None:
        """Adds one row; every column must be given."""
        self._check(row)
        for name, value in row.items():
            self._columns[name].append(value)
        self._take_values(1)

    def extend(self, columns: Mapping[str, Sequence[Any]]) -> None:
        """Adds many rows given as equally long columns (lists, numpy arrays)."""
        self._check(columns)
        lengths = {len(c) for c in columns.values()}
        if len(lengths) != 1:
            raise ValueError("columns differ in length")
        (length,) = lengths
        for at in range(0, length, ROW_GROUP_ROWS):
            for name, values in columns.items():
                self._columns[name].extend(values[at : at + ROW_GROUP_ROWS])
            self._take_values(min(ROW_GROUP_ROWS, length - at))

    def write(self, columns: Mapping[str, Any]) -> None:
        """Adds many rows given as Arrow or numpy arrays of equal length, without passing through Python values."""
        self._check(columns)
        arrays = [_as_array(columns[f.name], f.type) for f in self._schema]
        table = pa.Table.from_arrays(arrays, schema=self._schema)
        self._freeze_values()
        self.num_rows += table.num_rows
        self._take_table(table)

    def _check(self, columns: Mapping[str, Any]) -> None:
        if columns.keys() != self._columns.keys():
            raise ValueError(f"columns {sorted(columns)} do not match the contract {self._schema.names}")

    def _take_values(self, num_rows: int) -> None:
        self._num_values += num_rows
        self.num_rows += num_rows
        if self._num_waiting + self._num_values >= ROW_GROUP_ROWS:
            self._freeze_values()

    def _freeze_values(self) -> None:
        if self._num_values:
            arrays = [pa.array(self._columns[f.name], type=f.type) for f in self._schema]
            self._num_values = 0
            for values in self._columns.values():
                values.clear()
            self._take_table(pa.Table.from_arrays(arrays, schema=self._schema))

    def _take_table(self, table: pa.Table) -> None:
        at = 0
        while self._num_waiting + table.num_rows - at >= ROW_GROUP_ROWS:
            end = at + ROW_GROUP_ROWS - self._num_waiting
            self._write_group([*self._tables, table.slice(at, end - at)])
            self._tables, self._num_waiting, at = [], 0, end
        if at < table.num_rows:
            self._tables.append(table.slice(at))
            self._num_waiting += table.num_rows - at

    def _write_group(self, tables: Sequence[pa.Table]) -> None:
        # One chunk a column: where pages end would otherwise follow the borders of the chunks.
        self._writer.write_table(pa.concat_tables(tables).combine_chunks(), row_group_size=ROW_GROUP_ROWS)

    def close(self) -> None:
        """Writes pending rows and the footer."""
        self._freeze_values()
        if self._tables:
            self._write_group(self._tables)
            self._tables, self._num_waiting = [], 0
        self._close_file()
        self._unfinished.replace(self._path)

    def _close_file(self) -> None:
        self._writer.close()
        if not isinstance(self._file, Path):
            self._file.close()

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
            return
        with contextlib.suppress(OSError):  # the first error is the one to report
            self._close_file()
            self._unfinished.unlink(missing_ok=True)


def _as_array(values: Any, type: pa.DataType) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    array = values if isinstance(values, pa.Array) else pa.array(values)
    return array if array.type.equals(type) else array.cast(type)


@dataclass(frozen=True)
class Table:
    """A table to read: a file, and the schema that it must have. The file is opened when it is read."""

    path: Path
    schema: Schema

    def open(self, as_dictionary: Sequence[str] = ()) -> pq.ParquetFile:
        """Opens the file and checks its schema.

        Args:
            as_dictionary: columns of strings to return as dictionary arrays.

        Raises:
            StoreError: the file holds another table, another version, or other columns than the schema.
        """
        # pre_buffer would hold a whole file's columns in memory; on a local file it also costs time.
        file = pq.ParquetFile(to_be_read(self.path), read_dictionary=list(as_dictionary), pre_buffer=False)
        columns = file.schema_arrow
        found = (columns.metadata or {}).get(_VERSION_KEY, b"").decode()
        expected = (self.schema.columns, self.schema.whole.columns)
        if found != self.schema.mark or not any(
            columns.equals(_with_dictionaries(one, [name for name in as_dictionary if name in one.names]))
            for one in expected
        ):
            file.close()
            raise StoreError(
                f"a {self.schema.name} table was expected, found {found or 'an unknown table'} in {self.path.name}"
            )
        return file

    @property
    def num_rows(self) -> int:
        """The number of rows. Raises the errors of `open`."""
        with self.open() as file:
            return int(file.metadata.num_rows)

    def read(self) -> pa.Table:
        """Reads the whole table into memory. Raises the errors of `open`."""
        with self.open() as file:
            return file.read(use_threads=False)

    def rows(self, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
        """Yields the rows one by one. Raises the errors of `open`."""
        for batch in self.batches(columns):
            yield from batch.to_pylist()

    def batches(
        self,
        columns: Sequence[str] | None = None,
        batch_rows: int = ROW_GROUP_ROWS,
        as_dictionary: Sequence[str] = (),
        near: tuple[str, int, int] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yields the table in batches of bounded size. Raises the errors of `open`.

        Args:
            columns: names of the columns to read; None for all.
            batch_rows: largest number of rows in a batch.
            as_dictionary: columns of strings to return as dictionary arrays, which is faster if few values repeat.
            near: column of numbers and a half-open range. Row groups without a value in the range are skipped. All rows
                of the other row groups are returned.
        """
        with self.open(as_dictionary) as file:
            options: dict[str, Any] = {"columns": list(columns) if columns is not None else None, "use_threads": False}
            if near is not None:
                options["row_groups"] = _row_groups(file, *near)
            yield from file.iter_batches(batch_size=batch_rows, **options)


def _with_dictionaries(columns: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """Returns the schema that Arrow reads if some columns come as dictionary arrays."""
    for name in names:
        at = columns.get_field_index(name)
        field = columns.field(at)
        columns = columns.set(at, field.with_type(pa.dictionary(pa.int32(), field.type)))
    return columns


def _row_groups(file: pq.ParquetFile, column: str, first: int, end: int) -> list[int]:
    """Returns the row groups whose statistics allow a value from ``first`` to below ``end``."""
    at = file.schema.names.index(column)
    found = []
    for number in range(file.num_row_groups):
        statistics = file.metadata.row_group(number).column(at).statistics
        if statistics.min < end and statistics.max >= first:
            found.append(number)
    return found


def side_by_side(
    left: Table,
    left_columns: Sequence[str],
    right: Table,
    right_columns: Sequence[str],
    batch_rows: int = ROW_GROUP_ROWS,
    *,
    made_by: str,
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Reads two tables of the same sentences in batches of the same rows.

    Args:
        left, left_columns, right, right_columns: tables, and their columns to read: ``doc_id``, ``sentence_index``, and
            more.
        batch_rows: largest number of rows in a batch.
        made_by: stage that made the second table, which the user should run again if they do not agree.

    Raises:
        StageError: the tables do not hold the same rows in the same order.
    """
    num_left, num_right, names = left.num_rows, right.num_rows, (left.path.name, right.path.name)
    if num_left != num_right:
        raise StageError(
            f"{names[0]} has {num_left} rows but {names[1]} {num_right}: not the same rows; rerun {made_by}"
        )
    batches = left.batches(left_columns, batch_rows), right.batches(right_columns, batch_rows)
    for ours, theirs in zip(*batches, strict=True):
        for column in ("doc_id", "sentence_index"):
            if not ours.column(column).equals(theirs.column(column)):
                raise StageError(
                    f"{column} differs between {names[0]} and {names[1]}: not the same rows; rerun {made_by}"
                )
        yield ours, theirs
