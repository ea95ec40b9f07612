"""The table contracts (design, section 4): schemas, versions, and deterministic Parquet.

Every table is written through `TableWriter` and read through `open_table` or `read_table`, which check the schema
and its version at each stage boundary. The same rows give the same bytes: fixed row groups, zstd at one level, no
timestamps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.errors import StoreError

SCHEMA_VERSION = 1
ROW_GROUP_ROWS = 16_384
_VERSION_KEY = b"reticent.schema"

_SPAN = pa.struct(
    [
        pa.field("start_token", pa.uint32(), nullable=False),
        pa.field("end_token", pa.uint32(), nullable=False),
        pa.field("start", pa.uint32(), nullable=False),
        pa.field("end", pa.uint32(), nullable=False),
        pa.field("label", pa.string(), nullable=False),
        pa.field("policy", pa.string(), nullable=False),
        pa.field("score", pa.float32(), nullable=False),
    ]
)


def _schema(*fields: tuple[str, pa.DataType] | tuple[str, pa.DataType, bool]) -> pa.Schema:
    return pa.schema([pa.field(f[0], f[1], nullable=bool(f[2]) if len(f) > 2 else False) for f in fields])


_ROW = (("doc_id", pa.string()), ("sentence_index", pa.uint32()))

SCHEMAS: Mapping[str, pa.Schema] = {
    # One row a sentence (or dialogue turn): "the original". `char_start` is the offset in the document's text.
    "sentences": _schema(
        *_ROW,
        ("text", pa.string()),
        ("token_starts", pa.list_(pa.uint32())),
        ("token_ends", pa.list_(pa.uint32())),
        ("char_start", pa.uint32()),
        ("is_overlong_piece", pa.bool_()),
        ("speaker", pa.string(), True),
        ("domain", pa.string(), True),
        ("fold", pa.string()),
        ("label", pa.string(), True),
    ),
    # Maps a doc_id back to where it came from. Private.
    "documents": _schema(
        ("doc_id", pa.string()),
        ("source_file", pa.string()),
        ("source_row", pa.uint64()),
        ("source_id", pa.string(), True),
        ("num_sentences", pa.uint32()),
        ("num_tokens", pa.uint64()),
        ("num_chars", pa.uint64()),
        ("fold", pa.string()),
        ("has_gold", pa.bool_()),
    ),
    # What was not used, and why. Holds no text. Private, because file names are secrets.
    "rejected": _schema(
        ("source_file", pa.string()),
        ("source_row", pa.uint64()),
        ("reason", pa.string()),
        ("detail", pa.string()),
        ("num_bytes", pa.uint64()),
    ),
    # Gold secret spans mapped to sentences; only where the corpus brings them. Tokens half-open.
    "gold": _schema(
        *_ROW,
        ("start", pa.uint32()),
        ("end", pa.uint32()),
        ("start_token", pa.uint32()),
        ("end_token", pa.uint32()),
        ("label", pa.string()),
        ("secret_id", pa.uint32()),
    ),
    # 128-bit keys of the normalised sentences, in corpus order.
    "keys": _schema(
        *_ROW,
        ("key_high", pa.uint64()),
        ("key_low", pa.uint64()),
        ("in_scope", pa.bool_()),
        # Keys of the text alone, to look up in another corpus; absent where none is given.
        ("text_key_high", pa.uint64(), True),
        ("text_key_low", pa.uint64(), True),
    ),
    # The masked rows of one partition; `row` counts its sentences from 0.
    "duplicates": _schema(
        ("row", pa.uint64()),
        *_ROW,
        ("duplicate_of", pa.string(), True),
        ("occurrence", pa.uint32()),
    ),
    "decisions": _schema(
        *_ROW,
        ("is_duplicate", pa.bool_()),
        ("duplicate_of", pa.string(), True),
        ("occurrence", pa.uint32()),
    ),
    # What redaction reads of the decisions, by itself: most changes of the corpus move only the numbers above.
    "masked": _schema(*_ROW, ("is_duplicate", pa.bool_())),
    # `redacted_text` has one <MASK> per maximal run; the token counts are taken before collapsing.
    "redacted": _schema(
        *_ROW,
        ("redacted_text", pa.string()),
        ("spans", pa.list_(_SPAN)),
        ("flagged_by_conservative", pa.bool_()),
        ("num_tokens", pa.uint32()),
        ("num_masked_tokens", pa.uint32()),
        ("is_duplicate", pa.bool_()),
        ("failed_closed", pa.bool_()),
        ("speaker", pa.string(), True),
        ("domain", pa.string(), True),
        ("fold", pa.string()),
        ("label", pa.string(), True),
    ),
    # Public and private shards share one schema: no offsets, training fold only.
    "shard": _schema(
        *_ROW,
        ("redacted_text", pa.string()),
        ("num_tokens", pa.uint32()),
        ("num_masked_tokens", pa.uint32()),
        ("speaker", pa.string(), True),
        ("domain", pa.string(), True),
        ("label", pa.string(), True),
    ),
    # The public side as it is published: with identifiers of its own, for gaps in the others show where private
    # sentences stand. `public_ids` maps one to the other. Private.
    "published": _schema(
        ("row_id", pa.string()),
        ("redacted_text", pa.string()),
        ("num_tokens", pa.uint32()),
        ("speaker", pa.string(), True),
        ("domain", pa.string(), True),
        ("label", pa.string(), True),
    ),
    "public_ids": _schema(("row_id", pa.string()), *_ROW),
    # What a model scored on held-out rows: of each token its characters, its word (-1: none), its loss, and whether the
    # model ranks it first; of each word, whether all of it (null: not asked); in a record's last row, what ends it.
    "token_scores": _schema(
        *_ROW,
        ("token_starts", pa.list_(pa.uint32())),
        ("token_ends", pa.list_(pa.uint32())),
        ("token_words", pa.list_(pa.int32())),
        ("token_bytes", pa.list_(pa.uint32())),
        ("losses", pa.list_(pa.float64())),
        ("is_right", pa.list_(pa.bool_())),
        ("word_is_right", pa.list_(pa.bool_())),
        ("end_losses", pa.list_(pa.float64())),
        ("end_is_right", pa.list_(pa.bool_())),
    ),
    # What a model wrote for held-out inputs: what it read, what it wrote, and what people did. For such tasks only.
    "generated": _schema(
        ("given", pa.string()),
        ("text", pa.string()),
        ("references", pa.list_(pa.string())),
    ),
    # Which sentences to review, one row per (replicate, sentence).
    "sample": _schema(
        *_ROW,
        ("partition", pa.string()),
        ("replicate", pa.uint32()),
        ("inclusion_probability", pa.float64()),
    ),
    # The sampled sentences of one partition, each once, in corpus order.
    "chosen": _schema(*_ROW),
    # Whether masking a caught secret by hand leaves all else as it was; tokens half-open.
    "stability": _schema(
        *_ROW,
        ("start_token", pa.uint32()),
        ("end_token", pa.uint32()),
        ("is_stable", pa.bool_()),
        ("is_stable_together", pa.bool_()),
        ("reason", pa.string()),
    ),
    # The distinct strings that were masked in one partition, as they are compared. Private, as the two below.
    "gate_strings": _schema(("string", pa.string()), ("label", pa.string()), ("count", pa.uint64())),
    # What the gate searched for, for the stages that publish.
    "gate_index": _schema(("string", pa.string()), ("label", pa.string()), ("is_part_of_public_word", pa.bool_())),
    # Where a masked string was about to be published; for people, in the folder of failures only.
    "gate_hits": _schema(
        ("file", pa.string()),
        ("string", pa.string()),
        ("label", pa.string()),
        ("text", pa.string()),
        ("doc_id", pa.string(), True),
        ("sentence_index", pa.uint32(), True),
    ),
}


def schema_of(name: str) -> pa.Schema:
    """The schema of a table, with its name and version in the metadata."""
    return SCHEMAS[name].with_metadata({_VERSION_KEY: f"{name}/{SCHEMA_VERSION}".encode()})


# Hashes: neither a dictionary nor compression makes them smaller, and both take most of the time of writing them.
_INCOMPRESSIBLE = frozenset({"key_high", "key_low", "text_key_high", "text_key_low", "row_id"})
# Numbers that count up, and references that occur once or twice: larger with a dictionary than without.
_PLAIN = _INCOMPRESSIBLE | {"row", "sentence_index", "duplicate_of"}


def _layout(schema: pa.Schema) -> dict[str, Any]:
    """How columns are encoded; part of the bytes, like the row groups."""
    leaves = [leaf for field in schema for leaf in _leaves(field.name, field.type)]
    compressed = [name for name in leaves if name not in _INCOMPRESSIBLE]
    return {
        "compression": {name: "none" if name in _INCOMPRESSIBLE else "zstd" for name in leaves},
        "compression_level": dict.fromkeys(compressed, 3),
        "use_dictionary": [name for name in leaves if name not in _PLAIN],
    }


def _leaves(path: str, type: pa.DataType) -> Iterator[str]:
    """The columns of the file that hold a field, as Parquet names them."""
    if pa.types.is_list(type):
        yield from _leaves(f"{path}.list.element", type.value_type)
    elif pa.types.is_struct(type):
        for child in type:
            yield from _leaves(f"{path}.{child.name}", child.type)
    else:
        yield path


class TableWriter:
    """Writes one Parquet file in fixed row groups, holding one row group and what was given last in memory.

    The bytes depend on the rows alone, not on how they were cut into calls.
    Use as a context manager; on an error the file is left incomplete, and the store never publishes it.
    """

    def __init__(self, path: Path, table: str) -> None:
        self._schema = schema_of(table)
        self._columns: dict[str, list[Any]] = {name: [] for name in self._schema.names}  # rows given as Python values
        self._num_values = 0
        self._tables: list[pa.Table] = []  # rows before those
        self._num_waiting = 0
        self.num_rows = 0
        self._writer = pq.ParquetWriter(path, self._schema, **_layout(self._schema))

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
        """Writes what is pending and the footer."""
        self._freeze_values()
        if self._tables:
            self._write_group(self._tables)
            self._tables, self._num_waiting = [], 0
        self._writer.close()

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._writer.close()


def _as_array(values: Any, type: pa.DataType) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    array = values if isinstance(values, pa.Array) else pa.array(values)
    return array if array.type.equals(type) else array.cast(type)


def open_table(path: Path, table: str) -> pq.ParquetFile:
    """Opens a table for reading in batches, after checking its schema.

    Raises:
        StoreError: the file holds another table, another version, or other columns than the contract.
    """
    # pre_buffer would hold a whole file's columns in memory; on a local file it also costs time.
    file = pq.ParquetFile(path, pre_buffer=False)
    found = (file.schema_arrow.metadata or {}).get(_VERSION_KEY, b"").decode()
    if found != f"{table}/{SCHEMA_VERSION}" or not file.schema_arrow.equals(SCHEMAS[table]):
        raise StoreError(f"a {table} table was expected, found {found or 'an unknown table'} in {path.name}")
    return file


def read_table(path: Path, table: str) -> pa.Table:
    """Reads a whole table into memory, after checking its schema. Raises as `open_table`."""
    with open_table(path, table) as file:
        return file.read()


def iter_batches(
    path: Path,
    table: str,
    columns: Sequence[str] | None = None,
    batch_rows: int = ROW_GROUP_ROWS,
    as_dictionary: Sequence[str] = (),
) -> Iterator[pa.RecordBatch]:
    """Reads a table in batches of bounded size, after checking its schema. Raises as `open_table`.

    Args:
        path, table: the file, and which table it must be.
        columns: what to read; None for every column.
        batch_rows: rows at a time, at most.
        as_dictionary: columns of strings that come as dictionary arrays: faster where few values are repeated.
    """
    with open_table(path, table) as file:
        wanted = list(columns) if columns is not None else None
        if not as_dictionary:
            yield from file.iter_batches(batch_size=batch_rows, columns=wanted, use_threads=False)
            return
        with pq.ParquetFile(
            path, metadata=file.metadata, read_dictionary=list(as_dictionary), pre_buffer=False
        ) as encoded:
            yield from encoded.iter_batches(batch_size=batch_rows, columns=wanted, use_threads=False)
