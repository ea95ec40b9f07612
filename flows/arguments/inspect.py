"""Commands that show the results of a run."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from flows.arguments.common import DEFAULT_CONFIG, ConfigArgument, ConfigOption, JsonOption, app, emit


@app.command()
def inspect(
    table: Annotated[str, typer.Argument(metavar="STAGE", help="A stage or one of its tables, e.g. redact.")],
    config: ConfigOption = DEFAULT_CONFIG,
    rows: Annotated[int, typer.Option(min=0, help="Number of sample rows.")] = 5,
    show_text: Annotated[bool, typer.Option("--show-text", help="Also print columns that hold secrets.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show a stage's tables, with a sample without secrets. Prints folder and schema, and how polars reads them."""
    from flows.commands.inspect import inspect_document, inspect_text

    document = inspect_document(config, os.environ, table, rows=rows, show_text=show_text)
    emit(document, as_json, inspect_text(document))


@app.command()
def show(
    table: Annotated[
        str, typer.Argument(help="redacted, private, public, or stability for rows that are not masked stably.")
    ] = "redacted",
    config: ConfigOption = DEFAULT_CONFIG,
    label: Annotated[str | None, typer.Option(help="Only rows with a mask of this label, e.g. PERSON.")] = None,
    doc: Annotated[str | None, typer.Option(help="Only this document, by its id or the start of the id.")] = None,
    private: Annotated[bool, typer.Option("--private", help="Only rows that are not public.")] = False,
    page: Annotated[int, typer.Option(min=1, help="Page number.")] = 1,
    rows: Annotated[int, typer.Option(min=1, max=10_000, help="Rows per page.")] = 20,
    show_text: Annotated[
        bool, typer.Option("--show-text", help="Also print the original text, which holds secrets.")
    ] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="Print plain [MASK:LABEL], even on a terminal.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show redacted text, page by page. Each mask has the colour of its label."""
    from shutil import get_terminal_size

    from flows.commands.show import show_document, show_text_page, use_colour

    document = show_document(
        config, os.environ, table, label=label, doc=doc, private=private, page=page, rows=rows, show_text=show_text
    )
    colour = use_colour(os.environ, is_terminal=sys.stdout.isatty(), asked_for_none=no_color)
    text = show_text_page(document, colour=colour, width=get_terminal_size().columns)
    emit(document, as_json, text, has_colours=colour)


@app.command()
def report(config: ConfigArgument = DEFAULT_CONFIG, as_json: JsonOption = False) -> None:
    """Print the last run's figures and the path of its report."""
    from flows.commands.plan import last_run, run_text

    record = last_run(config, os.environ)
    emit(record, as_json, run_text(record))


@app.command("open")
def open_report(
    config: ConfigArgument = DEFAULT_CONFIG,
    public: Annotated[bool, typer.Option("--public", help="Show the public report instead of the full one.")] = False,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the report, or only print its path.")
    ] = True,
    as_json: JsonOption = False,
) -> None:
    """Show the last run's report in a browser."""
    from flows.commands.open import open_document

    document = open_document(config, os.environ, public=public, browser=browser)
    emit(document, as_json, document["report"])


@app.command()
def schema() -> None:
    """Print the JSON schema of reticent.toml. Editors use it to complete and check your settings."""
    from flows.commands.init import schema_text

    typer.echo(schema_text(), nl=False)


@app.command("dedup-stats")
def dedup_stats(
    config: ConfigArgument = DEFAULT_CONFIG,
    top: Annotated[int, typer.Option(min=0, help="Number of most frequent duplicates to list.")] = 10,
    show_text: Annotated[
        bool, typer.Option("--show-text", help="Also print the texts of duplicates, which are private.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show how much of the corpus repeats. Lists the most frequent repeats, and the Bloom filter's error rates."""
    from flows.commands.dedup_stats import stats_document, stats_text

    document = stats_document(config, os.environ, top=top, show_text=show_text)
    emit(document, as_json, stats_text(document))


@app.command("dedup-filter")
def dedup_filter(
    inputs: Annotated[list[str], typer.Argument(metavar="INPUT...", help="Files, folders or patterns.")],
    out: Annotated[Path, typer.Option(help="File to write, NAME.bloom.")],
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Save another corpus as a Bloom filter for dedup.against. The filter is much smaller and holds no text."""
    from flows.commands.dedup_filter import filter_text, write_filter

    document = write_filter(config, os.environ, inputs, out)
    emit(document, as_json, filter_text(document))
