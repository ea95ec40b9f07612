"""Synthesize, step 1: the model writes one piece of the table, following the public plan.

This step reads the model and public settings, and nothing of the corpus. A piece depends only on the numbers of its
rows. So neither the number of workers nor a killed worker changes the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipelines.context import StageContext
from pipelines.policies.judging.apply import Redactor
from pipelines.settings.redact import RedactConfig
from pipelines.settings.synthesize import SynthesizeConfig, check_writes_rows
from pipelines.stages.audit.opening import open_audited
from pipelines.synthesis.plan import rows_of
from pipelines.synthesis.tables import SYNTHETIC
from pipelines.synthesis.writing import Decoding, write


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes ``synthetic.parquet``, the rows of this piece that no public policy dropped, and ``figures.json``.

    Raises:
        ConfigError: the model has no token for a name, or no room for such long texts.
    """
    config: SynthesizeConfig = ctx.configs["synthesize"]
    check_writes_rows(ctx.configs["train"])
    rows = rows_of(str(ctx.partition))
    ctx.run.progress(0, len(rows), "loading the model")
    model = open_audited(ctx, "train")
    plan = config.plan(model, ctx.seed)
    decoding = Decoding(temperature=config.temperature, top_p=config.top_p, batch_size=config.batch_size)
    turns = [plan.turn(row) for row in rows]
    written = sorted(write(model, turns, decoding), key=lambda pair: (pair[0].record, pair[0].turn))
    kept = _passed([text.text for _, text in written], config.filter)
    num_tokens = 0
    with ctx.out.table(SYNTHETIC) as writer:
        for (turn, text), is_kept in zip(written, kept, strict=True):
            num_tokens += text.num_tokens
            if is_kept:
                writer.append(
                    record=turn.record,
                    turn=turn.turn,
                    domain=turn.domain,
                    speaker=turn.speaker,
                    text=text.text,
                    num_tokens=text.num_tokens,
                )
    mixes = {"domains": plan.domains, "speakers": plan.speakers}
    ctx.out.json(
        "figures.json",
        {
            "num_filtered": len(written) - sum(kept),
            "num_tokens": num_tokens,
            "mix": {
                name: [[one, share] for one, share in zip(mix.names, mix.shares, strict=True)]
                for name, mix in mixes.items()
            },
        },
    )
    ctx.run.progress(len(rows), len(rows), "rows written")
    return {"num_rows": sum(kept), "num_filtered": len(written) - sum(kept), "num_tokens": num_tokens}


def _passed(texts: Sequence[str], policies: Sequence[str]) -> list[bool]:
    """Checks each text: true if the public policies find nothing in it. A text that a policy fails on is false."""
    if not policies:
        return [True] * len(texts)
    from pipelines.policies.judging.texts import TextJudge  # spaCy is slow to import

    with Redactor.from_spec(
        RedactConfig(policies=tuple(policies), check_language=False).redactor_spec(), 1
    ) as redactor:
        return [not (judged.spans or judged.failed_closed) for judged in TextJudge(redactor).judge(texts)]
