"""DP-SGD on everything (Abadi et al. 2016, Algorithm 1; Li et al. 2022 for language models)."""

from __future__ import annotations

from typing import Final

from pipelines.methods.rule import MethodRule
from pipelines.methods.settings import ControlTokensOrNone, Optimized, People, PrivateSteps
from pipelines.methods.spec import MethodSpec
from pipelines.methods.view import View


class DPSGDSettings(Optimized, PrivateSteps, People, ControlTokensOrNone):
    """Settings of `dpsgd`."""


SPEC: Final = MethodSpec(
    name="dpsgd",
    module="pipelines.training.methods.dpsgd",
    description="DP-AdamW on the original text",
    without_noise="",
    with_noise="original text",
    source="Abadi et al. 2016; Li et al. 2022",
    settings=DPSGDSettings,
    view=View(nonprivate="none", private="original"),
    rules={None: MethodRule(claims=("owner", "dp", "confidentiality", "group", "selective"), rows="original")},
)
