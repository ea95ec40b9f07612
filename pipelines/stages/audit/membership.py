"""Audit, membership: attacks that try to tell training records from other records by the released weights."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from pipelines.attacks.membership import attack_membership
from pipelines.attacks.membership_comparison import MembershipSettings
from pipelines.context import StageContext
from pipelines.settings.audit import AuditConfig
from pipelines.stages.audit.opening import open_audited, reason_not_to_open
from pipelines.stages.audit.records import Records, left_out_rows

_LEAST_RECORDS: Final = 8
"""Fewest records of each kind. With fewer, an interval of the AUC is too wide to be of use."""


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes ``membership.json``: figures of each attack, without figures of single records."""
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
        people=records.people((*members, *others)),
        settings=MembershipSettings(confidence=config.confidence),
        generator=np.random.default_rng(ctx.seed),
    )
    document = {"num_members": len(members), "num_non_members": len(others), **result.document()}
    ctx.out.json("membership.json", document)
    return {"num_members": len(members), "num_non_members": len(others)}
