"""Commands that check, clean and move the store."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from flows.arguments.common import DEFAULT_CONFIG, ConfigArgument, ConfigOption, DryRunOption, JsonOption, app, emit
from pipelines.errors import ConfigError


@app.command()
def verify(
    config: ConfigArgument = DEFAULT_CONFIG,
    repair: Annotated[
        bool, typer.Option("--repair", help="Quarantine damaged artifacts. The next run rebuilds them.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check that no stored file was damaged or changed. Reads every artifact, byte by byte, the ledger and all records.

    Exit code 4 if the privacy ledger is damaged, 5 if anything else is damaged and not repaired.
    """
    from flows.running.spec import open_store
    from pipelines.settings.loading import load_settings
    from pipelines.store.upkeep.maintenance import DOCUMENTS, LEDGER
    from pipelines.store.upkeep.maintenance import verify as verify_store

    checked = verify_store(open_store(load_settings(config, os.environ), create=repair), repair=repair)
    damaged = [{"stage": c.stage, "key": c.key, "problem": c.problem} for c in checked if c.problem]
    lines = [f"{d['stage']} {str(d['key'])[:12]}: {d['problem']}" for d in damaged]
    text = "\n".join([*lines, f"{len(checked)} artifacts checked, {len(damaged)} damaged"])
    emit({"num_checked": len(checked), "damaged": damaged, "repaired": repair}, as_json, text)
    kinds = {d["stage"] for d in damaged}
    if LEDGER in kinds:
        raise typer.Exit(4)
    if DOCUMENTS in kinds or (damaged and not repair):
        raise typer.Exit(5)


@app.command()
def gc(
    config: ConfigArgument = DEFAULT_CONFIG,
    keep_runs: Annotated[int, typer.Option(min=1, help="Number of newest runs whose artifacts stay.")] = 3,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Remove artifacts that no recent run used. Also removes quarantine, `run --sample` examples and old failures."""
    from flows.running.spec import open_store
    from pipelines.settings.loading import load_settings
    from pipelines.store.upkeep.maintenance import gc as collect

    done = collect(open_store(load_settings(config, os.environ)), keep_runs=keep_runs, dry_run=dry_run)
    verb = "would remove" if dry_run else "removed"
    text = f"{verb} {done['num_objects']} folders, {done['num_bytes'] / 1e6:.1f} MB; kept {done['num_kept']} artifacts"
    emit({**done, "dry_run": dry_run}, as_json, text)


@app.command()
def adopt(
    stage: Annotated[str, typer.Argument(help="The stage, e.g. train.")],
    key: Annotated[str, typer.Argument(help="Key of the artifact to keep, or its first 8 or more characters.")],
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Keep an expensive artifact although its code changed. The lineage records this."""
    from flows.commands.plan import open_planning
    from pipelines.store.upkeep.maintenance import adopt as adopt_artifact

    session = open_planning(config, os.environ)
    new = adopt_artifact(session, stage, key)
    emit(
        {"stage": stage, "key": new, "adopted_from": key}, as_json, f"{stage} {key[:12]} now also counts as {new[:12]}"
    )


@app.command()
def forget(
    names: Annotated[list[str], typer.Argument(metavar="DOC...", help="A file of the corpus, FILE:ID, or an id.")],
    config: ConfigOption = DEFAULT_CONFIG,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Remove documents from the store and from later runs. Names the models that trained on them."""
    from flows.commands.forget import forget_document, forget_text

    document = forget_document(config, os.environ, names, dry_run=dry_run)
    emit(document, as_json, forget_text(document))


@app.command()
def retire(config: ConfigArgument = DEFAULT_CONFIG, as_json: JsonOption = False) -> None:
    """Stop this store from training, because a copy goes on. Prints the proof that the copy needs."""
    from flows.running.spec import open_store
    from pipelines.settings.loading import load_settings
    from pipelines.store.ledger.relocation import retire as retire_store

    done = retire_store(open_store(load_settings(config, os.environ)))
    text = (
        "this store trains no more. A copy that you make from now on can train at once. For an earlier copy, run "
        f"`reticent ledger --retired {done['proof']}`"
    )
    emit(done, as_json, text)


@app.command()
def mirror(config: ConfigArgument = DEFAULT_CONFIG, as_json: JsonOption = False) -> None:
    """Copy the published files to `store.mirror_url`. Removes other files there. Every run ends with this."""
    from flows.commands.mirror import mirror_document, mirror_text
    from flows.running.progress import Console

    console = Console()
    document = mirror_document(config, os.environ, console.copying)
    console.close()
    emit(document, as_json, mirror_text(document))


@app.command()
def export(
    name: Annotated[
        str,
        typer.Argument(
            help="model or dataset, for the published one, signed. Or private files: a table or stage, report, "
            "private_model, or a path below the private root."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="File or folder to create.")],
    config: ConfigOption = DEFAULT_CONFIG,
    licence: Annotated[
        str | None, typer.Option("--license", help="License for the card of a model or dataset, e.g. apache-2.0.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write the published model or tables as a signed folder. Adds a card. Also copies private files, unencrypted."""
    from flows.commands.export import export_document, export_text
    from flows.commands.export_release import KINDS, release_document, release_text

    if name in KINDS:
        released = release_document(config, os.environ, name, out, licence=licence)
        emit(released, as_json, release_text(released))
        return
    if licence is not None:
        raise ConfigError("--license is for the cards of model and dataset; private files have none")
    document = export_document(config, os.environ, name, out)
    emit(document, as_json, export_text(document))


@app.command()
def rotate_key(
    config: ConfigArgument = DEFAULT_CONFIG,
    new_key_file: Annotated[
        Path | None, typer.Option("--new-key-file", help="File that holds the new store key.")
    ] = None,
    new_key_env: Annotated[
        str | None, typer.Option("--new-key-env", help="Environment variable that holds the new store key.")
    ] = None,
    reencrypt: Annotated[
        bool, typer.Option("--reencrypt", help="Also encrypt every file again, not only the files' keys.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Give an encrypted store another key. Name the new key in the settings afterwards."""
    from flows.commands.rotate_key import rotate_document, rotate_text

    document = rotate_document(config, os.environ, file=new_key_file, env=new_key_env, reencrypt=reencrypt)
    emit(document, as_json, rotate_text(document))


@app.command()
def doctor(config: ConfigArgument = DEFAULT_CONFIG, as_json: JsonOption = False) -> None:
    """Check the installation. Tries packages, settings, input, store, disk and server. Exit code 5 if one fails."""
    from flows.commands.doctor import doctor_document, doctor_text

    document = doctor_document(config, os.environ)
    emit(document, as_json, doctor_text(document))
    if document["num_failed"]:
        raise typer.Exit(5)


@app.command()
def metrics(
    config: ConfigArgument = DEFAULT_CONFIG,
    out: Annotated[
        Path | None, typer.Option(help="Write this file in one step, for node_exporter's textfile collector.")
    ] = None,
) -> None:
    """Print the last run in Prometheus's text format. Lists figures, times and states."""
    from flows.commands.metrics import metrics_text, write_metrics

    text = metrics_text(config, os.environ)
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_metrics(text, out)
