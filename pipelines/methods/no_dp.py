"""No privacy: what other methods are compared with."""

from __future__ import annotations

from typing import Final

from pipelines.methods.rule import MethodRule
from pipelines.methods.settings import ControlTokensOrNone, NonprivateSteps
from pipelines.methods.spec import MethodSpec
from pipelines.methods.view import View


class NoDPSettings(NonprivateSteps, ControlTokensOrNone):
    """Settings of `no_dp`."""


SPEC: Final = MethodSpec(
    name="no_dp",
    module="pipelines.training.methods.no_dp",
    description="AdamW on the original text, without any protection: keep it private",
    without_noise="original text",
    with_noise="",
    source="",
    no_people="it adds no noise",
    settings=NoDPSettings,
    view=View(nonprivate="original", private="none", learns_words=True),
    rules={None: MethodRule(claims=("dp", "confidentiality"), rows="original")},
    publishes_model=False,
)
