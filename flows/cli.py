"""The console script ``reticent``. Everything heavy is imported by the command that needs it."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from pipelines.errors import ReticentError

app = typer.Typer(
    name="reticent",
    help="Train language models on text that holds secrets, without the models learning them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)
simulate_app = typer.Typer(help="Make a synthetic corpus with known secrets.", no_args_is_help=True)
app.add_typer(simulate_app, name="simulate")

ConfigArgument = Annotated[Path, typer.Argument(help="The settings file (TOML).", show_default=True)]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document (the last line of the output).")]
DEFAULT_CONFIG = Path("reticent.toml")


@simulate_app.command("customersim")
def simulate_customersim(
    dialogues: Annotated[int, typer.Option(min=1, help="How many dialogues.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed; dialogue i depends on it and on i only.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder to write dialogues-*.jsonl into.")] = Path("corpus"),
    template_set: Annotated[str, typer.Option(help="A, or B (other wordings and value formats).")] = "A",
    as_json: JsonOption = False,
) -> None:
    """Customer-service dialogues after CustomerSim, with gold spans for every secret."""
    from pipelines.corpus.customersim import write_customersim

    files = write_customersim(out, dialogues, seed, template_set=template_set.upper())
    _emit({"dialogues": dialogues, "files": [str(f) for f in files]}, as_json, f"wrote {dialogues} dialogues to {out}")


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder for reticent.toml; made if missing.")],
    inputs: Annotated[
        list[str] | None, typer.Option("--input", help="Your own file, folder or pattern; may be repeated.")
    ] = None,
    dialogues: Annotated[int, typer.Option(min=1, help="Size of the built-in corpus, without --input.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the built-in corpus.")] = 0,
) -> None:
    """Write a commented, runnable reticent.toml, by default with a built-in CustomerSim corpus."""
    from flows.starter import write_starter

    path = write_starter(folder, inputs or [], dialogues=dialogues, seed=seed)
    typer.echo(f"wrote {path}\nnext: reticent run {path}")


@app.command()
def run(
    config: ConfigArgument = DEFAULT_CONFIG,
    from_stage: Annotated[str | None, typer.Option("--from", help="Let this stage and all after it run.")] = None,
    only: Annotated[str | None, typer.Option(help="Let only this stage run.")] = None,
    force: Annotated[list[str] | None, typer.Option(help="Rebuild this stage even if cached; may be repeated.")] = None,
    verify: Annotated[str | None, typer.Option(help="Check cached files by 'full' hashes or by 'size'.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and stop.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Bring everything up to date: prepare, train, state the guarantee, report. Runs only what changed."""
    from flows.running import run_job

    if dry_run:
        plan(config, as_json)
        return
    record = run_job(config, from_stage=from_stage, only=only, force=force or [], verify=verify)
    _emit_run(record, as_json)


@app.command()
def plan(config: ConfigArgument = DEFAULT_CONFIG, as_json: JsonOption = False) -> None:
    """Say what a run would do, stage by stage, and why. Reads input files that changed; runs nothing."""
    from flows.planning import plan_document, plan_text

    document = plan_document(config, os.environ, read=True)
    _emit(document, as_json, plan_text(document))


@app.command()
def status(config: ConfigArgument = DEFAULT_CONFIG, as_json: JsonOption = False) -> None:
    """The last run and the state of every stage. Reads no input file."""
    from flows.planning import plan_document, status_text

    document = plan_document(config, os.environ, read=False)
    _emit(document, as_json, status_text(document))


@app.command()
def inspect(
    table: Annotated[str, typer.Argument(metavar="STAGE", help="A stage or one of its tables, e.g. redact.")],
    config: Annotated[Path, typer.Option("--config", "-c", help="The settings file.")] = DEFAULT_CONFIG,
    rows: Annotated[int, typer.Option(min=0, help="Rows of the sample.")] = 5,
    show_text: Annotated[bool, typer.Option("--show-text", help="Also print columns that hold secrets.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Where a stage's tables are, how to read them in polars, their schema, and a sample without secrets."""
    from flows.inspecting import inspect_document, inspect_text

    document = inspect_document(config, os.environ, table, rows=rows, show_text=show_text)
    _emit(document, as_json, inspect_text(document))


@app.command()
def verify(
    config: ConfigArgument = DEFAULT_CONFIG,
    repair: Annotated[
        bool, typer.Option("--repair", help="Quarantine what is damaged; the next run rebuilds it.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare every artifact with its manifest, byte by byte. Exit code 5 if one is damaged and not repaired."""
    from flows.settings import load_settings
    from flows.spec import open_store
    from pipelines.store.maintenance import verify as verify_store

    checked = verify_store(open_store(load_settings(config, os.environ)), repair=repair)
    damaged = [{"stage": c.stage, "key": c.key, "problem": c.problem} for c in checked if c.problem]
    lines = [f"{d['stage']} {str(d['key'])[:12]}: {d['problem']}" for d in damaged]
    told = "\n".join([*lines, f"{len(checked)} artifacts checked, {len(damaged)} damaged"])
    _emit({"num_checked": len(checked), "damaged": damaged, "repaired": repair}, as_json, told)
    if damaged and not repair:
        raise typer.Exit(5)


@app.command()
def gc(
    config: ConfigArgument = DEFAULT_CONFIG,
    keep_runs: Annotated[int, typer.Option(min=1, help="Newest runs whose artifacts stay.")] = 3,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Remove artifacts that no recent run used, old unfinished work, and quarantine."""
    from flows.settings import load_settings
    from flows.spec import open_store
    from pipelines.store.maintenance import gc as collect

    done = collect(open_store(load_settings(config, os.environ)), keep_runs=keep_runs, dry_run=dry_run)
    verb = "would remove" if dry_run else "removed"
    told = f"{verb} {done['num_objects']} folders, {done['num_bytes'] / 1e6:.1f} MB; kept {done['num_kept']} artifacts"
    _emit({**done, "dry_run": dry_run}, as_json, told)


@app.command()
def adopt(
    stage: Annotated[str, typer.Argument(help="The stage, e.g. train.")],
    key: Annotated[str, typer.Argument(help="Key of the artifact to keep, or its first 8 or more characters.")],
    config: Annotated[Path, typer.Option("--config", "-c", help="The settings file.")] = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Keep an expensive artifact although its code changed; lineage records it."""
    from flows.planning import open_planning
    from pipelines.store.maintenance import adopt as adopt_artifact

    session = open_planning(config, os.environ)
    new = adopt_artifact(session, stage, key)
    _emit(
        {"stage": stage, "key": new, "adopted_from": key}, as_json, f"{stage} {key[:12]} now also counts as {new[:12]}"
    )


@app.command()
def report(config: ConfigArgument = DEFAULT_CONFIG, as_json: JsonOption = False) -> None:
    """Print the last run's figures and where its report is."""
    from flows.planning import last_run, run_text

    record = last_run(config, os.environ)
    _emit(record, as_json, run_text(record))


def _emit(document: dict[str, Any], as_json: bool, text: str) -> None:
    if as_json:
        typer.echo(json.dumps({"schema_version": 1, **document}, ensure_ascii=False))
    else:
        typer.echo(text)


def _emit_run(record: dict[str, Any], as_json: bool) -> None:
    from flows.planning import run_text

    document = {k: v for k, v in record.items() if k != "artifacts"}
    _emit(document, as_json, run_text(record))


def _quiet_defaults() -> None:
    """No telemetry, no hub look-ups, no chatter; each can be set otherwise in the environment."""
    for name, value in {
        "DO_NOT_TRACK": "1",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_LOGGING_LEVEL": "CRITICAL",
        "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",  # the embedded server prints its cancelled tasks when it stops
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "PYDANTIC_DISABLE_PLUGINS": "__all__",  # looking for them reads every installed package's metadata
    }.items():
        os.environ.setdefault(name, value)


def main() -> NoReturn:
    """Runs the command line and exits.

    Exit codes: 0 ok, 2 usage or settings, 3 input, 4 privacy gate, 5 failed, 130 interrupted.
    """
    _quiet_defaults()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        result = app(standalone_mode=False)  # an exit code where a command asked for one
        code = result if isinstance(result, int) else 0
    except typer.Exit as stop:
        code = stop.exit_code
    except ReticentError as error:
        print(f"reticent: {error}", file=sys.stderr)
        code = error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        print("reticent: interrupted; what was finished is kept, run again to go on", file=sys.stderr)
        code = 130
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 5
    except Exception as error:
        code = _unexpected(error)
    sys.stdout.flush()
    sys.exit(code)


def _unexpected(error: Exception) -> int:
    if hasattr(error, "format_message") and hasattr(
        error, "show"
    ):  # click's usage errors; typer may bring its own click
        error.show()
        return 2
    if os.environ.get("RETICENT_DEBUG") == "1":
        raise error
    # The message may quote private text, so only the type and the place are told.
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace else "unknown place"
    print(
        f"reticent: unexpected {type(error).__name__} at {where}; set RETICENT_DEBUG=1 for the traceback, "
        "which may quote private text",
        file=sys.stderr,
    )
    return 5


if __name__ == "__main__":
    main()
