"""Report: one page and one JSON document on what a run did and what it may claim, in a full and a public version.

The public version has the texts of two cards, for the model and for the public rows (`pipelines.report.cards`):
``reticent export`` puts the cards into what it signs, and the gate searches them here.

Algorithm 1's results, and Just Fine-tune Twice, appendix A.2: learning curves, counts and private losses are releases
of their own, which the model's epsilon does not cover. So only the full version, in the private root, has them.
"""

from __future__ import annotations

from typing import Any

from pipelines.artifacts import Target
from pipelines.context import StageContext
from pipelines.report.cards import data_card, model_card_sections
from pipelines.report.figures import Sources, build, data_warnings
from pipelines.report.public import marked, public_version
from pipelines.report.render import render_html
from pipelines.report.settings import shown_settings
from pipelines.settings.report import ReportConfig
from pipelines.settings.shard import publishes_rows
from pipelines.signatures import own_fingerprint

_KEY_CHARACTERS = 12


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes ``report.html`` and ``report.json``: the full version (private root), the public one (public root).

    Next to the public version are ``model_card.md`` and ``data_card.md``. The gate reads a marked copy of each.
    """
    config: ReportConfig = ctx.configs["report"]
    train = ctx.input("train")
    claims = ctx.input("guarantee").json("claims.json")
    full = build(
        Sources(
            split=[artifact.json("figures.json") for artifact in ctx.inputs["split"]],
            redact=[artifact.json("figures.json") for artifact in ctx.inputs["redact"]],
            shard=[artifact.json("figures.json") for artifact in ctx.inputs["shard"]],
            dedup=ctx.input("dedup_resolve").json("figures.json"),
            estimate=ctx.input("estimate").json("figures.json"),
            reidentification=ctx.input("estimate").find_json("reidentification.json"),
            train=train.json("figures.json") | ctx.input("evaluate").json("figures.json"),
            events=train.json("events.json"),
            curves=train.json("curves.json"),
            utility=ctx.input("train_utility").json("figures.json"),
            audit=_read(ctx, "audit", "audit.json"),
            synthetic=_read(ctx, "synthesize", "synthetic.json"),
            synthetic_check=_read(ctx, "synthesize_check", "check.json"),
            claims=claims,
            left_out=ctx.outside.left_out,
            held_by_label=ctx.input("gate").json("held_by_label.json"),
            lineage=[
                (artifact.stage, artifact.partition, artifact.key[:_KEY_CHARACTERS])
                for artifacts in ctx.inputs.values()
                for artifact in artifacts
            ],
            publishes_rows=publishes_rows(ctx.configs, ctx.configs["train"].method),
            signed_by=own_fingerprint(ctx.run.secret) if ctx.run.secret else None,
            settings=shown_settings({name: table for name, table in ctx.configs.items() if name != "report"}),
        ),
        title=config.title,
    )
    _write(full, ctx.out)
    if config.public:
        public = public_version(full, claims["public"], publishes_counts=config.publish_counts)
        write_public(public, ctx.out.public)
        write_public(marked(public), ctx.out.marked)
    return {"metrics": full["metrics"], "warnings": data_warnings(full["corpus"], full["redaction"], full["shards"])}


def _read(ctx: StageContext, stage: str, file: str) -> Any:
    """Reads a file of a stage that runs may leave out; None if the run left it out."""
    return ctx.input(stage).json(file) if ctx.inputs.get(stage) else None


def write_public(report: dict[str, Any], out: Target) -> None:
    """Writes the public report and the texts of the cards."""

    _write(report, out)
    out.text("model_card.md", model_card_sections(report))
    out.text("data_card.md", data_card(report))


def _write(report: dict[str, Any], out: Target) -> None:
    out.json("report.json", report)
    out.text("report.html", render_html(report))
