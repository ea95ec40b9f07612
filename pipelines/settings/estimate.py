"""Settings of ``[estimate]``: the source of missed secrets, and their labels."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from pipelines.config import StageConfig
from pipelines.errors import ConfigError
from pipelines.policies import registry
from pipelines.policies.detectors.specs import SPECS
from pipelines.policies.labels import REVIEW_LABELS, ReviewLabels
from pipelines.policies.options import LABEL_PATTERN, absolute


class EstimateConfig(StageConfig):
    """The source of missed secrets, and their labels."""

    source: Literal["auto", "human", "gold", "proxy", "none"] = Field(
        default="auto",
        description="Source of missed secrets. human: `reticent review`. gold: the corpus's own labels. proxy: the "
        "policies of `proxy`, on which no guarantee rests. none: nothing is measured. auto: gold if every training "
        "document has labels, else human if anybody reviewed, else gold if any document has labels.",
    )
    confidence: float = Field(
        default=0.95, gt=0.5, lt=1, description="Confidence of intervals and of one-sided bounds (a probability)."
    )
    proxy: tuple[str, ...] = Field(
        default=(),
        description="With source = proxy: policies whose union is taken for the truth (see redact.policies).",
    )

    labels: tuple[str, ...] = Field(
        default=REVIEW_LABELS,
        min_length=1,
        max_length=9,
        description="Labels of reviews, to which the labels of all policies map. Of several labels of one mask the "
        "first counts, and the last label takes what fits no other. Bounds by label hold for all at once: fewer "
        "labels have tighter bounds.",
    )
    map_labels: dict[str, str] = Field(
        default_factory=dict,
        description="Label in `labels` that another label counts as, by that label, if you differ from the default: "
        "labels of a policy, a pattern or an earlier review. Gold labels keep their names unless they are listed here.",
    )

    reidentification_table: str | None = Field(
        default=None,
        description="Absolute path of a CSV file (UTF-8, a header, a row for each person). The estimate then counts "
        "how many documents of a sample could be linked to one row, in the original and in the redacted text. The "
        "file is private: no report shows any of it.",
    )
    reidentification_id: str | None = Field(
        default=None,
        description="Column of the table that names the document of a row, by its id or its file's name. The estimate "
        "then counts correct links too. The column is no part of the attack.",
    )
    reidentification_documents: int = Field(
        default=200, ge=1, le=100_000, description="Training documents in the sample that is linked to the table."
    )

    LATER: ClassVar[frozenset[str]] = frozenset(
        {"reidentification_table", "reidentification_id", "reidentification_documents"}
    )
    UNKEYED: ClassVar[frozenset[str]] = frozenset({"reidentification_table"})  # its content is, in code_references
    SENSITIVE: ClassVar[frozenset[str]] = frozenset({"reidentification_table", "reidentification_id"})

    _absolute_table = field_validator("reidentification_table")(absolute)

    @model_validator(mode="after")
    def _table_is_given(self) -> EstimateConfig:
        if self.reidentification_table is None and self.silent() < self.LATER:
            raise ValueError("'reidentification_id' and 'reidentification_documents' need 'reidentification_table'")
        return self

    @model_validator(mode="after")
    def _labels_are_listed(self) -> EstimateConfig:
        if bad := [label for label in self.labels if LABEL_PATTERN.fullmatch(label) is None]:
            raise ValueError(f"labels: '{bad[0]}' must be capitals, digits and underscores")
        if len(set(self.labels)) != len(self.labels):
            raise ValueError("labels: a label is named twice")
        for label, name in self.map_labels.items():
            if name not in self.labels:
                raise ValueError(f"map_labels: {label} counts as '{name}', which is not in labels: {self.labels}")
        return self

    def review_labels(self, policies: Iterable[str]) -> ReviewLabels:
        """Returns the mapping from any label to one of ``labels``.

        Args:
            policies: names of the run's policies. Built-in policies are known anyway.
        """
        return registry.review_labels(policies, self.labels, self.map_labels)

    def unread_inputs(self, stage: str) -> frozenset[str]:
        """Returns the inputs that a stage does not read. No stability is measured if no guarantee can rest on it."""
        if stage != "stability":
            return frozenset()
        if self.source in ("none", "proxy"):
            return frozenset({"sample", "split", "redact", "reviews"})
        return frozenset({"reviews"}) if self.source == "gold" else frozenset()

    @field_validator("proxy")
    @classmethod
    def _known_proxy(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            registry.check_name(name)
            if name in SPECS and SPECS[name].reads_documents:
                raise ValueError(f"'{name}' looks at whole documents and cannot judge single sentences")
        return tuple(sorted(set(names)))

    @model_validator(mode="after")
    def _proxy_is_named(self) -> EstimateConfig:
        if (self.source == "proxy") != bool(self.proxy):
            raise ValueError("'proxy' and source = \"proxy\" need each other: give both or neither")
        return self

    def code_references(self, stage: str | None = None) -> tuple[str, ...]:
        """Returns the modules of the proxy policies, and the table of people."""
        table = (self.reidentification_table,) if self.reidentification_table and stage == "estimate" else ()
        return (*table, *((*registry.policy_modules(self.proxy), "pipelines.policies.registry") if self.proxy else ()))

    def check(self, stage: str) -> None:
        """Checks that the table of people is there. Raises the ConfigError that the stage would raise."""
        if stage == "estimate" and self.reidentification_table and not Path(self.reidentification_table).is_file():
            raise ConfigError("estimate.reidentification_table: there is no file where it says")

    def package_references(self) -> tuple[str, ...]:
        """Returns the packages that the proxy policies may use."""
        libraries = (package for spec in registry.specs(self.proxy) for package in spec.packages)
        return ("spacy", *libraries) if self.proxy else ()
