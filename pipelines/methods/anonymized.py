"""The masking baseline: redacted text as ordinary text."""

from __future__ import annotations

from typing import Final

from pipelines.methods.redacted import RedactedSettings
from pipelines.methods.rule import UNNOISED, MethodRule
from pipelines.methods.spec import MethodSpec
from pipelines.methods.view import View

SPEC: Final = MethodSpec(
    name="anonymized",
    module="pipelines.training.methods.anonymized",
    description="AdamW on redacted text, masks learnt like words, without noise",
    without_noise="the same, and learns to write `<MASK>`",
    with_noise="",
    source="masking baseline",
    no_people="it adds no noise",
    settings=RedactedSettings,
    view=View(nonprivate="redacted", private="none", asks_for_masks=True),
    rules={None: MethodRule(claims=UNNOISED, is_unnoised=True, rows="redacted")},
    publishes_model=False,
)
