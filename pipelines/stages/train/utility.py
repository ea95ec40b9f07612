"""Train, utility: what the model scores on what the policies found in held-out text, on the rest, and by domain.

A step of its own, so that the training itself need not read what was found: another policy then leaves `dpsgd` alone.
"""

from __future__ import annotations

from typing import Any

from pipelines.context import StageContext
from pipelines.policies.tables import REDACTED
from pipelines.training.scoring.tables import TOKEN_SCORES
from pipelines.training.scoring.utility import split_utility


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes ``figures.json``, private."""
    found = split_utility(
        ctx.input("evaluate").table(TOKEN_SCORES),
        [artifact.table(REDACTED) for artifact in ctx.inputs["redact"]],
    )
    ctx.out.json("figures.json", found)
    return {}
