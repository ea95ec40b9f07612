"""Settings of ``[report]``: the heading, and the content of the public version."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from pipelines.config import StageConfig


class ReportConfig(StageConfig):
    """The heading of the report, and the content of its public version."""

    LATER: ClassVar[frozenset[str]] = frozenset({"show_samples"})

    title: str = Field(
        default="Privacy and utility report",
        min_length=1,
        max_length=200,
        description="Heading of the report. It is published: put no secret into it.",
    )
    public: bool = Field(
        default=True, description="true also writes the public version, without what epsilon does not cover."
    )
    publish_counts: bool = Field(
        default=False,
        strict=True,
        description="true: the public version has the rates that were counted on private text (m, gamma, delta2, "
        "recall) and the claims that rest on them. No noise is added, so all claims are about the model alone then.",
    )
    show_samples: bool = Field(
        default=False,
        description="true: the page of the full report shows rows before and after redaction, which quotes secrets, "
        "and texts that the model writes. The built-in job sets it, because its text is made up.",
    )
