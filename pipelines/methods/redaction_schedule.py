"""Redaction schedule: from redacted to original text in one run (Kabra & Elenberg 2023, section 5.2)."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from pipelines.methods.rule import THEOREM_SELECTIVE, UNNOISED, MethodRule
from pipelines.methods.settings import NonprivateSteps, PrivateSteps
from pipelines.methods.spec import MethodSpec
from pipelines.methods.view import View


class ScheduleSettings(NonprivateSteps, PrivateSteps):
    """Settings of `redaction_schedule`."""

    schedule: Literal["step", "linear", "expconcave", "expconvex", "half"] = Field(
        "linear",
        description="redaction_schedule: course of the chance of a redacted step. `half` is the step schedule of the "
        "paper's text, `step` the staircase of its code. `expconcave` starts at 0.63 at scale 1.",
    )
    schedule_scale: float = Field(
        1.0, gt=0, allow_inf_nan=False, description="redaction_schedule: scale of the two exponential schedules."
    )


SPEC: Final = MethodSpec(
    name="redaction_schedule",
    module="pipelines.training.methods.redaction_schedule",
    description="AdamW on redacted and DP-AdamW on original text, by a schedule drawn up front",
    without_noise="redacted text, at steps drawn up front",
    with_noise="original text, at the others",
    source="Domain privacy, 5.2",
    no_people="its first steps read the redacted text of all people without noise",
    settings=ScheduleSettings,
    view=View(nonprivate="redacted", private="original"),
    rules={
        None: MethodRule(
            claims=UNNOISED,
            is_unnoised=True,
            theorem=THEOREM_SELECTIVE,
            requires={
                "schedule_drawn_up_front": "it is not recorded that the schedule was drawn up front, from public "
                "randomness of its own, so which steps were private may itself tell something"
            },
        )
    },
)
