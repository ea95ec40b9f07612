"""Dedup, step 3 of 3: one decision per sentence of one partition, from the list of its duplicates."""

from __future__ import annotations

from typing import Any

from pipelines.context import StageContext


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes ``decisions.parquet`` and, for redaction, ``masked.parquet``: one row per sentence, in the same order."""
    from itertools import tee

    from pipelines.dedup.mask import decide_rows
    from pipelines.tables import TableWriter, iter_batches, read_table

    sentences = ctx.one("split").private("sentences.parquet")
    duplicates = read_table(ctx.one("dedup_resolve").private(f"{ctx.partition}.parquet"), "duplicates")
    names = ["doc_id", "sentence_index"]
    batches, given = tee(iter_batches(sentences, "sentences", names))
    decided = decide_rows(given, duplicates)
    num_duplicates = 0
    with (
        TableWriter(ctx.private_dir / "decisions.parquet", "decisions") as writer,
        TableWriter(ctx.private_dir / "masked.parquet", "masked") as masked,
    ):
        for batch, columns in zip(batches, decided, strict=True):
            row = {name: batch.column(name) for name in names}
            writer.write({**row, **columns._asdict()})
            masked.write({**row, "is_duplicate": columns.is_duplicate})
            num_duplicates += int(columns.is_duplicate.sum())
            ctx.progress(writer.num_rows, None, "writing decisions")
    return {"num_sentences": writer.num_rows, "num_duplicates": num_duplicates}
