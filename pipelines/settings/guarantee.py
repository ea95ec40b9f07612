"""Settings of ``[guarantee]``: groups, the privacy budget, records of a person, and how the model was chosen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from pipelines.config import StageConfig


class GuaranteeConfig(StageConfig):
    """Group sizes of claims, the privacy budget, the bound on a person's records, and the choice of the model."""

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
        "corpus.owner_space, and those on unknown people. Only train.unit = owner and owner_bound bound a person.",
    )

    owner_bound: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="Most private records of a person (corpus.owner_from) that dpsgd and crt train on, with train.unit "
        "= record. Further ones are left out, in an order that depends on their place and the store's secret alone. "
        "Then the epsilon of a person is that of so many records. Unset: no bound, and none is left out.",
    )
    owner_bound_basis: Literal["fixed_beforehand", "public_text", "measured"] | None = Field(
        default=None,
        description="Source of owner_bound, which needs it. fixed_beforehand: somebody chose it before reading the "
        "text. public_text: it was taken from text that is public. measured: it was counted on the private text, so "
        "figures for a person are estimates and guarantee nothing.",
    )

    chosen_by: Literal["public_scores", "private_scores"] = Field(
        default="public_scores",
        description="Way in which this model was chosen among those trained on these files, by `reticent compare` or "
        "otherwise. public_scores: by figures on held-out text, which is taken to be public, or not at all; models of "
        "comparisons are composed with it. private_scores: by training losses, audits, figures on what the policies "
        "found, or held-out text that is private: no claim is a guarantee then, and each says why.",
    )

    UNKEYED: ClassVar[frozenset[str]] = frozenset({"budget_epsilon", "budget_delta", "budget_scope", "budget_unit"})
    LATER: ClassVar[frozenset[str]] = frozenset({"budget_unit", "owner_bound", "owner_bound_basis"})

    @model_validator(mode="after")
    def _budget_is_whole(self) -> GuaranteeConfig:
        if self.budget_delta is not None and self.budget_epsilon is None:
            raise ValueError("budget_delta needs budget_epsilon")
        if self.budget_unit == "owner" and self.budget_epsilon is None:
            raise ValueError('budget_unit = "owner" needs budget_epsilon, which it is the unit of')
        return self

    @model_validator(mode="after")
    def _bound_has_a_basis(self) -> GuaranteeConfig:
        if self.owner_bound is not None and self.owner_bound_basis is None:
            raise ValueError(
                'owner_bound needs owner_bound_basis: "fixed_beforehand", "public_text", or "measured" (no guarantee)'
            )
        if self.owner_bound is None and self.owner_bound_basis is not None:
            raise ValueError("owner_bound_basis needs owner_bound, whose source it names")
        if self.budget_unit == "owner" and self.owner_bound_basis == "measured":
            raise ValueError('owner_bound_basis = "measured" bounds nobody, and budget_unit = "owner" needs a bound')
        return self

    def files_read(self, stage: str) -> Mapping[str, tuple[str, ...]]:
        """Returns the documents tables as an input of ``train``, if they say whose surplus records are left out."""
        return {"split": ("sentences.parquet", "documents.parquet")} if stage == "train" and self.owner_bound else {}

    @field_validator("groups")
    @classmethod
    def _at_least_one(cls, groups: tuple[int, ...]) -> tuple[int, ...]:
        if any(size < 1 for size in groups):
            raise ValueError("every group must have at least 1 secret")
        return tuple(sorted(set(groups)))
