"""The command line's application, the options that several commands share, and functions that print answers."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.arguments.groups import Commands
from flows.printing import steer
from flows.verbosity import set_verbosity

app = typer.Typer(
    name="reticent",
    cls=Commands,
    context_settings={"max_content_width": 120},
    help="Train language models on text that holds secrets, and limit what the models learn of them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
simulate_app = typer.Typer(cls=Commands, help="Make a synthetic corpus with known secrets.", no_args_is_help=True)
app.add_typer(simulate_app, name="simulate")
privacy_app = typer.Typer(cls=Commands, help="Compute epsilon, noise and credit for redaction.", no_args_is_help=True)
app.add_typer(privacy_app, name="privacy")


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"reticent {version('reticent')}")
        raise typer.Exit


@app.callback()
def every_command(
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print answers and errors only, no progress and no warnings.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print progress line by line, and Prefect's log.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options of every command. You may also give them after the command."""

    set_verbosity(os.environ, quiet=quiet, verbose=verbose)


ConfigArgument = Annotated[Path, typer.Argument(help="The settings file (TOML); also as -c FILE.", show_default=True)]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document (the last line of the output).")]
ConfigOption = Annotated[Path, typer.Option("--config", "-c", help="The settings file (TOML).")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")]
ForceOption = Annotated[list[str] | None, typer.Option(help="Rebuild this stage even if cached; repeat for several.")]
DEFAULT_CONFIG = Path("reticent.toml")
RelationOption = Annotated[
    str,
    typer.Option(
        help="Neighbours: add_or_remove_one (Opacus, most papers), or replace_one (selective DP, confidentiality)."
    ),
]
StepsOption = Annotated[int, typer.Option(help="Number of noisy steps.")]
SampleRateOption = Annotated[float, typer.Option(help="Probability with which a record enters a step.")]


def emit(document: dict[str, Any], as_json: bool, text: str, *, has_colours: bool = False) -> None:
    """Prints a document for programs as one line, or a text for people.

    Args:
        document: answer for programs
        as_json: true to print the document, false to print the text
        text: answer for people
        has_colours: true if the text is coloured. Text that it quotes must then have passed `printable`.
    """
    if as_json:
        typer.echo(json.dumps({"schema_version": 1, **document}, ensure_ascii=False))
    elif has_colours:
        steer(sys.stdout, f"{text}\n")
    else:
        typer.echo(text)


def emit_run(record: dict[str, Any], as_json: bool, config: Path) -> None:
    """Prints a run's record, and for people the commands to go on with."""
    from flows.commands.conclusion import next_commands
    from flows.commands.plan import run_text

    document = {k: v for k, v in record.items() if k != "artifacts"}
    emit(document, as_json, "\n".join([run_text(record), "", "next:", *next_commands(record, config)]))
