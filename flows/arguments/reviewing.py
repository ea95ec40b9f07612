"""Commands that measure how much redaction missed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from flows.arguments.common import DEFAULT_CONFIG, ConfigArgument, JsonOption, app, emit
from pipelines.errors import ConfigError


@app.command()
def sample(
    config: ConfigArgument = DEFAULT_CONFIG,
    plan: Annotated[bool, typer.Option("--plan", help="Only say how many sentences to review, and draw none.")] = False,
    target: Annotated[str, typer.Option(help="With --plan: gamma, miss_rate or delta2.")] = "gamma",
    bound: Annotated[float, typer.Option(help="With --plan: the upper bound to reach.")] = 0.005,
    confidence: Annotated[float, typer.Option(help="With --plan: confidence of the bound.")] = 0.95,
    expected_rate: Annotated[float, typer.Option(help="With --plan: the rate that you expect.")] = 0.0,
    assurance: Annotated[
        float, typer.Option(help="With --plan: probability of reaching the bound if the rate is as expected.")
    ] = 0.8,
    design_effect: Annotated[
        float | None,
        typer.Option(help="With --plan: clustered units that are worth one independent unit; default: measured."),
    ] = None,
    units_per_sentence: Annotated[
        float | None, typer.Option(help="With --plan: secrets (tokens for miss_rate) per sentence; default: measured.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Draw the sentences to review and show the design. With --plan, say how many a bound needs."""
    from flows.commands.sample import plan_document, plan_text, sample_document, sample_text

    if not plan:
        document = sample_document(config, os.environ)
        emit(document, as_json, sample_text(document))
        return
    document = plan_document(
        config,
        os.environ,
        target=target,
        bound=bound,
        confidence=confidence,
        expected_rate=expected_rate,
        assurance=assurance,
        design_effect=design_effect,
        units_per_sentence=units_per_sentence,
    )
    emit(document, as_json, plan_text(document))


@app.command()
def review(
    config: ConfigArgument = DEFAULT_CONFIG,
    reviewer: Annotated[str | None, typer.Option(help="Your name; default: your login name.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port on 127.0.0.1; 0 takes a free one.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in the default browser.")] = True,
    screening: Annotated[
        bool, typer.Option("--screening", help="Review JFT's manual-screening set instead of the sample.")
    ] = False,
    held: Annotated[
        bool,
        typer.Option("--held", help="Decide which strings that the gate holds are secrets. Others are let through."),
    ] = False,
    adjudicate: Annotated[bool, typer.Option("--adjudicate", help="Decide where reviewers disagree.")] = False,
    overlap: Annotated[float, typer.Option(help="Share of the sentences that every reviewer judges.")] = 1.0,
    status: Annotated[
        bool, typer.Option("--status", help="Only print the review's progress and Cohen's kappa.")
    ] = False,
    export: Annotated[
        Path | None, typer.Option(help="Write sentences and reviews to this file, which then holds secrets.")
    ] = None,
    import_file: Annotated[Path | None, typer.Option("--import", help="Add the reviews of this file.")] = None,
    file_format: Annotated[
        str | None,
        typer.Option("--format", help="jsonl, csv or label-studio; default: by the file's suffix or content."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Mark the secrets that redaction missed. Serves a page on this machine that only you can open."""
    from flows.commands import review as reviewing

    name = reviewer or reviewing.login_name()
    if screening and held:
        raise ConfigError("--screening and --held are two reviews; choose one")
    asked: reviewing.Asked = "screening" if screening else "held" if held else "sample"
    if status:
        document = reviewing.status_document(config, os.environ, asked=asked)
        emit(document, as_json, reviewing.status_text(document, reviewing.command_of(config, asked)))
    elif export is not None:
        document = reviewing.export_document(config, os.environ, export, file_format, asked=asked)
        written = f"wrote {document['num_sentences']:,} sentences with {document['num_reviews']:,} reviews to {export}"
        emit(document, as_json, f"{written}\nthe file holds secrets: protect it as you protect the corpus")
    elif import_file is not None:
        document = reviewing.import_document(config, os.environ, import_file, file_format, name, asked=asked)
        emit(document, as_json, reviewing.import_text(document))
    else:
        document = reviewing.serve(
            config,
            os.environ,
            reviewer=name,
            port=port,
            asked=asked,
            adjudicate=adjudicate,
            overlap=overlap,
            announce=lambda url, count: reviewing.announce_page(url, count, open_browser=browser),
        )
        emit(document, as_json, reviewing.status_text(document, reviewing.command_of(config, asked)))


@app.command()
def estimate(
    config: ConfigArgument = DEFAULT_CONFIG,
    counts: Annotated[
        Path | None,
        typer.Option(help="Instead of a corpus: CSV file with columns missed,total and a row per replicate."),
    ] = None,
    confidence: Annotated[float, typer.Option(help="With --counts: confidence of the intervals.")] = 0.95,
    as_json: JsonOption = False,
) -> None:
    """Estimate what redaction missed, with intervals. Reads reviews, gold labels or plain counts."""
    from flows.commands.estimate import counts_document, counts_text, estimate_document, estimate_text

    if counts is not None:
        document = counts_document(counts, confidence)
        emit(document, as_json, counts_text(document))
        return
    document = estimate_document(config, os.environ)
    emit(document, as_json, estimate_text(document))
