"""Audit, model: one more training by the run's recipe, with canaries and without the records under attack."""

from __future__ import annotations

from typing import Any

from pipelines.attacks.canaries import overlay_rows
from pipelines.context import StageContext
from pipelines.settings.audit import AuditConfig
from pipelines.stages.audit.canary_table import drawn, write_canaries
from pipelines.stages.audit.records import MEMBERS, Records, digests_of_rows
from pipelines.stages.audit.training import train_for_audit


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes the model, its events, ``members.parquet`` (rows it did not see) and ``canaries.parquet``. Private."""
    config: AuditConfig = ctx.configs["audit"]
    members = Records(ctx).members(config.num_members)
    rows = [(number, *place) for number, places in enumerate(members) for place in places]
    canaries, coins = drawn(ctx)
    added = overlay_rows(canaries, in_distinct_sentences=config.copies_differ, included=coins)
    train_for_audit(ctx, added, [(doc_id, index) for _, doc_id, index in rows])
    write_canaries(ctx.out, canaries, coins)
    digests = digests_of_rows(ctx, {place for places in members for place in places})
    with ctx.out.table(MEMBERS.whole) as writer:
        for number, doc_id, index in rows:
            writer.append(record=number, doc_id=doc_id, sentence_index=index, digest=digests[doc_id, index])
    return {"num_left_out": len(members), "num_canaries": sum(coins.values())}
