"""Guarantee: from what training did and what the review found to claims with their assumptions.

``claims.json``: ``schema_version``, ``claims`` (fields as in `pipelines.accounting.claims.Claim`), ``headline`` (index
of the claim to show first, or null), ``accountants`` (every accountant's epsilon under both relations), ``warnings``.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from pipelines.config import StageConfig
from pipelines.context import StageContext

_TRUSTED_SOURCES = frozenset({"gold", "human"})
# A digit stays a digit: replacing masked tokens by others of their kind changes nothing that is masked, or not.
_STABLE_POLICIES = frozenset({"digits"})
_COUPLING_POLICIES = frozenset({"propagate", "classifier"})


class GuaranteeConfig(StageConfig):
    """The ``[guarantee]`` table."""

    groups: tuple[int, ...] = Field(
        default=(2, 10),
        max_length=20,
        description="Numbers of unique secrets to state group confidentiality for, each at least 1.",
    )

    budget_epsilon: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="Most unamplified epsilon that all releases on overlapping data may spend together; a training "
        "that would exceed it is refused before it starts. Unset: no limit, the ledger is kept all the same.",
    )
    budget_delta: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="Delta of budget_epsilon; unset: train.target_delta of the run that asks.",
    )
    budget_scope: Literal["overlap", "store"] = Field(
        default="overlap",
        description="Which releases compose. overlap: those that share a file name or file content, in chains. store: "
        "all of this store; for rows that move between files.",
    )

    UNKEYED: ClassVar[frozenset[str]] = frozenset({"budget_epsilon", "budget_delta", "budget_scope"})

    @model_validator(mode="after")
    def _budget_is_whole(self) -> GuaranteeConfig:
        if self.budget_delta is not None and self.budget_epsilon is None:
            raise ValueError("budget_delta needs budget_epsilon")
        return self

    @field_validator("groups")
    @classmethod
    def _at_least_one(cls, groups: tuple[int, ...]) -> tuple[int, ...]:
        if any(size < 1 for size in groups):
            raise ValueError("every group must have at least 1 secret")
        return tuple(sorted(set(groups)))


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes ``claims.json``.

    Raises:
        UnsupportedEventError: training reports something that no accountant covers.
    """
    from pipelines.accounting.claims import Review, build_claims
    from pipelines.accounting.run_facts import CorpusFacts, parse_training
    from pipelines.dedup.stability import dedup_stability
    from pipelines.miss_rate.rates import delta2_of, false_negative_rate_of, worst_label_of

    config: GuaranteeConfig = ctx.configs["guarantee"]
    dedup, redact = ctx.configs["dedup"], ctx.configs["redact"]
    training = parse_training(json.loads(ctx.one("train").private("events.json").read_text(encoding="utf-8")))
    figures = json.loads(ctx.one("estimate").private("figures.json").read_text(encoding="utf-8"))
    has_public_set = redact.conservative is not None
    stability = dedup_stability(
        dedup.mode,
        dedup.normalise,
        dedup.verify,
        unit=dedup.unit,
        has_public_set=has_public_set,
        reads_places=training.reads_places,
    )
    policies = tuple(dict.fromkeys((*redact.policies, *((redact.conservative,) if has_public_set else ()))))
    corpus = CorpusFacts(
        dedup_stability=stability.replace_one,
        dedup_reason=stability.reason,
        dedup_min_tokens=dedup.min_tokens,
        has_conservative=has_public_set,
        couples_rows=tuple(name for name in policies if name in _COUPLING_POLICIES),
        plugins=tuple(name for name in policies if ":" in name),
        collapses=redact.collapse,
        redactor_is_stable=set(policies) <= _STABLE_POLICIES,
    )
    review = Review(
        source=figures["source"],
        is_trusted=figures["source"] in _TRUSTED_SOURCES,
        false_negative_rate=false_negative_rate_of(figures),
        delta2=delta2_of(figures),
        worst_label=worst_label_of(figures),
        is_census=bool(figures["is_census"]),
        covers_corpus=bool(figures["covers_corpus"]),
    )
    document = {"schema_version": 1, **build_claims(training, corpus, review, config.groups)}
    text = json.dumps(document, sort_keys=True, indent=1, allow_nan=False) + "\n"
    (ctx.private_dir / "claims.json").write_text(text, encoding="utf-8")
    num_refused = sum(claim["refused"] is not None for claim in document["claims"])
    return {"num_claims": len(document["claims"]), "num_refused": num_refused}
