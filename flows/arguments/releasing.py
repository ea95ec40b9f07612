"""Commands that check and sign what you publish."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from flows.arguments.common import DEFAULT_CONFIG, ConfigArgument, JsonOption, app, emit


@app.command("verify-release")
def verify_release(
    folder: Annotated[
        Path, typer.Argument(help="Folder that `reticent export` wrote for a model or dataset, or a copy.")
    ],
    key: Annotated[
        str | None, typer.Option("--key", help="Fingerprint of the publisher's key, as you got it from the publisher.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check a released folder's files and signature. Works on any machine. Exit code 5 if they were changed."""
    from flows.commands.verify_release import verify_document, verify_text

    document = verify_document(folder, key)
    emit(document, as_json, verify_text(document))
    if not document["is_verified"]:
        raise typer.Exit(5)


@app.command()
def sign(
    config: ConfigArgument = DEFAULT_CONFIG,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the person who signs. Without it, only the page is written.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write the page to sign. With --name, also enter the name, the date and the page's digest in the ledger."""
    from flows.commands.sign import sign_document, sign_text

    document = sign_document(config, os.environ, name)
    emit(document, as_json, sign_text(document, config))
