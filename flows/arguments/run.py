"""Commands that set up, run, plan and compare."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from flows.arguments.common import (
    DEFAULT_CONFIG,
    ConfigArgument,
    ConfigOption,
    ForceOption,
    JsonOption,
    app,
    emit,
    emit_run,
    simulate_app,
)
from pipelines.errors import ConfigError, PrivacyGateError, ReticentError, StoreError


@simulate_app.command("customersim")
def simulate_customersim(
    dialogues: Annotated[int, typer.Option(min=1, help="Number of dialogues.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed. Dialogue i depends on the seed and on i only.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder to write dialogues-*.jsonl into.")] = Path("corpus"),
    template_set: Annotated[str, typer.Option(help="A, or B (other wordings and value formats).")] = "A",
    dialogues_per_customer: Annotated[
        float | None,
        typer.Option(
            min=1,
            help="Mean number of dialogues of a customer; a few have very many. Each dialogue then names its "
            "customer_id, for corpus.owner_field.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write customer-service dialogues after CustomerSim, with gold spans for every secret."""
    from pipelines.corpus.customersim import write_customersim

    files = write_customersim(
        out, dialogues, seed, template_set=template_set.upper(), dialogues_per_customer=dialogues_per_customer
    )
    emit({"dialogues": dialogues, "files": [str(f) for f in files]}, as_json, f"wrote {dialogues} dialogues to {out}")


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder for reticent.toml; created if missing.")],
    inputs: Annotated[
        list[str] | None, typer.Option("--input", help="Your own file, folder or pattern; repeat for several.")
    ] = None,
    dialogues: Annotated[
        int, typer.Option(min=1, help="Dialogues in the built-in corpus, if you give no --input.")
    ] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the built-in corpus.")] = 0,
    yes: Annotated[
        bool, typer.Option("--yes", help="Take the first reading of files that could be read in several ways.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Write a commented, runnable reticent.toml. By default it uses a built-in CustomerSim corpus."""
    from flows.commands.init import write_starter
    from flows.commands.survey import Decide, Survey, take_best

    def say(text: str) -> None:
        typer.echo(text, err=as_json)

    found: list[Survey] = []
    chosen: Decide = take_best
    if inputs:
        from flows.commands.decisions import ask, refuse, take

        is_terminal = sys.stdin.isatty() and sys.stdout.isatty() and not as_json
        chosen = take(say) if yes else ask(say, typer.prompt) if is_terminal else refuse
    path = write_starter(
        folder, inputs or [], dialogues=dialogues, seed=seed, say=say, decide=chosen, keep=found.append
    )
    first = f"first look: reticent run {path} --sample 1%\n" if inputs else ""
    document = found[0].document() if found else {"sources": [], "not_read": [], "warnings": []}
    emit(document, as_json, f"wrote {path}\n{first}next: reticent run {path}")


@app.command()
def demo(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the demo; created if missing.")] = Path(
        "reticent-demo"
    ),
    dialogues: Annotated[int, typer.Option(min=1, help="Dialogues in the built-in corpus.")] = 200,
    as_json: JsonOption = False,
) -> None:
    """Take a tour of the whole job on a built-in corpus. Says what to look at afterwards."""
    from flows.commands.demo import run_demo

    record = run_demo(folder, dialogues=dialogues, say=lambda text: None if as_json else typer.echo(text))
    if as_json:
        emit_run(record, True, folder)


@app.command()
def run(
    config: ConfigArgument = DEFAULT_CONFIG,
    from_stage: Annotated[str | None, typer.Option("--from", help="Run only this stage and all later ones.")] = None,
    only: Annotated[str | None, typer.Option(help="Run only this stage.")] = None,
    force: ForceOption = None,
    verify: Annotated[str | None, typer.Option(help="Check cached files by 'full' hashes or by 'size'.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and stop.")] = False,
    sample: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Only show what redaction does to a share of the documents, such as 1% (at least 50). Publishes "
            "nothing.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Bring everything up to date, and run only what changed. Prepares, trains, states the guarantee and reports."""
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
        from pipelines.settings.loading import load_settings

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
    emit_run(record, as_json, config)
    if problem := (record["mirror"] or {}).get("problem"):
        raise StoreError(problem)


@app.command()
def join(config: ConfigArgument = DEFAULT_CONFIG) -> None:
    """Join trainings that a run on another machine starts. Needs runtime.num_machines. Ends with Ctrl-C."""
    from flows.commands.join import join_trainings

    join_trainings(config, os.environ, say=lambda text: print(text, flush=True))


@app.command()
def audit(
    config: ConfigArgument = DEFAULT_CONFIG,
    force: ForceOption = None,
    settle: Annotated[
        str | None,
        typer.Option(metavar="REASON", help="Restart the count of audits, after you found the cause of an alarm."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Attack the model, and report what it leaked. Brings all up to date first. Exit code 4 if a claim is refuted."""
    from flows.commands.audit import audit_document, audit_text, settle_alarm

    if settle is not None:
        settle_alarm(config, os.environ, settle)
        typer.echo("the count of audits starts again; the ledger keeps the reason")
        return
    document = audit_document(config, os.environ, force=force or [])
    emit(document, as_json, audit_text(document))
    if document["alarm"]:
        raise PrivacyGateError(document["alarm_reason"])


@app.command()
def synthesize(
    config: ConfigArgument = DEFAULT_CONFIG,
    rows: Annotated[int | None, typer.Option(min=1, help="Rows of the table; default: synthesize.rows.")] = None,
    force: ForceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let the released model write a table of text. Brings all up to date first. The model's epsilon covers it."""
    from flows.commands.synthesize import synthesize_document, synthesize_text

    document = synthesize_document(config, os.environ, rows=rows, force=force or [])
    emit(document, as_json, synthesize_text(document))


@app.command()
def plan(config: ConfigArgument = DEFAULT_CONFIG, as_json: JsonOption = False) -> None:
    """Say what a run would do, stage by stage, and why. Reads input files that changed, but runs nothing."""
    from flows.commands.plan import plan_document, plan_text

    document = plan_document(config, os.environ, read=True)
    emit(document, as_json, plan_text(document))


@app.command()
def status(config: ConfigArgument = DEFAULT_CONFIG, as_json: JsonOption = False) -> None:
    """Show the last run and the state of every stage. Reads no input file."""
    from flows.commands.plan import plan_document, status_text

    document = plan_document(config, os.environ, read=False)
    emit(document, as_json, status_text(document))


@app.command()
def runs(config: ConfigArgument = DEFAULT_CONFIG, as_json: JsonOption = False) -> None:
    """List the runs, newest first. Shows time, state and the stages that each run built."""
    from flows.commands.diff import runs_document, runs_text

    document = runs_document(config, os.environ)
    emit(document, as_json, runs_text(document))


@app.command()
def diff(
    before: Annotated[str, typer.Argument(metavar="RUN", help="A run's id or the start of one, latest or previous.")],
    after: Annotated[str, typer.Argument(metavar="RUN", help="The later run.")],
    config: ConfigOption = DEFAULT_CONFIG,
    show_names: Annotated[
        bool, typer.Option("--show-names", help="Name input files, and show settings that may quote private text.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what changed between two runs. Compares inputs, settings, code, packages, figures and claims."""
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
            help="Restart a damaged ledger from what can still be read. What cannot counts as infinite epsilon.",
        ),
    ] = None,
    retired: Annotated[
        str | None,
        typer.Option(metavar="PROOF", help="Let this copy of a store train, with the proof from `reticent retire`."),
    ] = None,
    acknowledge_copy: Annotated[
        str | None,
        typer.Option(metavar="REASON", help="Record that a copy of this store may spend budget too. Claims say so."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show what the published models spent together. Also shows what is left of the budget for shared records."""
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
    methods: Annotated[str, typer.Option(help="Methods, separated by commas: crt,dpsgd,jft/light_noise.")] = "",
    repetitions: Annotated[int | None, typer.Option(min=1, help="Number of trainings of each method.")] = None,
    overrides: Annotated[list[str] | None, typer.Option("--set", help="table.field=value, for every training.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare methods on the same data: privacy against utility. Trains with each method. Each model is a release."""
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
    timezone: Annotated[str, typer.Option(help="Time zone of --cron, e.g. Europe/Berlin.")] = "UTC",
    pool: Annotated[str, typer.Option(help="Work pool of type process; created if missing.")] = "local-proc",
    name: Annotated[str, typer.Option(help="Name of the deployment.")] = "nightly",
    notify: Annotated[
        str | None,
        typer.Option(
            metavar="BLOCK", help="Tell of failed and refused runs: a notification block, e.g. slack-webhook/nightly."
        ),
    ] = None,
    init_auth: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Only write a file with a password for the server, the worker and this command."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Create or update the nightly deployment. PREFECT_API_URL names its Prefect server."""
    if init_auth is not None:
        from flows.server.credentials import init_auth as write_auth
        from flows.server.credentials import init_auth_text

        document = write_auth(init_auth, os.environ)
        emit(document, as_json, init_auth_text(document))
        return
    from flows.commands.deploy import deploy as make_deployment
    from flows.commands.deploy import deploy_text

    document = make_deployment(config, os.environ, cron=cron, timezone=timezone, pool=pool, name=name, notify=notify)
    emit(document, as_json, deploy_text(document, os.environ))
