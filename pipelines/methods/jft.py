"""JFT: just fine-tune twice (Shi et al. 2022, section 4)."""

from __future__ import annotations

from typing import Final

from pipelines.methods.rule import UNNOISED, ClaimName, MethodRule
from pipelines.methods.spec import FirstPhase, MethodSpec
from pipelines.methods.view import View

_LIGHT: Final[tuple[ClaimName, ...]] = ("dp", "masked", "selective", "bayesian", "light_noise")

SPEC: Final = MethodSpec(
    name="jft",
    module="pipelines.training.methods.jft",
    description="a redacted fine-tune, then DP-AdamW on the original text",
    without_noise="redacted text of all rows (phase 1)",
    with_noise="original text (phase 2)",
    source="JFT, section 4",
    view=View(plain="none", noised="original"),
    rules={
        "direct": MethodRule(claims=UNNOISED, is_unnoised=True),
        "manual_screening": MethodRule(
            claims=UNNOISED,
            is_unnoised=True,
            requires={
                "reviewed_rows_only": "it is not recorded that phase 1 read only rows whose missed secrets people or "
                "gold labels had marked, and that these were drawn without looking at secrets",
            },
        ),
        "light_noise": MethodRule(claims=_LIGHT),
        "conservative_light_noise": MethodRule(claims=_LIGHT),
    },
    variant_setting="jft_variant",
    first_phase=FirstPhase(
        view=View(plain="redacted", noised="none"),
        views={"manual_screening": View(plain="screened", noised="none")},
    ),
)
