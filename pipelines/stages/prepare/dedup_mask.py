"""Dedup, step 4 of 4: one decision per sentence of one partition, from the list of its duplicates."""

from __future__ import annotations

from itertools import tee
from typing import Any

from pipelines.context import StageContext
from pipelines.corpus.tables import SENTENCES
from pipelines.dedup.mask import decide_rows
from pipelines.dedup.tables import DECISIONS, DUPLICATES, MASKED


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes ``decisions.parquet`` and, for redaction, ``masked.parquet``: one row per sentence, in the same order."""
    duplicates = ctx.input("dedup_resolve").table(DUPLICATES, ctx.partition).read()
    names = ["doc_id", "sentence_index"]
    batches, rows = tee(ctx.input("split").table(SENTENCES).batches(names))
    decisions = decide_rows(rows, duplicates)
    num_duplicates = 0
    with ctx.out.table(DECISIONS) as writer, ctx.out.table(MASKED) as masked:
        for batch, columns in zip(batches, decisions, strict=True):
            row = {name: batch.column(name) for name in names}
            writer.write({**row, **columns._asdict()})
            masked.write({**row, "is_duplicate": columns.is_duplicate})
            num_duplicates += int(columns.is_duplicate.sum())
            ctx.run.progress(writer.num_rows, None, "writing decisions")
    return {"num_sentences": writer.num_rows, "num_duplicates": num_duplicates}
