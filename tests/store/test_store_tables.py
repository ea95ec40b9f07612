"""The bytes of a table depend on its rows alone."""

from __future__ import annotations

import functools
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tables import SCHEMAS, read_table, table_at, table_writer

from pipelines.tables import ROW_GROUP_ROWS

NUM_ROWS = 2 * ROW_GROUP_ROWS + 1_000


@functools.cache
def _rows(table: str) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    if table == "gate_strings":  # more than a page of text in each row group
        texts = ["".join(map(chr, row)) for row in rng.integers(97, 123, (NUM_ROWS, 200))]
        return {"string": texts, "label": ["NAME"] * NUM_ROWS, "count": np.arange(NUM_ROWS)}
    ids = {"doc_id": [f"{n // 7:032x}" for n in range(NUM_ROWS)], "sentence_index": np.arange(NUM_ROWS) % 7}
    if table == "masked":
        return {**ids, "is_duplicate": rng.random(NUM_ROWS) < 0.2}
    absent = [None] * NUM_ROWS
    halves = {name: rng.integers(0, 2**63, NUM_ROWS, dtype=np.uint64) for name in ("key_high", "key_low")}
    order = {"prefix": np.sort(rng.integers(0, 2**16, NUM_ROWS)), "row": rng.permutation(NUM_ROWS)}
    return {
        **order,
        **ids,
        **halves,
        "in_scope": rng.random(NUM_ROWS) < 0.9,
        "text_key_high": absent,
        "text_key_low": absent,
    }


TABLES = ("masked", "keys", "gate_strings")


def _written(folder: Path, table: str, cuts: list[int], how: list[str]) -> bytes:
    columns = _rows(table)
    path = folder / f"{table}.parquet"
    with table_writer(path, table) as writer:
        for (start, end), way in zip(pairwise([0, *cuts, NUM_ROWS]), how, strict=True):
            part = {name: values[start:end] for name, values in columns.items()}
            if way == "append":
                for row in zip(*part.values(), strict=True):
                    writer.append(**dict(zip(part, row, strict=True)))
            elif way == "extend":
                writer.extend(part)
            else:
                writer.write({name: pa.array(values) for name, values in part.items()})
        assert writer.num_rows == NUM_ROWS
    return path.read_bytes()


@pytest.mark.parametrize("table", TABLES)
@settings(max_examples=4)
@given(data=st.data())
def test_the_bytes_do_not_depend_on_how_rows_are_given(table: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, NUM_ROWS), max_size=4)))
    how = [data.draw(st.sampled_from(["write", "extend", "append"])) for _ in range(len(cuts) + 1)]
    with tempfile.TemporaryDirectory() as folder:
        whole = _written(Path(folder), table, [], ["write"])
        assert _written(Path(folder), table, cuts, how) == whole
        path = Path(folder) / f"{table}.parquet"
        assert [pq.ParquetFile(path).metadata.row_group(n).num_rows for n in range(3)] == [
            ROW_GROUP_ROWS,
            ROW_GROUP_ROWS,
            1_000,
        ]
        first = "string" if table == "gate_strings" else "doc_id"
        assert read_table(path, table)[first].to_pylist() == list(_rows(table)[first])
        batches = list(table_at(path, table).batches([first], 1_000, as_dictionary=[first]))
        assert pa.types.is_dictionary(batches[0].schema.field(first).type)
        assert [value for batch in batches for value in batch[first].to_pylist()] == _rows(table)[first]


@pytest.mark.parametrize("table", SCHEMAS)
def test_everything_but_hashes_is_compressed_at_any_depth(tmp_path: Path, table: str) -> None:
    with table_writer(tmp_path / "x.parquet", table) as writer:
        writer.write({field.name: _one_value(field.type) for field in SCHEMAS[table].columns})
    group = pq.ParquetFile(tmp_path / "x.parquet").metadata.row_group(0)
    columns = [group.column(n) for n in range(group.num_columns)]
    assert {c.path_in_schema for c in columns if c.compression != "ZSTD"} == (
        {c.path_in_schema for c in columns} & {"key_high", "key_low", "text_key_high", "text_key_low", "row_id"}
    )
    plain = {c.path_in_schema for c in columns if not c.has_dictionary_page and c.physical_type != "BOOLEAN"}
    hashes = {"key_high", "key_low", "text_key_high", "text_key_low", "row_id"}
    assert plain <= hashes | {"row", "sentence_index", "duplicate_of"}


def _one_value(type: pa.DataType) -> pa.Array:
    """A row that holds a value at every depth."""
    if pa.types.is_struct(type):
        return pa.StructArray.from_arrays([_one_value(child.type) for child in type], fields=list(type))
    if pa.types.is_list(type):
        return pa.array([_one_value(type.value_type).to_pylist()], type)
    return pa.array(["x" if pa.types.is_string(type) else 1]).cast(type)


def test_row_groups_without_a_value_in_the_range_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "keys.parquet"
    with table_writer(path, "keys") as writer:
        writer.write({name: pa.array(values) for name, values in _rows("keys").items()})
    prefixes = np.asarray(_rows("keys")["prefix"])
    for first, end in ((0, 2**16), (0, 1), (2**15, 2**15 + 700), (2**16 - 1, 2**16), (70_000, 80_000)):
        batches = table_at(path, "keys").batches(
            ["prefix", "doc_id"], as_dictionary=["doc_id"], near=("prefix", first, end)
        )
        read = np.concatenate([[], *(batch["prefix"].to_numpy() for batch in batches)])
        groups = [prefixes[at : at + ROW_GROUP_ROWS] for at in range(0, NUM_ROWS, ROW_GROUP_ROWS)]
        assert read.tolist() == [p for g in groups if g[0] < end and g[-1] >= first for p in g]
        wanted = prefixes[(prefixes >= first) & (prefixes < end)]
        assert read[(read >= first) & (read < end)].tolist() == wanted.tolist()
