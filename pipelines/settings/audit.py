"""Settings of ``[audit]``: the attacks on the trained model, and their effort."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Literal

from pydantic import Field, model_validator

from pipelines.config import StageConfig
from pipelines.training.recipes import AUDIT

OF_DOMAINS: Final = ("audit_domain_models", "audit_domains")
"""The stages that the setting ``domains`` turns on."""
OF_SECRETS: Final = ("audit_secrets",)
"""The stages that the setting ``num_secrets`` turns on."""
_RECORDS_OF_PERSON: Final = 16


class AuditConfig(StageConfig):
    """The attacks on the trained model, and their effort."""

    UNKEYED: ClassVar[frozenset[str]] = frozenset({"enabled", "domains"})
    LATER: ClassVar[frozenset[str]] = frozenset({"owner_records"})

    enabled: bool = Field(
        default=False,
        strict=True,
        description="true: `reticent run` audits the model before it reports. `reticent audit` does so in any case.",
    )
    num_members: int = Field(
        500,
        ge=20,
        description="Records of the training fold that membership attacks are tried on, and as many held-out records. "
        "A model of the same recipe is trained without the former, and on the canaries.",
    )
    canary_form: str = Field(
        "My ID is {digits:6}.",
        min_length=1,
        max_length=200,
        description="Text of a canary, with holes: {digits:6}, {letters:4}, {name}, {choice:a|b|c}. Canaries are made "
        "up. Only models of the audit, which are never published, are trained on them.",
    )
    num_canaries: int = Field(
        140,
        ge=2,
        description="Canaries that the policies miss and the conservative policy flags; a fair coin decides for each "
        "canary whether it is trained on.",
    )
    num_detected_canaries: int | None = Field(
        None, ge=0, description="Canaries that the policies find; unset: as many as they miss."
    )
    num_public_canaries: int = Field(
        0,
        ge=0,
        description="Canaries that the conservative policy misses as well, in addition to the others: they stand "
        "among the public rows, which are trained on without noise, and show what such a miss costs. No claim covers "
        "them, and no lower bound counts them. Only for methods that train on public rows.",
    )
    copies: Literal[1, 10, 20, 100] = Field(
        1, description="Number of times that each canary is trained on. k copies of a secret are a group of k records."
    )
    copies_differ: bool = Field(
        default=False,
        strict=True,
        description="true: copies stand in sentences of their own. false: copies are equal, as if deduplication had "
        "let them pass.",
    )
    candidates: int = Field(
        20_000,
        ge=0,
        description="Candidates that a canary is ranked among, drawn from its form; 0 takes all candidates of the "
        "form (a million for six digits: minutes).",
    )
    num_prompts: int = Field(50, ge=0, description="Beginnings of training records that the model continues.")
    num_generations: int = Field(
        4, ge=1, description="Texts that the model draws for each beginning, in addition to the likeliest one."
    )
    max_new_tokens: int = Field(32, ge=1, description="Longest of these texts, in tokens.")
    domains: bool = Field(
        default=False,
        strict=True,
        description="true looks for text of one domain in what the model writes about another. It costs one training "
        "for each domain, each about as long as that of the run, and the texts below from every model. It needs two "
        "domains that the policies keywords or classifier know.",
    )
    domain_prompts: int = Field(
        100, ge=1, description="With domains: beginnings of held-out conversations of each domain."
    )
    domain_generations: int = Field(10, ge=1, description="With domains: texts that are drawn for each beginning.")
    num_secrets: int = Field(
        0,
        ge=0,
        description="Most masked secrets of each label (names, numbers, addresses) that membership attacks are tried "
        "on, alone and in their sentences, against made-up ones of the same form and against held-out ones. 0: no "
        "such attack. Papers take 500 to 1,000.",
    )
    num_trials: int = Field(
        20_000,
        ge=100,
        description="Trials of the game on the steps that the method takes, an epoch with the noise and rate of this "
        "training. They take seconds.",
    )
    owner_records: int | None = Field(
        None,
        ge=1,
        le=1_000,
        description="Records of each made-up person in the game on people, which compares a lower bound with the "
        "epsilon of a person. unset: 16 if train.unit = owner, and no such game otherwise. A number also lets "
        "membership attacks judge people (corpus.owner_from), and trains the audit's model without their private "
        "records whose text stands once in the corpus. People with more such records than num_members are not judged.",
    )
    confidence: float = Field(
        0.95, gt=0.5, lt=1, description="Confidence of intervals and lower bounds. Alarms are raised at 99.9 % instead."
    )

    def wants(self, stage: str) -> bool:
        """Checks that the settings ask for a stage: those of `OF_DOMAINS` and `OF_SECRETS` by settings of their own."""
        return (
            self.enabled
            and (self.domains or stage not in OF_DOMAINS)
            and (self.num_secrets > 0 or stage not in OF_SECRETS)
        )

    def recipe(self, stage: str) -> dict[str, int]:
        """Returns the version of what models of the audit add to the recipe of ``[train]``."""
        del stage
        return {"audit": AUDIT}

    @model_validator(mode="after")
    def _has_form(self) -> AuditConfig:
        if "{" not in self.canary_form:
            raise ValueError("canary_form has no hole; write for example {digits:6} where the secret stands")
        return self


def records_of_person(configs: Mapping[str, Any]) -> int | None:
    """Returns the number of records of a made-up person; None for an audit without people.

    Args:
        configs: settings with the tables ``audit`` and ``train``.
    """
    return configs["audit"].owner_records or (_RECORDS_OF_PERSON if configs["train"].by_owner() else None)
