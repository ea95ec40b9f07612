"""Commands that look at what a run made."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from flows.arguments.common import DEFAULT_CONFIG, ConfigArgument, JsonOption, app, emit


@app.command()
def inspect(
    table: Annotated[str, typer.Argument(metavar="STAGE", help="A stage or one of its tables, e.g. redact.")],
    config: Annotated[Path, typer.Option("--config", "-c", help="The settings file.")] = DEFAULT_CONFIG,
    rows: Annotated[int, typer.Option(min=0, help="Rows of the sample.")] = 5,
    show_text: Annotated[bool, typer.Option("--show-text", help="Also print columns that hold secrets.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Where a stage's tables are, how to read them in polars, their schema, and a sample without secrets."""
    from flows.commands.inspect import inspect_document, inspect_text

    document = inspect_document(config, os.environ, table, rows=rows, show_text=show_text)
    emit(document, as_json, inspect_text(document))


@app.command()
def show(
    table: Annotated[
        str, typer.Argument(help="redacted, private, public, or stability: what is unstable.")
    ] = "redacted",
    config: Annotated[Path, typer.Option("--config", "-c", help="The settings file.")] = DEFAULT_CONFIG,
    label: Annotated[str | None, typer.Option(help="Only rows with a mask of this label, e.g. PERSON.")] = None,
    doc: Annotated[str | None, typer.Option(help="Only this document: its id or the beginning of it.")] = None,
    private: Annotated[bool, typer.Option("--private", help="Only rows that are not public.")] = False,
    page: Annotated[int, typer.Option(min=1, help="Which page.")] = 1,
    rows: Annotated[int, typer.Option(min=1, max=10_000, help="Rows in a page.")] = 20,
    show_text: Annotated[bool, typer.Option("--show-text", help="Also print the original text: secrets.")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="Plain [MASK:LABEL] even on a terminal.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Redacted text, page by page, with its masks in the colours of their labels."""
    from shutil import get_terminal_size

    from flows.commands.show import show_document, show_text_page, use_colour

    document = show_document(
        config,
        os.environ,
        table,
        label=label,
        doc=doc,
        private=private,
        page=page,
        rows=rows,
        show_text=show_text,
    )
    colour = use_colour(os.environ, is_terminal=sys.stdout.isatty(), asked_for_none=no_color)
    text = show_text_page(document, colour=colour, width=get_terminal_size().columns)
    emit(document, as_json, text, has_colours=colour)


@app.command()
def report(config: ConfigArgument = DEFAULT_CONFIG, as_json: JsonOption = False) -> None:
    """Print the last run's figures and where its report is."""
    from flows.commands.plan import last_run, run_text

    record = last_run(config, os.environ)
    emit(record, as_json, run_text(record))


@app.command("open")
def open_report(
    config: ConfigArgument = DEFAULT_CONFIG,
    public: Annotated[bool, typer.Option("--public", help="The public report, not the trusted side's.")] = False,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open it, or only say where it is.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Show the last run's report in a browser."""
    from flows.commands.open import open_document

    document = open_document(config, os.environ, public=public, browser=browser)
    emit(document, as_json, document["report"])


@app.command()
def schema() -> None:
    """Print the JSON schema of reticent.toml, which editors complete and check it by."""
    from flows.commands.init import schema_text

    typer.echo(schema_text(), nl=False)


@app.command("dedup-stats")
def dedup_stats(
    config: ConfigArgument = DEFAULT_CONFIG,
    top: Annotated[int, typer.Option(min=0, help="How many of the most frequent duplicates to list.")] = 10,
    show_text: Annotated[bool, typer.Option("--show-text", help="Also print their texts, which are private.")] = False,
    as_json: JsonOption = False,
) -> None:
    """How much of the corpus repeats, what repeats most, and the Bloom filter's expected and verified errors."""
    from flows.commands.dedup_stats import stats_document, stats_text

    document = stats_document(config, os.environ, top=top, show_text=show_text)
    emit(document, as_json, stats_text(document))


@app.command("dedup-filter")
def dedup_filter(
    inputs: Annotated[list[str], typer.Argument(metavar="INPUT...", help="Files, folders or patterns.")],
    out: Annotated[Path, typer.Option(help="The file to write, NAME.bloom.")],
    config: Annotated[Path, typer.Option("--config", "-c", help="The settings file.")] = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Save another corpus as a Bloom filter for dedup.against: a fraction of the size, and no text in it."""
    from flows.commands.dedup_filter import filter_text, write_filter

    document = write_filter(config, os.environ, inputs, out)
    emit(document, as_json, filter_text(document))
