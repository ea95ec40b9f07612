"""Opens Parquet files as lazy frames of polars. Sealed files are decrypted while they are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pipelines.files import to_be_read

if TYPE_CHECKING:
    import polars as pl

_BATCH_ROWS: Final = 16_384


def scan(files: Sequence[Path]) -> pl.LazyFrame:
    """Returns the rows of several Parquet files of one schema, in order. Reads only the schema until it is collected.

    Raises:
        DamagedFileError: a sealed file was changed. Collecting the frame raises it.
    """
    import polars as pl

    sources = [to_be_read(path) for path in files[:1]]
    if not sources or isinstance(sources[0], Path):
        return pl.scan_parquet(list(files), glob=False)
    import pyarrow.parquet as pq
    from polars.io.plugins import register_io_source

    with sources[0], pq.ParquetFile(sources[0]) as first:
        schema = pl.DataFrame(first.schema_arrow.empty_table()).schema

    def batches(
        columns: list[str] | None, predicate: pl.Expr | None, num_rows: int | None, batch_rows: int | None
    ) -> Iterator[pl.DataFrame]:
        left = num_rows
        for path in files:
            with pq.ParquetFile(to_be_read(path), pre_buffer=False) as file:
                for batch in file.iter_batches(
                    batch_size=batch_rows or _BATCH_ROWS, columns=columns, use_threads=False
                ):
                    frame = pl.DataFrame(batch)
                    if left is not None:
                        frame = frame.head(left)
                        left -= len(frame)
                    yield frame if predicate is None else frame.filter(predicate)
                    if left == 0:
                        return

    return register_io_source(batches, schema=schema)
