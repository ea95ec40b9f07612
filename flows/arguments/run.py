"""Commands that set up, run, plan and compare."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from flows.arguments.common import DEFAULT_CONFIG, ConfigArgument, JsonOption, app, emit, emit_run, simulate_app
from pipelines.errors import ConfigError, PrivacyGateError, ReticentError, StoreError


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
    emit({"dialogues": dialogues, "files": [str(f) for f in files]}, as_json, f"wrote {dialogues} dialogues to {out}")


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
    from flows.commands.init import write_starter

    path = write_starter(folder, inputs or [], dialogues=dialogues, seed=seed, say=typer.echo)
    first = f"first look: reticent run {path} --sample 1%\n" if inputs else ""
    typer.echo(f"wrote {path}\n{first}next: reticent run {path}")


@app.command()
def demo(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the demo; made if missing.")] = Path(
        "reticent-demo"
    ),
    dialogues: Annotated[int, typer.Option(min=1, help="Size of the built-in corpus.")] = 200,
    as_json: JsonOption = False,
) -> None:
    """A tour: the built-in corpus, the whole job on it, and what to look at."""
    from flows.commands.demo import run_demo

    record = run_demo(folder, dialogues=dialogues, say=lambda text: None if as_json else typer.echo(text))
    if as_json:
        emit_run(record, True)


@app.command()
def run(
    config: ConfigArgument = DEFAULT_CONFIG,
    from_stage: Annotated[str | None, typer.Option("--from", help="Let this stage and all after it run.")] = None,
    only: Annotated[str | None, typer.Option(help="Let only this stage run.")] = None,
    force: Annotated[list[str] | None, typer.Option(help="Rebuild this stage even if cached; may be repeated.")] = None,
    verify: Annotated[str | None, typer.Option(help="Check cached files by 'full' hashes or by 'size'.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and stop.")] = False,
    sample: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE", help="Only show what redaction does to a share of the documents (1%); publishes nothing."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Bring everything up to date: prepare, train, state the guarantee, report. Runs only what changed."""
    from flows.commands.run import requested, run_job

    if sample is not None:
        from flows.commands.run_sample import run_sample, sample_text

        if from_stage or only or force or dry_run:
            raise ConfigError("--sample runs no stage: leave --from, --only, --force and --dry-run out")
        found = run_sample(config, sample)
        emit({"sample": found}, as_json, sample_text(found, config))
        return
    if dry_run:
        from flows.commands.plan import plan_document, plan_text
        from flows.settings import load_settings

        selected, forced = requested(from_stage, only, force or [], load_settings(config, os.environ))
        document = plan_document(
            config, os.environ, read=True, selected=selected, forced=forced, verify=verify or "size"
        )
        emit(document, as_json, plan_text(document))
        return
    try:
        record = run_job(config, from_stage=from_stage, only=only, force=force or [], verify=verify)
    except ReticentError as error:
        if as_json:
            failure = {"type": type(error).__name__, "message": str(error), "exit_code": error.exit_code}
            emit({"state": "failed", "error": failure, "stages": []}, True, "")
        raise
    emit_run(record, as_json)
    if problem := (record["mirror"] or {}).get("problem"):
        raise StoreError(problem)


@app.command()
def join(config: ConfigArgument = DEFAULT_CONFIG) -> None:
    """Take part in trainings that a run on another machine invites to (runtime.num_machines); end it with Ctrl-C."""
    from flows.commands.join import join_trainings

    join_trainings(config, os.environ, say=lambda text: print(text, flush=True))


@app.command()
def audit(
    config: ConfigArgument = DEFAULT_CONFIG,
    force: Annotated[list[str] | None, typer.Option(help="Rebuild this stage even if cached; may be repeated.")] = None,
    settle: Annotated[
        str | None, typer.Option(metavar="REASON", help="After an alarm whose cause was found: let audits count anew.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Bring everything up to date, attack the model, report what it gave away. Exit code 4 if a claim is refuted."""
    from flows.commands.audit import audit_document, audit_text, settle_alarm

    if settle is not None:
        settle_alarm(config, os.environ, settle)
        typer.echo("audits count anew from here on; the reason stands in the ledger")
        return
    document = audit_document(config, os.environ, force=force or [])
    emit(document, as_json, audit_text(document))
    if document["alarm"]:
        raise PrivacyGateError(document["alarm_reason"])


@app.command()
def synthesize(
    config: ConfigArgument = DEFAULT_CONFIG,
    rows: Annotated[int | None, typer.Option(min=1, help="Rows of the table; default: synthesize.rows.")] = None,
    force: Annotated[list[str] | None, typer.Option(help="Rebuild this stage even if cached; may be repeated.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Bring everything up to date, and let the released model write a table of text, with the model's epsilon."""
    from flows.commands.synthesize import synthesize_document, synthesize_text

    document = synthesize_document(config, os.environ, rows=rows, force=force or [])
    emit(document, as_json, synthesize_text(document))


@app.command()
def plan(config: ConfigArgument = DEFAULT_CONFIG, as_json: JsonOption = False) -> None:
    """Say what a run would do, stage by stage, and why. Reads input files that changed; runs nothing."""
    from flows.commands.plan import plan_document, plan_text

    document = plan_document(config, os.environ, read=True)
    emit(document, as_json, plan_text(document))


@app.command()
def status(config: ConfigArgument = DEFAULT_CONFIG, as_json: JsonOption = False) -> None:
    """The last run and the state of every stage. Reads no input file."""
    from flows.commands.plan import plan_document, status_text

    document = plan_document(config, os.environ, read=False)
    emit(document, as_json, status_text(document))


@app.command()
def runs(config: ConfigArgument = DEFAULT_CONFIG, as_json: JsonOption = False) -> None:
    """List the runs, newest first: when, whether finished, and what each built."""
    from flows.commands.diff import runs_document, runs_text

    document = runs_document(config, os.environ)
    emit(document, as_json, runs_text(document))


@app.command()
def diff(
    before: Annotated[str, typer.Argument(metavar="RUN", help="A run's id or its beginning, latest or previous.")],
    after: Annotated[str, typer.Argument(metavar="RUN", help="The run to compare it with.")],
    config: Annotated[Path, typer.Option("--config", "-c", help="The settings file.")] = DEFAULT_CONFIG,
    show_names: Annotated[
        bool, typer.Option("--show-names", help="Name input files, and show settings that may quote private text.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """What changed between two runs: inputs, settings, code, packages, counts, miss rate, guarantee, utility."""
    from flows.commands.diff import diff_document, diff_text

    document = diff_document(config, os.environ, before, after, show_names=show_names)
    emit(document, as_json, diff_text(document))


@app.command()
def ledger(
    config: ConfigArgument = DEFAULT_CONFIG,
    acknowledge_damage: Annotated[
        str | None,
        typer.Option(
            metavar="REASON",
            help="Begin a damaged ledger anew with what can still be known; what cannot counts as infinite epsilon.",
        ),
    ] = None,
    retired: Annotated[
        str | None,
        typer.Option(metavar="PROOF", help="Let a copy go on; the proof is what `reticent retire` printed."),
    ] = None,
    acknowledge_copy: Annotated[
        str | None,
        typer.Option(metavar="REASON", help="Enter that a copy of this store may spend as well; claims say so."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """What the published models spent together on the records that they share, and what the budget leaves."""
    from flows.commands.ledger import accept, acknowledge, acknowledge_copies, ledger_document, ledger_text

    asked = ((acknowledge_damage, acknowledge), (retired, accept), (acknowledge_copy, acknowledge_copies))
    for value, command in asked:
        if value is not None:
            document, text = command(config, os.environ, value)
            emit(document, as_json, text)
            return

    document = ledger_document(config, os.environ)
    emit(document, as_json, ledger_text(document))


@app.command()
def compare(
    configs: Annotated[list[Path] | None, typer.Argument(metavar="[CONFIG]...", help="Settings files.")] = None,
    methods: Annotated[str, typer.Option(help="Methods, with commas: crt,dpsgd,jft/light_noise.")] = "",
    repetitions: Annotated[int | None, typer.Option(min=1, help="Trainings of each method.")] = None,
    overrides: Annotated[list[str] | None, typer.Option("--set", help="table.field=value, for all.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Train with several methods on the same data, and show privacy against utility. Each counts as a release."""
    from flows.commands.compare import compare_document, compare_text

    names = [name.strip() for name in methods.split(",") if name.strip()]
    document = compare_document(
        configs or [DEFAULT_CONFIG], os.environ, methods=names, repetitions=repetitions, overrides=overrides or []
    )
    emit(document, as_json, compare_text(document))


@app.command()
def deploy(
    config: ConfigArgument = DEFAULT_CONFIG,
    cron: Annotated[str, typer.Option(help="When to run: minute, hour, day, month, weekday.")] = "0 2 * * *",
    timezone: Annotated[str, typer.Option(help="The zone that --cron is meant in, e.g. Europe/Berlin.")] = "UTC",
    pool: Annotated[str, typer.Option(help="Work pool of type process; made if missing.")] = "local-proc",
    name: Annotated[str, typer.Option(help="Name of the deployment.")] = "nightly",
    init_auth: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Only write a file with a password for server, worker and this command."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Create or update the nightly deployment on the Prefect server that PREFECT_API_URL names."""
    if init_auth is not None:
        from flows.server.credentials import init_auth as write_auth
        from flows.server.credentials import init_auth_text

        document = write_auth(init_auth, os.environ)
        emit(document, as_json, init_auth_text(document))
        return
    from flows.commands.deploy import deploy as make_deployment
    from flows.commands.deploy import deploy_text

    document = make_deployment(config, os.environ, cron=cron, timezone=timezone, pool=pool, name=name)
    emit(document, as_json, deploy_text(document, os.environ))
