"""JFT: just fine-tune twice (Shi et al. 2022, section 4)."""

from __future__ import annotations

from typing import ClassVar, Final, Literal, Self

from pydantic import Field, model_validator

from pipelines.methods.rule import UNNOISED, ClaimName, MethodRule
from pipelines.methods.settings import NonprivateSteps, PrivateSteps, Size
from pipelines.methods.spec import FirstPhase, MethodSpec
from pipelines.methods.view import View

_LIGHT: Final[tuple[ClaimName, ...]] = ("dp", "masked", "selective", "bayesian", "light_noise")

LEAST_MISS_RATE: Final = 1e-3
"""The smallest miss rate that light noise is chosen with: without a floor, a sample without a miss would take the noise
away."""
_OF_LIGHT_NOISE: Final = frozenset({"jft_phase1_target_epsilon", "jft_miss_rate", "jft_miss_rate_basis"})


class JFTSettings(NonprivateSteps, PrivateSteps):
    """Settings of `jft`."""

    PROTECTIONS: ClassVar[frozenset[str]] = PrivateSteps.PROTECTIONS | _OF_LIGHT_NOISE

    jft_variant: Literal["direct", "manual_screening", "light_noise", "conservative_light_noise"] = Field(
        "direct", description="jft: what phase 1 reads, and with how much noise."
    )
    jft_phase1_epochs: Size = Field(4, ge=1, le=100_000, description="jft: passes of phase 1 over redacted text.")
    jft_phase1_target_epsilon: float = Field(
        3.0,
        gt=0,
        allow_inf_nan=False,
        description="jft with light noise: what the noise of phase 1 is chosen for, at the sampling rate times the "
        "miss rate. An estimate, no guarantee.",
    )
    jft_miss_rate: float | None = Field(
        None,
        ge=LEAST_MISS_RATE,
        le=1,
        description="jft with light noise: the miss rate m that the noise of phase 1 is chosen with. Unset: what was "
        "measured on this text (at least the smallest value allowed), as in the paper; then nothing is a guarantee.",
    )
    jft_miss_rate_basis: Literal["measured", "fixed_beforehand", "public_text"] = Field(
        "measured",
        description="Where jft_miss_rate comes from. measured: from a measurement of this text, copied by hand or "
        "taken by the stage: every claim is an estimate. fixed_beforehand: set before this text was measured. "
        "public_text: measured on other, public text. The last two are your word, and stand among the assumptions.",
    )

    @model_validator(mode="after")
    def _basis_has_its_rate(self) -> Self:
        if self.jft_miss_rate_basis != "measured" and self.jft_miss_rate is None:
            raise ValueError(
                f"jft_miss_rate_basis = {self.jft_miss_rate_basis!r} speaks of a rate that is not given; set "
                "jft_miss_rate"
            )
        return self


SPEC: Final = MethodSpec(
    name="jft",
    module="pipelines.training.methods.jft",
    description="a redacted fine-tune, then DP-AdamW on the original text",
    without_noise="redacted text of all rows (phase 1)",
    with_noise="original text (phase 2)",
    source="JFT, section 4",
    no_people="phase 1 reads the redacted text of all people without noise, or with noise for records",
    settings=JFTSettings,
    view=View(nonprivate="none", private="original"),
    rules={
        "direct": MethodRule(claims=UNNOISED, is_unnoised=True),
        "manual_screening": MethodRule(
            claims=UNNOISED,
            is_unnoised=True,
            requires={
                "reviewed_rows_only": "it is not recorded that phase 1 read only rows whose missed secrets people or "
                "gold labels had marked, and that these were drawn without looking at secrets"
            },
        ),
        "light_noise": MethodRule(claims=_LIGHT),
        "conservative_light_noise": MethodRule(claims=_LIGHT),
    },
    variant_setting="jft_variant",
    first_phase=FirstPhase(
        view=View(nonprivate="redacted", private="none"),
        views={"manual_screening": View(nonprivate="screened", private="none")},
        noised_variants=frozenset({"light_noise", "conservative_light_noise"}),
        figures={"manual_screening": "estimate", "light_noise": "estimate", "conservative_light_noise": "redact"},
        only_later=frozenset({"epochs", "target_epsilon", "noise_multiplier"}),
        with_noise=frozenset({"max_grad_norm", "target_delta", "expected_batch_size", "private_learning_rate"}),
        of_noise=_OF_LIGHT_NOISE,
    ),
)
