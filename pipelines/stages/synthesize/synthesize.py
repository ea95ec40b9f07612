"""Synthesize, step 2: the table of synthetic text, and the claim about it.

The table (`pipelines.synthesis.tables.SYNTHETIC`) is ``synthetic.parquet`` in the public root if the model lies there,
and ``private_synthetic.parquet`` in the private root otherwise. The other file has no rows. ``synthetic.json`` next to
the table says how the table was made, and its claim: the model's claim, by post-processing, or that there is none. The
settings alone decide if the table is published. The store does not search the table for masked strings
(`pipelines.stage.Stage.is_post_processed`), because a table that the private text could stop would tell of that text.
``synthesize_check`` counts the private text in the table on the trusted side.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from pipelines.accounting.synthetic_text import claim_of_text
from pipelines.context import StageContext
from pipelines.numbers import coarse
from pipelines.synthesis.tables import SYNTHETIC

if TYPE_CHECKING:
    from pipelines.settings.synthesize import SynthesizeConfig

_TOLD = ("turns", "lengths", "temperature", "top_p", "max_new_tokens", "seed", "filter", "batch_size")


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes the table and ``synthetic.json`` to the root that holds the model."""
    config: SynthesizeConfig = ctx.configs["synthesize"]
    train = ctx.configs["train"]
    is_published = train.method_spec().publishes_model
    counts: Counter[str] = Counter()
    pieces = ctx.inputs["synthesize_rows"]
    with ctx.out.table(SYNTHETIC, "private_synthetic") as private, ctx.out.public.table(SYNTHETIC) as public:
        writer = public if is_published else private
        for number, piece in enumerate(pieces):
            for batch in piece.table(SYNTHETIC).batches():
                writer.write({name: batch.column(name) for name in SYNTHETIC.names})
            figures = piece.json("figures.json")
            counts.update({name: figures[name] for name in ("num_filtered", "num_tokens")})
            ctx.run.progress(number + 1, len(pieces), "pieces")
        num_rows = writer.num_rows
    settings = config.model_dump(mode="json")
    document = {
        "schema_version": 1,
        "num_rows": num_rows,
        "num_filtered": counts["num_filtered"],
        "num_tokens": counts["num_tokens"],
        "is_published": is_published,
        "method": train.method,
        "model": ctx.input("train").key[:12],
        "settings": {**{name: settings[name] for name in _TOLD}, **pieces[0].json("figures.json")["mix"]},
        **claim_of_text(ctx.input("guarantee").json("claims.json")["public"]),
    }
    ctx.out.json("synthetic.json", document)
    if is_published:
        # More digits would reveal the number of private records (`pipelines.report.public.WITHHELD`).
        coarse_claim = {name: coarse(document[name], 3, "up") for name in ("epsilon", "delta", "epsilon_this_model")}
        ctx.out.public.json("synthetic.json", {**document, **coarse_claim})
    return {name: document[name] for name in ("num_rows", "num_filtered", "num_tokens")}
