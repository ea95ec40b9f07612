"""Settings of ``[train]`` that not every method uses.

A method's own settings are a model (`MethodSpec.settings`) that is put together from these and from fields of its own.
In the settings file the fields of all built-in methods stand side by side in ``[train]``; ``method`` tells which of
them count.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Size = Annotated[int, Field(strict=True)]


class MethodSettings(BaseModel):
    """Settings that a method has and others have not.

    ``PROTECTIONS`` names settings of noise and clipping: whoever sets one believes in a protection, so one that does
    nothing is refused.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)
    PROTECTIONS: ClassVar[frozenset[str]] = frozenset()

    method: str = Field(
        "crt", description="Training method; docs/methods.md says what each does, and what it promises."
    )


class Optimized(MethodSettings):
    """For steps of `pipelines.training.loop`; what an optimizer makes of a noised sum costs no epsilon."""

    optimizer: Literal["adamw", "sgd"] = Field(
        "adamw",
        description="What takes the steps. sgd: plain, without momentum, as in Selective DP and for CRT's LSTMs; its "
        "step sizes are far larger, up to thousands for noisy steps with a small max_grad_norm. sdpsgd_lstm: always "
        "sgd.",
    )


class PublicRate(MethodSettings):
    """For steps without noise."""

    public_learning_rate: float = Field(2e-3, gt=0, le=1e5, allow_inf_nan=False, description="Step size, public.")


class NonprivateSteps(PublicRate, Optimized):
    """For minibatches without noise."""

    public_batch_size: Size = Field(16, ge=1, description="Records in a public minibatch.")


class PrivateSteps(MethodSettings):
    """For steps with noise on Poisson samples."""

    PROTECTIONS: ClassVar[frozenset[str]] = frozenset({"target_epsilon", "noise_multiplier", "max_grad_norm"})

    private_learning_rate: float = Field(
        2e-3, gt=0, le=1e5, allow_inf_nan=False, description="Step size on noisy private sums."
    )
    expected_batch_size: Size = Field(
        256, ge=1, description="Private records in an average step (Poisson sampling). Larger: less noise, fewer steps."
    )
    max_grad_norm: float = Field(
        0.1, gt=0, allow_inf_nan=False, description="Norm that the gradient of one private record is clipped to."
    )
    target_epsilon: float | None = Field(
        3.0, gt=0, allow_inf_nan=False, description="Epsilon to calibrate the noise for; not with noise_multiplier."
    )
    noise_multiplier: float | None = Field(
        None, ge=0, allow_inf_nan=False, description="Noise deviation over max_grad_norm, instead of target_epsilon."
    )

    @model_validator(mode="after")
    def _noise_is_said_once(self) -> Self:
        if self.noise_multiplier is not None and "target_epsilon" not in self.model_fields_set:
            self.__dict__["target_epsilon"] = None  # the default gives way; the instance is frozen from here on
        if (self.target_epsilon is None) == (self.noise_multiplier is None):
            raise ValueError("set exactly one of target_epsilon and noise_multiplier")
        return self


class People(MethodSettings):
    """For methods with private steps that may sample people."""

    PROTECTIONS: ClassVar[frozenset[str]] = frozenset({"unit"})

    unit: Literal["record", "owner"] = Field(
        "record",
        description="dpsgd, crt: what a private step samples and clips, and so what epsilon protects. owner: people "
        "(corpus.owner_from). Each enters a step with one rate, whatever their number of records, and "
        "expected_batch_size counts people.",
    )
    owner_records: Size = Field(
        1,
        ge=1,
        le=1_024,
        description="unit = owner: most records that a drawn person brings. With several, a person's share is the "
        "gradient of their mean loss, clipped once, which takes a pass for each person.",
    )


class TypedMasks(MethodSettings):
    """For methods that read redacted text of all rows and claim nothing that depends on what a mask tells."""

    typed_masks: tuple[Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")], ...] = Field(
        (),
        max_length=64,
        description="redacted, anonymized: labels whose masks say so (<PERSON>) instead of <MASK>; for an ablation.",
    )


class ControlTokensOrNone(MethodSettings):
    """For methods that read original text alone, which needs no control token."""

    added_tokens: bool = Field(
        True,
        strict=True,
        description="dpsgd, no_dp: whether the vocabulary has <MASK> and speakers, as that of every other method. "
        "Without, the model is not told who speaks.",
    )
