"""``reticent inspect``: shows a table's path, how to read it in polars, and a sample without secrets."""

from __future__ import annotations

import glob
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from flows.running.spec import open_store
from pipelines.errors import ConfigError
from pipelines.frames import scan
from pipelines.graph import GRAPH
from pipelines.settings.loading import load_settings
from pipelines.stage import Table
from pipelines.store.place.roots import Roots
from pipelines.store.place.unlocking import is_encrypted

_SECRET_COLUMNS = frozenset(
    {"text", "given", "references", "source_file", "source_id", "speaker", "label", "domain", "string", "name"}
)
"""Columns that may hold private text. A sample shows only their lengths."""


def tables_of(name: str) -> list[Table]:
    """Returns the tables of a stage or the table of a name. Raises `ConfigError` if there are none."""
    found = [
        table for stage in GRAPH.values() for table in stage.tables if name in (stage.table, stage.name, table.name)
    ]
    exact = [table for table in found if table.name == name]
    if not found:
        names = [table.name for stage in GRAPH.values() for table in stage.tables]
        raise ConfigError(f"{name} has no table; tables are {', '.join(names)}")
    return exact or found


def inspect_document(
    config: Path, environ: Mapping[str, str], name: str, *, rows: int, show_text: bool
) -> dict[str, Any]:
    """Returns path, polars line, schema and sample of each table of a stage.

    Raises:
        ConfigError: the stage or table does not exist, or was not built yet.
    """
    roots = open_store(load_settings(config, environ), create=False)
    tables = tables_of(name)
    built = [table for table in tables if _folder(roots, table).exists()]  # an older store lacks newer tables
    return {"tables": [_describe(config, roots, table, rows, show_text) for table in built or tables]}


def _folder(roots: Roots, table: Table) -> Path:
    return roots.of(table.root) / "latest" / table.name


def _describe(config: Path, roots: Roots, table: Table, rows: int, show_text: bool) -> dict[str, Any]:
    folder = _folder(roots, table)
    if not folder.exists():
        again = (
            "; if `reticent plan` says that train waits, `reticent run --force train`" if table.root == "public" else ""
        )
        raise ConfigError(f"table {table.name} was not built yet, or it was forgotten; run `reticent run` first{again}")
    line = f'pl.scan_parquet("{glob.escape(str(folder))}/*.parquet")'
    if table.root == "private" and is_encrypted(roots.private):
        line = f'reticent.open("{config.absolute()}").table("{table.name}")'
    frame = scan(sorted(folder.glob("*.parquet")))
    schema = frame.collect_schema()
    sample = frame.head(rows)
    if not show_text:
        hidden = {
            **{c: ("({} characters)", pl.col(c).str.len_chars()) for c in schema.names() if schema[c] == pl.String},
            **{c: ("({} texts)", pl.col(c).list.len()) for c in schema.names() if schema[c] == pl.List(pl.String)},
        }
        sample = sample.with_columns(
            pl.when(pl.col(c).is_null()).then(None).otherwise(pl.format(*shown)).alias(c)
            for c, shown in hidden.items()
            if c in _SECRET_COLUMNS
        )
    by_label = {}
    if table.name == "held":  # rows that the gate holds, by label of the masked strings in them
        labels = frame.select("doc_id", "sentence_index", pl.col("label").str.split("+")).explode("label").unique()
        by_label = {"num_rows_by_label": dict(labels.group_by("label").len().sort("label").collect().iter_rows())}
    return {
        "table": table.name,
        "root": table.root,
        "path": str(folder),
        "polars": line,
        "num_rows": frame.select(pl.len()).collect().item(),
        **by_label,
        "schema": {column: str(kind) for column, kind in schema.items()},
        "sample": sample.collect().to_dicts(),
    }


def inspect_text(document: Mapping[str, Any]) -> str:
    """Formats the document for people."""
    parts = []
    for table in document["tables"]:
        lines = [
            f"{table['table']} ({table['root']} root), {table['num_rows']:,} rows",
            f"  path    {table['path']}",
            f"  polars  {table['polars']}",
            *(f"    {column:<24} {kind}" for column, kind in table["schema"].items()),
        ]
        if counts := table.get("num_rows_by_label"):
            held = ", ".join(f"{label} {count:,}" for label, count in counts.items())
            lines.append(f"  sentences held, by label of the masked strings in them: {held}")
        for row in table["sample"]:
            lines.append("  - " + ", ".join(f"{k}={_short(v)}" for k, v in row.items()))
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 100 else f"{text[:97]}..."
