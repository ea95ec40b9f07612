"""Train, utility: what the model scores on what the policies found in held-out text, on the rest, and by domain.

A step of its own, so that the training itself need not read what was found: another policy then leaves `dpsgd` alone.
"""

from __future__ import annotations

import json
from typing import Any

from pipelines.context import StageContext


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes ``figures.json``, private."""
    from pipelines.training.scoring.utility import split_utility

    found = split_utility(
        ctx.one("train").private("token_scores.parquet"),
        [artifact.private("redacted.parquet") for artifact in ctx.inputs["redact"]],
    )
    text = json.dumps(found, sort_keys=True, indent=1, allow_nan=False) + "\n"
    (ctx.private_dir / "figures.json").write_text(text, encoding="utf-8")
    return {}
