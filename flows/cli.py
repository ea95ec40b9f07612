"""The console script ``reticent``. Everything heavy is imported by the command that needs it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from flows.signals import INTERRUPTED, TERMINATED, Terminated, install
from pipelines.errors import ReticentError, StoreError

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
privacy_app = typer.Typer(help="What a training costs: epsilon, noise, and credit for redaction.", no_args_is_help=True)
app.add_typer(privacy_app, name="privacy")

ConfigArgument = Annotated[Path, typer.Argument(help="The settings file (TOML).", show_default=True)]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document (the last line of the output).")]
DEFAULT_CONFIG = Path("reticent.toml")
RelationOption = Annotated[
    str, typer.Option(help="Neighbours: add_or_remove_one, or replace_one (selective DP, confidentiality).")
]
StepsOption = Annotated[int, typer.Option(help="Number of noisy steps.")]
SampleRateOption = Annotated[float, typer.Option(help="Probability with which a record enters a step.")]


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
    from flows.running import requested, run_job

    if dry_run:
        from flows.planning import plan_document, plan_text

        selected, forced = requested(from_stage, only, force or [])
        document = plan_document(
            config, os.environ, read=True, selected=selected, forced=forced, verify=verify or "size"
        )
        _emit(document, as_json, plan_text(document))
        return
    try:
        record = run_job(config, from_stage=from_stage, only=only, force=force or [], verify=verify)
    except ReticentError as error:
        if as_json:
            failure = {"type": type(error).__name__, "message": str(error), "exit_code": error.exit_code}
            _emit({"state": "failed", "error": failure, "stages": []}, True, "")
        raise
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


@app.command("dedup-stats")
def dedup_stats(
    config: ConfigArgument = DEFAULT_CONFIG,
    top: Annotated[int, typer.Option(min=0, help="How many of the most frequent duplicates to list.")] = 10,
    show_text: Annotated[bool, typer.Option("--show-text", help="Also print their texts, which are private.")] = False,
    as_json: JsonOption = False,
) -> None:
    """How much of the corpus repeats, what repeats most, and the Bloom filter's expected and verified errors."""
    from flows.dedup_stats import stats_document, stats_text

    document = stats_document(config, os.environ, top=top, show_text=show_text)
    _emit(document, as_json, stats_text(document))


@app.command("dedup-filter")
def dedup_filter(
    inputs: Annotated[list[str], typer.Argument(metavar="INPUT...", help="Files, folders or patterns.")],
    out: Annotated[Path, typer.Option(help="The file to write, NAME.bloom.")],
    config: Annotated[Path, typer.Option("--config", "-c", help="The settings file.")] = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Save another corpus as a Bloom filter for dedup.against: a fraction of the size, and no text in it."""
    from flows.dedup_filter import filter_text, write_filter

    document = write_filter(config, os.environ, inputs, out)
    _emit(document, as_json, filter_text(document))


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
    """Remove artifacts that no recent run used, quarantine, and old records of unfinished or failed work."""
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
def sample(
    config: ConfigArgument = DEFAULT_CONFIG,
    plan: Annotated[bool, typer.Option("--plan", help="Only say how much to review; draws nothing.")] = False,
    target: Annotated[str, typer.Option(help="With --plan: gamma, miss_rate or delta2.")] = "gamma",
    bound: Annotated[float, typer.Option(help="With --plan: the upper bound to reach.")] = 0.005,
    confidence: Annotated[float, typer.Option(help="With --plan: confidence of the bound.")] = 0.95,
    expected_rate: Annotated[float, typer.Option(help="With --plan: the rate that you expect.")] = 0.0,
    assurance: Annotated[
        float, typer.Option(help="With --plan: probability of reaching the bound if the rate is as expected.")
    ] = 0.8,
    design_effect: Annotated[
        float | None,
        typer.Option(help="With --plan: clustered units worth one independent one; by default as measured."),
    ] = None,
    units_per_sentence: Annotated[
        float | None, typer.Option(help="With --plan: secrets (tokens for m) in a sentence; by default as measured.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Draw the sentences to review and show the design; with --plan, say how many a bound needs."""
    from flows.sampling import plan_document, plan_text, sample_document, sample_text

    if not plan:
        document = sample_document(config, os.environ)
        _emit(document, as_json, sample_text(document))
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
    _emit(document, as_json, plan_text(document))


@app.command()
def review(
    config: ConfigArgument = DEFAULT_CONFIG,
    reviewer: Annotated[str | None, typer.Option(help="Your name; by default the name you are logged in with.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port on 127.0.0.1; 0 takes a free one.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in the default browser.")] = True,
    screening: Annotated[bool, typer.Option("--screening", help="Review JFT's manual-screening set instead.")] = False,
    adjudicate: Annotated[bool, typer.Option("--adjudicate", help="Decide where reviewers disagree.")] = False,
    overlap: Annotated[float, typer.Option(help="Share of the sentences that every reviewer judges.")] = 1.0,
    status: Annotated[
        bool, typer.Option("--status", help="Only say how far the review is, and Cohen's kappa.")
    ] = False,
    export: Annotated[
        Path | None, typer.Option(help="Write sentences and reviews to this file (it holds secrets).")
    ] = None,
    import_file: Annotated[Path | None, typer.Option("--import", help="Add the reviews of this file.")] = None,
    file_format: Annotated[str, typer.Option("--format", help="jsonl, csv or label-studio.")] = "jsonl",
    as_json: JsonOption = False,
) -> None:
    """Mark what the redaction missed, in a page on this machine that only you can open."""
    import getpass

    from flows import reviewing

    name = reviewer or getpass.getuser()
    if status:
        document = reviewing.status_document(config, os.environ, screening=screening)
        _emit(document, as_json, reviewing.status_text(document))
    elif export is not None:
        document = reviewing.export_document(config, os.environ, export, file_format, screening=screening)
        told = f"wrote {document['num_sentences']:,} sentences with {document['num_reviews']:,} reviews to {export}"
        _emit(document, as_json, f"{told}\nthe file holds secrets: keep it where the corpus is kept")
    elif import_file is not None:
        document = reviewing.import_document(config, os.environ, import_file, file_format, name, screening=screening)
        _emit(document, as_json, f"added {document['num_reviews']:,} reviews")
    else:
        from flows.console import announce_page

        document = reviewing.serve(
            config,
            os.environ,
            reviewer=name,
            port=port,
            screening=screening,
            adjudicate=adjudicate,
            overlap=overlap,
            announce=lambda url, count: announce_page(url, count, open_browser=browser),
        )
        _emit(document, as_json, reviewing.status_text(document))


@app.command()
def estimate(
    config: ConfigArgument = DEFAULT_CONFIG,
    counts: Annotated[
        Path | None, typer.Option(help="Instead of a corpus: a CSV file with columns missed,total, a row a replicate.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="With --counts: confidence of the intervals.")] = 0.95,
    as_json: JsonOption = False,
) -> None:
    """What the redaction missed, from reviews or gold labels, or from plain counts: estimates and intervals."""
    from flows.estimating import counts_document, counts_text, estimate_document, estimate_text

    if counts is not None:
        document = counts_document(counts, confidence)
        _emit(document, as_json, counts_text(document))
        return
    document = estimate_document(config, os.environ)
    _emit(document, as_json, estimate_text(document))


@app.command()
def report(config: ConfigArgument = DEFAULT_CONFIG, as_json: JsonOption = False) -> None:
    """Print the last run's figures and where its report is."""
    from flows.planning import last_run, run_text

    record = last_run(config, os.environ)
    _emit(record, as_json, run_text(record))


@app.command()
def show(
    table: Annotated[str, typer.Argument(help="redacted, private or public.")] = "redacted",
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

    from flows.showing import show_document, show_text_page, use_colour

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
    _emit(document, as_json, show_text_page(document, colour=colour, width=get_terminal_size().columns))


@app.command()
def runs(config: ConfigArgument = DEFAULT_CONFIG, as_json: JsonOption = False) -> None:
    """List the runs, newest first: when, whether finished, and what each built."""
    from flows.diffing import runs_document, runs_text

    document = runs_document(config, os.environ)
    _emit(document, as_json, runs_text(document))


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
    from flows.diffing import diff_document, diff_text

    document = diff_document(config, os.environ, before, after, show_names=show_names)
    _emit(document, as_json, diff_text(document))


PolicyOption = Annotated[
    list[str], typer.Option("--policy", "-p", help="Policies, separated by commas; their union is taken.")
]
ModelOption = Annotated[str | None, typer.Option(help="An installed spaCy model; default en_core_web_sm.")]
LanguageOption = Annotated[str | None, typer.Option(help="Language code of the text; default en.")]
PatternOption = Annotated[
    list[str] | None, typer.Option("--pattern", help="LABEL=REGEX for the policy regex; may be repeated.")
]
NamesOption = Annotated[Path | None, typer.Option("--names", help="File of names, one a line, for the policy names.")]
KeywordsOption = Annotated[
    Path | None, typer.Option("--keywords", help="JSON file {DOMAIN: [keyword]} for the policy keywords.")
]
ClassifierOption = Annotated[Path | None, typer.Option(help="Folder of a trained classifier, for that policy.")]
WorkersOption = Annotated[int, typer.Option(min=1, max=256, help="Worker processes.")]
AnyLanguageOption = Annotated[bool, typer.Option("--any-language", help="Do not refuse text in another language.")]


@app.command()
def redact(
    policy: PolicyOption,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Lines of text, or JSON lines with text; - is stdin.")
    ] = "-",
    model: ModelOption = None,
    language: LanguageOption = None,
    conservative: Annotated[str | None, typer.Option(help="Also say what this policy would keep private.")] = None,
    pattern: PatternOption = None,
    names: NamesOption = None,
    keywords: KeywordsOption = None,
    classifier: ClassifierOption = None,
    rendering: Annotated[
        str, typer.Option(help="collapsed, tokens, jft or jft-typed: how masks are written.")
    ] = "collapsed",
    workers: WorkersOption = 1,
    any_language: AnyLanguageOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Put schema_version into every line.")] = False,
) -> None:
    """Redact text with any policies. Writes one JSON line a text: id, redacted_text, spans."""
    from flows.redacting import redact_lines, redactor_spec, settings_options

    options = {
        "model": model,
        "language": language,
        "conservative": conservative,
        "classifier": str(classifier.absolute()) if classifier else None,
        **settings_options(pattern or [], keywords, names),
    }
    spec = redactor_spec(policy, options)
    for line in redact_lines(
        file, spec, rendering=rendering, workers=workers, check_language=not any_language, as_json=as_json
    ):
        typer.echo(line)


@app.command("evaluate-policy")
def evaluate_policy(
    policy: PolicyOption,
    gold: Annotated[
        str, typer.Option("--gold", help="JSON lines with text and spans (start, end, label); - is stdin.")
    ],
    model: ModelOption = None,
    language: LanguageOption = None,
    pattern: PatternOption = None,
    names: NamesOption = None,
    keywords: KeywordsOption = None,
    classifier: ClassifierOption = None,
    sentences: Annotated[
        bool, typer.Option("--sentences", help="Cut texts into sentences and judge each alone.")
    ] = False,
    confidence: Annotated[float, typer.Option(min=0.5, max=0.9999, help="Of the intervals.")] = 0.95,
    workers: WorkersOption = 1,
    any_language: AnyLanguageOption = False,
    as_json: JsonOption = False,
) -> None:
    """Recall, precision and F2 of policies on labelled text, by label, with intervals, and what they miss most."""
    from flows.evaluating_policy import evaluation_document, evaluation_text
    from flows.redacting import redactor_spec, settings_options

    options = {
        "model": model,
        "language": language,
        "classifier": str(classifier.absolute()) if classifier else None,
        **settings_options(pattern or [], keywords, names),
    }
    document = evaluation_document(
        gold,
        redactor_spec(policy, options),
        by_sentence=sentences,
        workers=workers,
        confidence=confidence,
        check_language=not any_language,
    )
    _emit(document, as_json, evaluation_text(document))


@app.command("train-policy")
def train_policy(
    data: Annotated[str, typer.Option("--data", help="JSON lines with text and domain; - is stdin.")],
    out: Annotated[Path, typer.Option("--out", help="Folder to write the classifier into.")],
    base: Annotated[
        str, typer.Option(help="minilm (in a wheel), a folder, or a cached model, e.g. roberta-base.")
    ] = "minilm",
    window: Annotated[int, typer.Option(min=2, max=256, help="Tokens in a window.")] = 16,
    overlap: Annotated[int, typer.Option(min=0, max=255, help="Tokens that neighbouring windows share.")] = 8,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the data.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Of split, order and the new layer.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Train the classifier of the policy classifier on texts with domains."""
    from flows.training_policy import train_document, train_text

    document = train_document(
        data, out, base=base, window_tokens=window, overlap_tokens=overlap, epochs=epochs, seed=seed
    )
    _emit(document, as_json, train_text(document))


@app.command()
def ledger(config: ConfigArgument = DEFAULT_CONFIG, as_json: JsonOption = False) -> None:
    """What the published models spent together on the records that they share, and what the budget leaves."""
    from flows.ledger import ledger_document, ledger_text

    document = ledger_document(config, os.environ)
    _emit(document, as_json, ledger_text(document))


@privacy_app.command("epsilon")
def privacy_epsilon(
    sample_rate: SampleRateOption,
    noise_multiplier: Annotated[float, typer.Option(help="Noise deviation over the clipping norm.")],
    steps: StepsOption,
    delta: Annotated[float, typer.Option(help="Delta that epsilon is stated at.")],
    relation: RelationOption = "add_or_remove_one",
    as_json: JsonOption = False,
) -> None:
    """Epsilon of DP-SGD by PLD (upper and lower bound), RDP and, as an asymptotic figure, GDP-CLT."""
    from flows.privacy import epsilon_document, epsilon_text

    document = epsilon_document(
        sample_rate=sample_rate, noise_multiplier=noise_multiplier, steps=steps, delta=delta, relation=relation
    )
    _emit(document, as_json, epsilon_text(document))


@privacy_app.command("calibrate")
def privacy_calibrate(
    target_epsilon: Annotated[float, typer.Option(help="Epsilon to meet.")],
    target_delta: Annotated[float, typer.Option(help="Delta that goes with it.")],
    sample_rate: SampleRateOption,
    steps: StepsOption,
    relation: RelationOption = "add_or_remove_one",
    accountant: Annotated[str, typer.Option(help="pld, or rdp as some papers did.")] = "pld",
    as_json: JsonOption = False,
) -> None:
    """The least noise multiplier of DP-SGD that meets a target epsilon."""
    from flows.privacy import calibrate_document, calibrate_text

    document = calibrate_document(
        target_epsilon=target_epsilon,
        target_delta=target_delta,
        sample_rate=sample_rate,
        steps=steps,
        relation=relation,
        accountant=accountant,
    )
    _emit(document, as_json, calibrate_text(document))


@privacy_app.command("confidentiality")
def privacy_confidentiality(
    epsilon: Annotated[float, typer.Option(help="Epsilon of the whole training, replace_one, no credit taken.")],
    delta: Annotated[float, typer.Option(help="Its delta.")],
    gamma: Annotated[float, typer.Option(help="Share of secrets with any token unmasked; an upper bound.")],
    delta2: Annotated[float, typer.Option(help="Share of secrets missed in a public sentence; an upper bound.")] = 0.0,
    group_size: Annotated[int | None, typer.Option(help="Also for a group of so many unique secrets.")] = None,
    as_json: JsonOption = False,
) -> None:
    """What redaction adds to a training's epsilon (CRT, Theorem 8)."""
    from flows.privacy import confidentiality_document, confidentiality_text

    document = confidentiality_document(epsilon=epsilon, delta=delta, gamma=gamma, delta2=delta2, group_size=group_size)
    _emit(document, as_json, confidentiality_text(document))


@privacy_app.command("amplify")
def privacy_amplify(
    epsilon: Annotated[float, typer.Option(help="Epsilon of phase 1 as a whole, no credit taken.")],
    delta: Annotated[float, typer.Option(help="Its delta.")],
    miss_rate: Annotated[float, typer.Option(help="m, missed sensitive tokens over all tokens (JFT).")],
    gamma: Annotated[float | None, typer.Option(help="Share of secrets missed, for the sound form.")] = None,
    as_json: JsonOption = False,
) -> None:
    """JFT's figure for light noise: an estimate, never a guarantee, with the sound form beside it."""
    from flows.privacy import amplify_document, amplify_text

    document = amplify_document(epsilon=epsilon, delta=delta, miss_rate=miss_rate, gamma=gamma)
    _emit(document, as_json, amplify_text(document))


@app.command()
def compare(
    configs: Annotated[list[Path] | None, typer.Argument(metavar="[CONFIG]...", help="Settings files.")] = None,
    methods: Annotated[str, typer.Option(help="Methods, with commas: crt,dpsgd,jft/light_noise.")] = "",
    repetitions: Annotated[int | None, typer.Option(min=1, help="Trainings of each method.")] = None,
    overrides: Annotated[list[str] | None, typer.Option("--set", help="table.field=value, for all.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Train with several methods on the same data, and show privacy against utility. Each is a release of its own."""
    from flows.comparing import compare_document, compare_text

    names = [name.strip() for name in methods.split(",") if name.strip()]
    document = compare_document(
        configs or [DEFAULT_CONFIG], os.environ, methods=names, repetitions=repetitions, overrides=overrides or []
    )
    _emit(document, as_json, compare_text(document))


@app.command()
def deploy(
    config: ConfigArgument = DEFAULT_CONFIG,
    cron: Annotated[str, typer.Option(help="When to run: minute, hour, day, month, weekday.")] = "0 2 * * *",
    timezone: Annotated[str, typer.Option(help="The zone that --cron is meant in, e.g. Europe/Berlin.")] = "UTC",
    pool: Annotated[str, typer.Option(help="Work pool of type process; made if missing.")] = "local-proc",
    name: Annotated[str, typer.Option(help="Name of the deployment.")] = "nightly",
    as_json: JsonOption = False,
) -> None:
    """Create or update the nightly deployment on the Prefect server that PREFECT_API_URL names."""
    from flows.deploying import deploy as make_deployment
    from flows.deploying import deploy_text

    document = make_deployment(config, os.environ, cron=cron, timezone=timezone, pool=pool, name=name)
    _emit(document, as_json, deploy_text(document, os.environ))


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
    from flows.environment import DEFAULTS

    for name, value in {
        **DEFAULTS,
        "PREFECT_LOGGING_LEVEL": "CRITICAL",
        "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",  # the embedded server prints its cancelled tasks when it stops
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",  # 20 are too few on a busy machine
        "PYDANTIC_DISABLE_PLUGINS": "__all__",  # looking for them reads every installed package's metadata
    }.items():
        os.environ.setdefault(name, value)


def main() -> NoReturn:
    """Runs the command line and exits.

    Exit codes: 0 ok, 2 usage or settings, 3 input, 4 privacy gate, 5 failed, 130 interrupted.
    """
    _quiet_defaults()
    install()
    try:
        result = app(standalone_mode=False)  # an exit code where a command asked for one
        code = result if isinstance(result, int) else 0
    except typer.Exit as stop:
        code = stop.exit_code
    except ReticentError as error:
        print(f"reticent: {error}", file=sys.stderr)
        code = error.exit_code
    except (KeyboardInterrupt, typer.Abort) as stop:
        print("reticent: interrupted; what was finished is kept, run again to go on", file=sys.stderr)
        code = TERMINATED if isinstance(stop, Terminated) else INTERRUPTED
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 5
    except OSError as error:
        code = _disk_failed(error)
    except Exception as error:
        code = _unexpected(error)
    sys.stdout.flush()
    sys.exit(code)


def _disk_failed(error: OSError) -> int:
    from pipelines.store.files import DISK_ERRORS, disk_error

    if error.errno not in DISK_ERRORS:
        return _unexpected(error)
    print(f"reticent: {disk_error(error)}", file=sys.stderr)
    return StoreError.exit_code


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
