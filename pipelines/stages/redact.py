"""Redact: mask what the policies find, and flag what the conservative policy will not vouch for.

Confidentially Redacted Training, Algorithm 1, lines 2 and 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, field_validator, model_validator

from pipelines.config import StageConfig
from pipelines.context import StageContext
from pipelines.errors import StageError
from pipelines.policies import registry

_BATCH_ROWS = 4_096


class RedactConfig(StageConfig):
    """The ``[redact]`` table: which policies mask, and which one decides what is public."""

    policies: tuple[str, ...] = Field(
        default=("high_entity",),
        min_length=1,
        description="Policies whose union is masked: registered names, or plug-ins as package.module:Class.",
    )
    conservative: str | None = Field(
        default=None,
        description="The policy that flags whole sentences as private without masking them; any policy's name will "
        "do, and one find flags the sentence. Without one, every sentence is private.",
    )
    model: str = Field(
        default="en_core_web_sm",
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        description="The installed spaCy model that policies reading entities or tags use.",
    )
    patterns: dict[str, str] = Field(
        default_factory=dict,
        description='Regular expressions of the policy "regex", by label: LABEL = "pattern".',
    )
    collapse: bool = Field(
        default=True,
        description="Whether a run of masked tokens becomes one mask; if false, the length in tokens of what was "
        "masked is left in the text.",
    )

    @field_validator("policies")
    @classmethod
    def _known_policies(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            registry.check_name(name)
        if len(set(names)) != len(names):
            raise ValueError("a policy is named twice")
        return tuple(sorted(names))  # a union has no order, so neither has the key

    @field_validator("conservative")
    @classmethod
    def _known_conservative(cls, name: str | None) -> str | None:
        if name is not None:
            registry.check_name(name)
        return name

    @model_validator(mode="after")
    def _patterns_compile(self) -> RedactConfig:
        from pipelines.policies.patterns import compile_patterns

        compile_patterns(self.patterns)
        if bool(self.patterns) != ("regex" in self._selected()):
            raise ValueError("'patterns' and the policy 'regex' need each other: give both or neither")
        return self

    def _selected(self) -> tuple[str, ...]:
        return (*self.policies, self.conservative) if self.conservative is not None else self.policies

    def code_references(self) -> tuple[str, ...]:
        """The modules of the selected policies, and the table that finds them."""
        return (*registry.policy_modules(self._selected()), "pipelines.policies.registry")

    def package_references(self) -> tuple[str, ...]:
        """The spaCy model's distribution, and Presidio's where it is selected."""
        from pipelines.policies.language import model_distribution

        presidio = ("presidio-analyzer",) if "presidio" in self._selected() else ()
        return (model_distribution(self.model), *presidio)


def run(ctx: StageContext) -> Mapping[str, Any]:
    """Writes ``redacted.parquet`` and ``figures.json`` to the private root.

    Raises:
        ConfigError: a policy or the model cannot be loaded.
        StageError: the sentences and the dedup decisions are not the same rows, or token offsets do not fit.
    """
    from pipelines.policies.apply import Redactor, Request
    from pipelines.policies.protocol import PolicyOptions
    from pipelines.policies.tables import RedactionFigures, lockstep, redacted_row
    from pipelines.tables import TableWriter

    config: RedactConfig = ctx.configs["redact"]

    def make(name: str, setting: str) -> Any:
        options = PolicyOptions(name=name, model=config.model, patterns=config.patterns)
        return registry.make_policy(options, setting)

    redactor = Redactor(
        {name: make(name, "redact.policies") for name in config.policies},
        make(config.conservative, "redact.conservative") if config.conservative is not None else None,
        config.model,
    )
    sentences = ctx.one("split").private("sentences.parquet")
    decisions = ctx.one("dedup_mask").private("decisions.parquet")
    figures = RedactionFigures(policies=config.policies, conservative=config.conservative)
    with TableWriter(ctx.private_dir / "redacted.parquet", "redacted") as writer:
        for rows, total in lockstep(sentences, decisions, _BATCH_ROWS):
            requests = [
                Request(row["text"], row["token_starts"], row["token_ends"], redact=not row["is_duplicate"])
                for row in rows
            ]
            try:
                verdicts = redactor.judge(requests)
            except ValueError as error:
                raise StageError(f"sentences.parquet: {error}; rerun the split stage") from None
            for row, verdict in zip(rows, verdicts, strict=True):
                out = redacted_row(row, verdict, collapse=config.collapse)
                figures.add(out, verdict)
                writer.append(**out)
            ctx.progress(writer.num_rows, total, "sentences redacted")
    (ctx.private_dir / "figures.json").write_text(figures.to_json(), encoding="utf-8")
    return figures.counts()
