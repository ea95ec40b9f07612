"""Shard: divides the training rows into public and private ones.

Confidentially Redacted Training, Algorithm 1, lines 3 and 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.context import StageContext
from pipelines.errors import StageError
from pipelines.mask import MASK
from pipelines.policies.held import HELD, held_rows, masked_text
from pipelines.policies.sharding import SHARD, ContentOrder, check_public, is_private
from pipelines.policies.tables import REDACTED


def run(ctx: StageContext) -> Mapping[str, Any]:
    """Writes ``private.parquet``, ``public.parquet`` and ``figures.json``, all of them to the private root.

    Only rows of the fold ``train`` are written. Private rows keep corpus order. Public rows are in the order of the
    hash of their contents. The stage `publish` decides if and how public rows are published. A row that the gate holds
    is private, and the gate's find in it is masked, because some methods read private rows without noise.

    Raises:
        PrivacyGateError: a row with a mask was about to be put on the public side.
        StageError: the gate holds rows that do not exist, or that are private anyway.
    """
    source = ctx.input("redact").table(REDACTED)
    flags = ("is_duplicate", "failed_closed", "flagged_by_conservative", "fold")
    total = source.num_rows
    figures = dict.fromkeys(("num_public", "num_private", "num_public_tokens", "num_private_tokens", "num_all_mask"), 0)
    held = held_rows([ctx.input("gate").table(HELD, ctx.partition)])
    figures["num_held"] = len(held)
    done = 0
    with ctx.out.scratch.emptied("public") as scratch, ContentOrder(scratch, total) as order:
        with ctx.out.table(SHARD, "private") as private:
            for batch in source.batches((*SHARD.names, *flags)):
                for row in batch.to_pylist():
                    if row["fold"] != "train":
                        continue
                    ranges = held.pop((row["doc_id"], row["sentence_index"]), None)
                    if ranges is not None:
                        if is_private(row):
                            raise StageError("the gate holds a row that is private anyway; rerun gate")
                        row["redacted_text"] = masked_text(row["redacted_text"], ranges)
                        row["num_masked_tokens"] = min(row["num_tokens"], len(ranges))
                    side = "private" if ranges is not None or is_private(row) else "public"
                    figures[f"num_{side}"] += 1
                    figures[f"num_{side}_tokens"] += row["num_tokens"]
                    figures["num_all_mask"] += not row["redacted_text"].replace(MASK, "").strip() and (
                        MASK in row["redacted_text"]
                    )
                    kept = {name: row[name] for name in SHARD.names}
                    if side == "private":
                        private.append(**kept)
                    else:
                        check_public(kept)  # all of them, before the public file is opened
                        order.add(kept)
                done += batch.num_rows
                ctx.run.progress(done, total, "sentences parted")
        if held:
            raise StageError(f"the gate holds {len(held)} rows that do not exist; rerun gate")
        with ctx.out.table(SHARD, "public") as public:
            for row in order.sorted_rows():
                public.append(**row)
    ctx.out.json("figures.json", figures)
    return figures
