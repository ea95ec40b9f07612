"""CRT: confidentially redacted training (Zhao, Li & Wang 2022, Algorithm 1)."""

from __future__ import annotations

from typing import Final

from pipelines.methods.rule import MethodRule
from pipelines.methods.settings import NonprivateSteps, People, PrivateSteps
from pipelines.methods.spec import MethodSpec
from pipelines.methods.view import View


class CRTSettings(NonprivateSteps, PrivateSteps, People):
    """Settings of `crt`."""


SPEC: Final = MethodSpec(
    name="crt",
    module="pipelines.training.methods.crt",
    description="AdamW on public text and DP-AdamW on redacted private text",
    without_noise="public rows",
    with_noise="redacted text of private rows",
    source="CRT, Algorithm 1",
    settings=CRTSettings,
    view=View(nonprivate="public_shard", private="private_shard", learns_words=True),
    rules={None: MethodRule(claims=("owner", "dp", "confidentiality", "caught", "group", "bayesian"), rows="redacted")},
)
