"""Dedup, step 3 of 3: one decision per sentence of one partition, from the list of its duplicates."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.context import StageContext

if TYPE_CHECKING:
    from pipelines.dedup.mask import Decision, Row


def _read_duplicates(path: Path) -> Iterator[tuple[Row, Decision]]:
    from pipelines.dedup.mask import Decision
    from pipelines.tables import iter_batches

    for batch in iter_batches(path, "decisions"):
        columns = [batch.column(name).to_pylist() for name in batch.schema.names]
        for doc_id, sentence_index, is_duplicate, duplicate_of, occurrence in zip(*columns, strict=True):
            yield (doc_id, sentence_index), Decision(is_duplicate, duplicate_of, occurrence)


def _read_rows(path: Path) -> Iterator[list[Row]]:
    from pipelines.tables import iter_batches

    for batch in iter_batches(path, "sentences", ["doc_id", "sentence_index"]):
        yield list(zip(batch.column("doc_id").to_pylist(), batch.column("sentence_index").to_pylist(), strict=True))


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes ``decisions.parquet`` and, for redaction, ``masked.parquet``: one row per sentence, in the same order."""
    from pipelines.dedup.mask import decide_rows
    from pipelines.tables import TableWriter

    sentences = ctx.one("split").private("sentences.parquet")
    duplicates = _read_duplicates(ctx.one("dedup_resolve").private(f"{ctx.partition}.parquet"))
    decided = decide_rows(_read_rows(sentences), duplicates)
    num_duplicates = 0
    with (
        TableWriter(ctx.private_dir / "decisions.parquet", "decisions") as writer,
        TableWriter(ctx.private_dir / "masked.parquet", "masked") as masked,
    ):
        for rows, columns in zip(_read_rows(sentences), decided, strict=True):
            doc_ids, indices = [row[0] for row in rows], [row[1] for row in rows]
            names: dict[str, list[Any]] = {"doc_id": doc_ids, "sentence_index": indices}
            writer.extend({**names, **columns._asdict()})
            masked.extend({**names, "is_duplicate": columns.is_duplicate})
            num_duplicates += sum(columns.is_duplicate)
            ctx.progress(writer.num_rows, None, "writing decisions")
    return {"num_sentences": writer.num_rows, "num_duplicates": num_duplicates}
