"""Settings of ``[guarantee]``: groups, the privacy budget, and how the model was chosen."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from pipelines.config import StageConfig


class GuaranteeConfig(StageConfig):
    """Group sizes of claims, the privacy budget, and the choice of the model."""

    groups: tuple[int, ...] = Field(
        default=(2, 10),
        max_length=20,
        description="Numbers of unique secrets to state group confidentiality for, each at least 1.",
    )

    budget_epsilon: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="Most unamplified epsilon that all releases on overlapping data may spend together. A training "
        "that would exceed it is refused before it starts. Unset: no limit; the ledger is kept all the same.",
    )
    budget_delta: float | None = Field(
        default=None, gt=0, lt=1, description="Delta of budget_epsilon; unset: train.target_delta of the run that asks."
    )
    budget_scope: Literal["overlap", "store"] = Field(
        default="overlap",
        description="Releases that compose. overlap: releases that share a document, a file name or file content, in "
        "chains. store: all releases of this store, for documents that are edited and move between files.",
    )

    budget_unit: Literal["record", "owner"] = Field(
        default="record",
        description="Whose epsilon budget_epsilon limits. record: that of a record. owner: that of a person "
        "(corpus.owner_from), for whom releases on the same people compose, whatever their files: those of one "
        "corpus.owner_space, and those on unknown people. A release that samples records has no bound for a person.",
    )

    chosen_by: Literal["public_scores", "private_scores"] = Field(
        default="public_scores",
        description="Way in which this model was chosen among those trained on these files, by `reticent compare` or "
        "otherwise. public_scores: by figures on held-out text, which is taken to be public, or not at all; models of "
        "comparisons are composed with it. private_scores: by training losses, audits, figures on what the policies "
        "found, or held-out text that is private: no claim is a guarantee then, and each says why.",
    )

    UNKEYED: ClassVar[frozenset[str]] = frozenset({"budget_epsilon", "budget_delta", "budget_scope", "budget_unit"})
    LATER: ClassVar[frozenset[str]] = frozenset({"budget_unit"})

    @model_validator(mode="after")
    def _budget_is_whole(self) -> GuaranteeConfig:
        if self.budget_delta is not None and self.budget_epsilon is None:
            raise ValueError("budget_delta needs budget_epsilon")
        if self.budget_unit == "owner" and self.budget_epsilon is None:
            raise ValueError('budget_unit = "owner" needs budget_epsilon, which it is the unit of')
        return self

    @field_validator("groups")
    @classmethod
    def _at_least_one(cls, groups: tuple[int, ...]) -> tuple[int, ...]:
        if any(size < 1 for size in groups):
            raise ValueError("every group must have at least 1 secret")
        return tuple(sorted(set(groups)))
