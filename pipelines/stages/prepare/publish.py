"""Publish: the rows of the public side as a table that anybody may read, if the method or the settings ask for it.

Publishing is a step of its own, so that a change of the training method does not repeat any preparation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.context import StageContext, pseudonym
from pipelines.policies.sharding import PUBLIC_IDS, PUBLISHED, SHARD, check_public, content_key
from pipelines.settings.shard import publishes


def run(ctx: StageContext) -> Mapping[str, Any]:
    """Writes ``public.parquet`` to the public root. The table has no rows unless the run publishes rows.

    A published row has an identifier of its own. Document and sentence number stay in the private root, in
    ``public_ids.parquet``, which maps one to the other: gaps in these numbers would show the places of private
    sentences.

    Raises:
        PrivacyGateError: a row with a mask was about to be published.
    """
    source = ctx.input("shard").table(SHARD, "public")
    columns = [name for name in PUBLISHED.names if name != "row_id"]
    rows = 0
    if publishes(ctx.configs["shard"], ctx.configs["train"].method):
        for row in source.rows():
            check_public(row)  # all of them, before the public file is opened
            rows += 1
    with ctx.out.table(PUBLIC_IDS) as ids, ctx.out.public.table(PUBLISHED, "public") as published:
        before, occurrence, done = b"", 0, 0
        for batch in source.batches() if rows else ():
            for row in batch.to_pylist():
                key = content_key(row)  # rows come in this order, so equal ones stand together
                occurrence = occurrence + 1 if key == before else 0
                before = key
                row_id = pseudonym(ctx.run.secret, "public row", ctx.partition or "", key.hex(), str(occurrence))
                published.append(row_id=row_id, **{name: row[name] for name in columns})
                ids.append(row_id=row_id, doc_id=row["doc_id"], sentence_index=row["sentence_index"])
            done += batch.num_rows
            ctx.run.progress(done, rows, "rows published")
    return {"num_published": rows}
