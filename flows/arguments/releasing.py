"""Commands about what leaves the house."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from flows.arguments.common import DEFAULT_CONFIG, ConfigArgument, JsonOption, app, emit


@app.command("verify-release")
def verify_release(
    folder: Annotated[Path, typer.Argument(help="What `reticent export model` or `dataset` wrote, or a copy of it.")],
    key: Annotated[
        str | None, typer.Option("--key", help="The fingerprint of the key, as the publisher told it.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check a released folder's files and signature, on any machine. Exit code 5 if it is not as it was signed."""
    from flows.commands.verify_release import verify_document, verify_text

    document = verify_document(folder, key)
    emit(document, as_json, verify_text(document))
    if not document["is_verified"]:
        raise typer.Exit(5)


@app.command()
def sign(
    config: ConfigArgument = DEFAULT_CONFIG,
    name: Annotated[str | None, typer.Option("--name", help="Who signs; without, only the page is written.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Write the page for the person who signs; with --name, enter name, date and digest in the ledger."""
    from flows.commands.sign import sign_document, sign_text

    document = sign_document(config, os.environ, name)
    emit(document, as_json, sign_text(document, config))
