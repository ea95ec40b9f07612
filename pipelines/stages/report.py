"""Report: one page and one JSON document on what a run did and what it may claim; a public version beside the full one.

Algorithm 1's results, and Just Fine-tune Twice, appendix A.2: learning curves, counts and private losses are releases
of their own, which the model's epsilon does not cover, so only the full version in the private root has them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pydantic import Field

from pipelines.config import StageConfig
from pipelines.context import StageContext

if TYPE_CHECKING:
    from pathlib import Path

_KEY_CHARACTERS = 12


class ReportConfig(StageConfig):
    """The ``[report]`` table."""

    title: str = Field(
        default="Privacy and utility report",
        min_length=1,
        max_length=200,
        description="Heading of the report. It is published: put no secret into it.",
    )
    public: bool = Field(
        default=True,
        description="Whether to write the public version as well, without what epsilon does not cover.",
    )
    publish_counts: bool = Field(
        default=False,
        strict=True,
        description="Whether the public version has the rates that were counted on private text (m, gamma, delta2, "
        "recall) and the claims that rest on them. No noise is added, so all claims are about the model alone then.",
    )


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes ``report.html`` and ``report.json``: the full version (private root), the public one (public root)."""
    from pipelines.report.figures import Sources, build
    from pipelines.report.public import public_version
    from pipelines.report.settings import shown_settings
    from pipelines.stages.shard import publishes_rows

    config: ReportConfig = ctx.configs["report"]
    train = ctx.one("train")
    claims = _read(ctx.one("guarantee").private("claims.json"))
    full = build(
        Sources(
            split=[_read(artifact.private("figures.json")) for artifact in ctx.inputs["split"]],
            redact=[_read(artifact.private("figures.json")) for artifact in ctx.inputs["redact"]],
            shard=[_read(artifact.private("figures.json")) for artifact in ctx.inputs["shard"]],
            dedup=_read(ctx.one("dedup_resolve").private("figures.json")),
            estimate=_read(ctx.one("estimate").private("figures.json")),
            train=_read(train.private("figures.json")),
            events=_read(train.private("events.json")),
            curves=_read(train.private("curves.json")),
            utility=_read(ctx.one("train_utility").private("figures.json")),
            claims=claims,
            lineage=[
                (artifact.stage, artifact.partition, artifact.key[:_KEY_CHARACTERS])
                for artifacts in ctx.inputs.values()
                for artifact in artifacts
            ],
            publishes_rows=publishes_rows(ctx.configs, ctx.configs["train"].method),
            settings=shown_settings({name: table for name, table in ctx.configs.items() if name != "report"}),
        ),
        title=config.title,
    )
    _write(full, ctx.private_dir)
    if config.public:
        _write(public_version(full, claims["public"], publishes_counts=config.publish_counts), ctx.public_root_dir())
    return {"metrics": full["metrics"]}


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _write(report: dict[str, Any], folder: Path) -> None:
    from pipelines.report.render import render_html

    text = json.dumps(report, sort_keys=True, indent=1, allow_nan=False) + "\n"
    (folder / "report.json").write_text(text, encoding="utf-8")
    (folder / "report.html").write_text(render_html(report), encoding="utf-8")
