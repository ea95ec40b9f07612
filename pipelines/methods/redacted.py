"""Phase 1 of JFT alone: redacted text, without noise (Shi et al. 2022, section 4.1)."""

from __future__ import annotations

from typing import Final

from pipelines.methods.rule import UNNOISED, MethodRule
from pipelines.methods.settings import NonprivateSteps, TypedMasks
from pipelines.methods.spec import MethodSpec
from pipelines.methods.view import View


class RedactedSettings(NonprivateSteps, TypedMasks):
    """Settings of `redacted` and `anonymized`."""


SPEC: Final = MethodSpec(
    name="redacted",
    module="pipelines.training.methods.redacted",
    description="AdamW on redacted text, without noise",
    without_noise="redacted text of all rows",
    with_noise="",
    source="JFT, phase 1 alone",
    no_people="it adds no noise",
    settings=RedactedSettings,
    view=View(nonprivate="redacted", private="none"),
    rules={None: MethodRule(claims=UNNOISED, is_unnoised=True, rows="redacted")},
    publishes_model=False,
)
