"""Settings of ``[synthesize]``: the text that the released model writes, and its public mix."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Final

from pydantic import Field, field_validator, model_validator

from pipelines.config import StageConfig
from pipelines.errors import ConfigError
from pipelines.policies import registry
from pipelines.policies.detectors.specs import SPECS
from pipelines.training.tasks.registry import TASKS

if TYPE_CHECKING:
    from pipelines.settings.train import TrainConfig
    from pipelines.synthesis.plan import Lengths, Plan
    from pipelines.training.trained import TrainedModel

UNIFORM: Final = "uniform"
_PRIVATE_COUNTS: Final = (
    'must be "uniform" or shares that you state (NAME = 0.5). Shares that are counted on the private text are refused: '
    "the model's epsilon does not cover them, each table would be another query on that text"
)
_NOT_PUBLIC: Final = (
    "is no public policy: what it finds follows from patterns, lists or models of your own, which may come from the "
    "private text, or from other rows. A table that is filtered by the private text loses the claim"
)


class SynthesizeConfig(StageConfig):
    """The synthetic text. All settings are public: none may be chosen after counts of the private text."""

    UNKEYED: ClassVar[frozenset[str]] = frozenset({"enabled"})

    enabled: bool = Field(
        default=False,
        strict=True,
        description="true: `reticent run` writes synthetic text with the model. `reticent synthesize` does so in any "
        "case.",
    )
    rows: int = Field(1_000, ge=1, le=10**9, description="Rows of the table, each a turn; a multiple of turns.")
    turns: int = Field(
        1,
        ge=1,
        le=1_000,
        description="Turns of a record. The model reads earlier turns before it writes a later one, and speakers "
        "alternate.",
    )
    domains: str | dict[str, float] = Field(
        default=UNIFORM,
        description='Shares of domains (NAME = 0.5); "uniform": the same share for each domain that the model has a '
        "token for.",
    )
    speakers: str | dict[str, float] = Field(default=UNIFORM, description="Shares of speakers, likewise.")
    lengths: dict[str, float] = Field(
        default_factory=dict,
        description='Shares of lengths in tokens, such as "1-16" = 0.5 and "17-64" = 0.5: the text of a row is '
        "neither shorter nor longer. Empty: it ends where the model ends it, or at max_new_tokens.",
    )
    temperature: float = Field(
        1.0, ge=0, le=10, description="Divisor of logits; 0 takes the likeliest token each time."
    )
    top_p: float = Field(
        1.0, gt=0, le=1, description="Joint probability of the likeliest tokens that are drawn among; 1 for all tokens."
    )
    max_new_tokens: int = Field(32, ge=1, description="Longest text of a row, in tokens.")
    seed: int = Field(0, ge=0, description="Public seed. Another seed gives another table.")
    filter: tuple[str, ...] = Field(
        default=(),
        description="Public policies (`docs/policies.md`): a row in which one of them finds something is left out. A "
        "policy with patterns, lists, or a model of your own is not public.",
    )
    batch_size: int = Field(128, ge=1, le=65_536, description="Rows that are written at a time.")
    partition_rows: int = Field(
        2_048, ge=1, description="Rows of a piece of the table. `runtime.workers` threads write pieces in parallel."
    )

    replay_words: int = Field(
        8, ge=3, le=64, description="Words of a passage that counts as replayed if one training document holds it."
    )
    baseline_rows: int = Field(
        500,
        ge=0,
        description="Rows that the model writes at its start weights, to the same plan, to count replays and finds in "
        "text of a model that never saw the corpus. 0: none.",
    )
    downstream_steps: int = Field(
        100,
        ge=0,
        description="Steps without noise for which the run's own network is trained on synthetic, on redacted and on "
        "real rows, three times each, to compare what they teach, on the trusted side only. 0: none. A network of "
        "more than 20 million weights is trained in this way on a GPU only.",
    )

    @field_validator("domains", "speakers")
    @classmethod
    def _public_mix(cls, mix: str | dict[str, float]) -> str | dict[str, float]:
        if isinstance(mix, str):
            if mix != UNIFORM:
                raise ValueError(_PRIVATE_COUNTS)
        else:
            _check_shares(mix)
        return mix

    @field_validator("filter")
    @classmethod
    def _public_policies(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            spec = SPECS.get(name)
            # The package holds the models of these two policies, which were fitted on public text.
            is_ours = name in ("noisy_entities", "calibrated")
            if spec is None or spec.requires or spec.reads_documents or (spec.is_fitted and not is_ours):
                raise ValueError(f"'{name}' {_NOT_PUBLIC}")
        return names

    @model_validator(mode="after")
    def _consistent(self) -> SynthesizeConfig:
        _check_shares(self.lengths or {"all": 1.0})
        self.length_mix()
        if self.rows % self.turns:
            raise ValueError(f"rows = {self.rows} is no multiple of turns = {self.turns}: rows are whole records")
        return self

    def length_mix(self) -> Lengths:
        """Returns the mix of lengths of rows.

        Raises:
            ValueError: a length or a share is wrong.
        """
        from pipelines.synthesis.plan import Lengths

        return Lengths.of(self.lengths, self.max_new_tokens)

    def plan(self, model: TrainedModel, seed: int) -> Plan:
        """Returns the plan of all rows.

        Args:
            model: model with tokens for domains and speakers.
            seed: public seed of the stage.

        Raises:
            ConfigError: the model has no token for a name.
        """
        from pipelines.synthesis.plan import Mix, Plan

        def stated_shares(mix: str | dict[str, float]) -> Mapping[str, float] | None:
            return None if isinstance(mix, str) else mix

        return Plan(
            domains=Mix.of(stated_shares(self.domains), [*model.control.domains], "domains"),
            speakers=Mix.of(stated_shares(self.speakers), [*model.control.speakers], "speakers"),
            lengths=self.length_mix(),
            turns=self.turns,
            seed=seed + self.seed,
        )

    def partition_names(self, input_bytes: int) -> tuple[str, ...]:
        """Returns the pieces of the table, which do not depend on the corpus."""
        from pipelines.synthesis.plan import partitions

        del input_bytes
        return partitions(self.rows, max(1, self.partition_rows // self.turns) * self.turns)

    def code_references(self, stage: str | None = None) -> tuple[str, ...]:
        """Returns the modules of the policies that drop rows."""
        del stage
        return (*registry.policy_modules(self.filter), "pipelines.policies.registry") if self.filter else ()


def check_writes_rows(train: TrainConfig) -> None:
    """Checks that the model writes rows.

    Raises:
        ConfigError: the model writes no text, or only of an input that would come from the corpus.
    """
    task = TASKS.get(train.task)
    if task is None or not task.writes_text or not task.has_speakers:
        raise ConfigError(
            f"[synthesize]: a model for the task {train.task} cannot write rows without an input. Choose a task "
            "that continues after a speaker and a domain, such as train.task = 'language_modelling'"
        )


def _check_shares(shares: Mapping[str, float]) -> None:
    if not shares or not all(0 < share < math.inf for share in shares.values()):
        raise ValueError("every share must be a finite number above 0, and at least one must be given")
