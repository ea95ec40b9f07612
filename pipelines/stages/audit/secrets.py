"""Audit, secrets: membership of single names, numbers and addresses in the released model's training text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

import numpy as np

from pipelines.attacks.membership_evaluation import holm
from pipelines.attacks.single_secrets import Row, SecretAttacker
from pipelines.context import StageContext
from pipelines.settings.audit import AuditConfig
from pipelines.stages.audit.extraction import rows_with_spans
from pipelines.stages.audit.opening import open_audited, reason_not_to_open
from pipelines.stages.audit.records import HELD_OUT

_FEW: Final = "no label has enough distinct secrets"


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes ``secrets.json``: figures of each label and way of asking, without figures of single secrets."""
    config: AuditConfig = ctx.configs["audit"]
    if (reason := reason_not_to_open(ctx)) is not None:
        ctx.out.json("secrets.json", {"not_attacked": reason})
        return {}
    ctx.run.progress(0, None, "reading secrets")
    attacker = SecretAttacker(
        open_audited(ctx, "train"),
        list(_rows(ctx, "train")),
        _rows(ctx, *HELD_OUT),
        most=config.num_secrets,
        marks_tokens=bool(ctx.configs["train"].view().marks_tokens),
        rng=np.random.default_rng(ctx.seed),
        confidence=config.confidence,
    )
    ctx.run.progress(0, None, "membership of secrets")
    found = attacker.attacks()
    adjusted = holm({f"{number}": attack.p_value for number, attack in enumerate(found)})
    attacks = [{**asdict(attack), "adjusted_p_value": adjusted[f"{number}"]} for number, attack in enumerate(found)]
    any_leak = any(attack["adjusted_p_value"] < 1 - config.confidence for attack in attacks)
    ctx.out.json("secrets.json", {"attacks": attacks, "any_leak": any_leak} if attacks else {"not_attacked": _FEW})
    return {"num_attacks": len(attacks)}


def _rows(ctx: StageContext, *folds: str) -> Iterator[Row]:
    """Yields the rows of some folds with secrets. A copy of another row was trained on as a mask, and is left out."""
    for row in rows_with_spans(ctx, *folds):
        if row["spans"] and not row["is_duplicate"]:
            spans = [(span["label"], span["start"], span["end"]) for span in row["spans"]]
            yield Row(text=row["text"], spans=spans, speaker=row["speaker"], domain=row["domain"])
