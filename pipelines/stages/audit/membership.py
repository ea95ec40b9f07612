"""Audit, membership: can the released weights tell a record that they were trained on from one that they were not?"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from pipelines.attacks.membership import MembershipSettings, attack_membership
from pipelines.context import StageContext
from pipelines.settings.audit import AuditConfig
from pipelines.stages.audit.opening import open_audited, reason_not_to_open
from pipelines.stages.audit.records import Records, left_out_rows

_LEAST_RECORDS: Final = 8
"""Of each kind: below, an interval of the AUC says nothing."""


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes ``membership.json``: figures of each attack, and none of single records."""
    config: AuditConfig = ctx.configs["audit"]
    if (reason := reason_not_to_open(ctx)) is not None:
        ctx.out.json("membership.json", {"not_attacked": reason})
        return {}
    ctx.run.progress(0, None, "reading records")
    records = Records(ctx)
    members = records.left_out(left_out_rows(ctx))
    others = records.non_members(len(members))
    if min(len(members), len(others)) < _LEAST_RECORDS:
        few = f"{len(members)} members and {len(others)} held-out records are too few"
        ctx.out.json("membership.json", {"not_attacked": few})
        return {}
    ctx.run.progress(0, None, "membership inference")
    result = attack_membership(
        open_audited(ctx, "train"),
        members,
        others,
        reference=open_audited(ctx, "audit_model"),
        settings=MembershipSettings(confidence=config.confidence),
        generator=np.random.default_rng(ctx.seed),
    )
    document = {"num_members": len(members), "num_non_members": len(others), **result.document()}
    ctx.out.json("membership.json", document)
    return {"num_members": len(members), "num_non_members": len(others)}
