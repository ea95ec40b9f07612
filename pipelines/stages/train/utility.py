"""Train, utility: scores of the model on the finds of the policies in held-out text, on the rest, and by domain.

This is a step of its own, so that the training does not read the finds: a change of policy then leaves `dpsgd` valid.
"""

from __future__ import annotations

from typing import Any

from pipelines.context import StageContext
from pipelines.policies.tables import REDACTED
from pipelines.training.scoring.tables import TOKEN_SCORES
from pipelines.training.scoring.utility import split_utility


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes ``figures.json``, which is private."""
    scores = split_utility(
        ctx.input("evaluate").table(TOKEN_SCORES), [artifact.table(REDACTED) for artifact in ctx.inputs["redact"]]
    )
    ctx.out.json("figures.json", scores)
    return {}
