"""Commands that use, score and train policies on any text."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from flows.arguments.common import JsonOption, app, emit
from pipelines.errors import ConfigError

PolicyOption = Annotated[
    list[str],
    typer.Option(
        "--policy", "-p", help="Policies or presets, separated by commas. Text that any of them finds is masked."
    ),
]
ModelOption = Annotated[str | None, typer.Option(help="An installed spaCy model; default en_core_web_sm.")]
LanguageOption = Annotated[
    str | None,
    typer.Option(help="Language code of all texts. Without it, `redact` reads each text in its own language."),
]
PatternOption = Annotated[
    list[str] | None, typer.Option("--pattern", help="LABEL=REGEX for the policy regex; repeat for several.")
]
NamesOption = Annotated[Path | None, typer.Option("--names", help="File with one name per line, for the policy names.")]
KeywordsOption = Annotated[
    Path | None, typer.Option("--keywords", help="JSON file {DOMAIN: [keyword]} for the policy keywords.")
]
ProjectOption = Annotated[
    Path | None,
    typer.Option(
        "--project",
        help="Settings of the project that --data comes from, so that the project notes which texts are learnt.",
    ),
]
ClassifierOption = Annotated[
    Path | None, typer.Option(help="Folder of a trained classifier, for the policy classifier.")
]
TokenClassifierOption = Annotated[
    str | None,
    typer.Option(help="Token-classification model, a folder or a cached hub model, for the policy token_classifier."),
]
GlinerOption = Annotated[
    str | None, typer.Option(help="GLiNER or GLiNER2 model, a folder or a cached hub model, for the policy gliner.")
]
WorkersOption = Annotated[int, typer.Option(min=1, max=256, help="Worker processes.")]
OnceOption = Annotated[
    bool,
    typer.Option(
        "--no-stabilise", help="Let every policy read the original text once, as with redact.stabilise = false."
    ),
]
AnyLanguageOption = Annotated[
    bool, typer.Option("--any-language", help="Read text in another language with the same model.")
]


@app.command()
def redact(
    policy: PolicyOption,
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="File with lines of text, or with JSON lines that have text; - is stdin."),
    ] = "-",
    model: ModelOption = None,
    language: LanguageOption = None,
    conservative: Annotated[
        str | None, typer.Option(help="Also say which texts this policy would keep private.")
    ] = None,
    pattern: PatternOption = None,
    names: NamesOption = None,
    keywords: KeywordsOption = None,
    classifier: ClassifierOption = None,
    token_classifier: TokenClassifierOption = None,
    gliner: GlinerOption = None,
    rendering: Annotated[
        str, typer.Option(help="Notation of masks: collapsed, tokens, jft or jft-typed.")
    ] = "collapsed",
    replacement: Annotated[
        str, typer.Option(help="mask, label, or surrogate: realistic stand-ins that `reticent restore` turns back.")
    ] = "mask",
    surrogate_key: Annotated[
        Path | None, typer.Option(help="With surrogates: file of the secret key; created if missing.")
    ] = None,
    surrogate_map: Annotated[
        Path | None, typer.Option(help="With surrogates: new file for the originals. It holds the secrets.")
    ] = None,
    consistent: Annotated[
        str, typer.Option(help="With surrogates: document or corpus, the scope in which a secret keeps one surrogate.")
    ] = "document",
    surrogate_persons: Annotated[
        str,
        typer.Option(
            help="With surrogates: neutral or gendered names for all mentions of a person, or apart for each mention."
        ),
    ] = "neutral",
    shift_dates: Annotated[
        int, typer.Option(help="With surrogates: greatest shift of the dates of a text, in days; 0 draws others.")
    ] = 0,
    workers: WorkersOption = 1,
    no_stabilise: OnceOption = False,
    any_language: AnyLanguageOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Put schema_version into every line.")] = False,
) -> None:
    """Redact text with any policies. Writes one JSON line per text: id, redacted_text, spans."""
    from flows.commands.redact import by_language, redact_lines, redactor_spec, settings_options
    from flows.commands.restore import replacing
    from flows.running.temporary import temporary_files

    options = settings_options(pattern or [], keywords, names, classifier, token_classifier, gliner)
    options |= {"model": model, "language": language, "conservative": conservative, "stabilise": not no_stabilise}
    spec = redactor_spec(policy, options if any_language else by_language(options))
    if replacement != "mask" and rendering != "collapsed":
        raise ConfigError("--rendering says how masks are written; leave it out with --replacement")
    with (
        temporary_files(),
        replacing(
            replacement, spec, surrogate_key, surrogate_map, consistent, surrogate_persons, shift_dates
        ) as replace,
    ):
        for line in redact_lines(
            file,
            spec,
            rendering=rendering,
            workers=workers,
            check_language=not any_language,
            as_json=as_json,
            replace=replace,
        ):
            typer.echo(line)


@app.command()
def restore(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="MAP", help="The --surrogate-map of `reticent redact`, or settings (.toml) for the last run."
        ),
    ],
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="JSON lines with id (for a run: doc_id, sentence_index) and redacted_text or text; - is stdin.",
        ),
    ] = "-",
) -> None:
    """Turn surrogates back into the originals. Writes one JSON line per text: id, text."""
    from flows.commands.restore import restored_lines

    for line in restored_lines(file, source, os.environ):
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
    token_classifier: TokenClassifierOption = None,
    gliner: GlinerOption = None,
    sentences: Annotated[
        bool, typer.Option("--sentences", help="Split texts into sentences and judge each one separately.")
    ] = False,
    confidence: Annotated[float, typer.Option(min=0.5, max=0.9999, help="Confidence level of the intervals.")] = 0.95,
    workers: WorkersOption = 1,
    no_stabilise: OnceOption = False,
    any_language: AnyLanguageOption = False,
    as_json: JsonOption = False,
) -> None:
    """Measure recall, precision and F2 of policies, by label. Needs labelled text. Lists the most frequent misses."""
    from flows.commands.evaluate_policy import evaluation_document, evaluation_text
    from flows.commands.redact import redactor_spec, settings_options
    from flows.running.temporary import temporary_files

    options = settings_options(pattern or [], keywords, names, classifier, token_classifier, gliner)
    options |= {"model": model, "language": language, "stabilise": not no_stabilise}
    with temporary_files():
        document = evaluation_document(
            gold,
            redactor_spec(policy, options),
            by_sentence=sentences,
            workers=workers,
            confidence=confidence,
            check_language=not any_language,
        )
    emit(document, as_json, evaluation_text(document))


@app.command("train-policy")
def train_policy(
    data: Annotated[str, typer.Option("--data", help="JSON lines with text and domain; - is stdin.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the classifier.")],
    base: Annotated[
        str, typer.Option(help="Base model: minilm (in a wheel), a folder, or a cached model, e.g. roberta-base.")
    ] = "minilm",
    window: Annotated[int, typer.Option(min=2, max=256, help="Tokens in a window.")] = 16,
    overlap: Annotated[int, typer.Option(min=0, max=255, help="Tokens that neighbouring windows share.")] = 8,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the data.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split, the order and the new layer.")] = 0,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train a model for the policy classifier. Needs texts with domains."""
    from flows.commands.train_policy import train_document, train_text
    from flows.running.temporary import temporary_files

    with temporary_files():
        document = train_document(
            data,
            out,
            os.environ,
            project=project,
            base=base,
            window_tokens=window,
            overlap_tokens=overlap,
            epochs=epochs,
            seed=seed,
        )
    emit(document, as_json, train_text(document))


@app.command("train-detector")
def train_detector(
    out: Annotated[Path, typer.Option("--out", help="Folder for the detector.")],
    data: Annotated[
        list[str] | None,
        typer.Option("--data", help="CoNLL file, or JSON lines with text and spans; - is stdin; repeat for several."),
    ] = None,
    gold: Annotated[Path | None, typer.Option("--gold", help="Settings of a project whose corpus has labels.")] = None,
    reviews: Annotated[
        Path | None, typer.Option("--reviews", help="Settings of a project whose reviewers' marks are learnt.")
    ] = None,
    kind: Annotated[
        str, typer.Option(help="encoder, or spacy, which is faster and smaller and finds less.")
    ] = "encoder",
    base: Annotated[
        str, typer.Option(help="Base model of an encoder: minilm, a folder, or a cached model.")
    ] = "minilm",
    layers: Annotated[int | None, typer.Option(min=1, help="Number of first layers of the encoder to keep.")] = None,
    language: Annotated[str, typer.Option(help="Language code of the text.")] = "en",
    recall: Annotated[float, typer.Option(help="Token recall to set the thresholds for.")] = 0.9,
    held_out: Annotated[float, typer.Option(help="Share of the texts that the thresholds are set on.")] = 0.2,
    epochs: Annotated[int | None, typer.Option(min=1, help="Passes over the data; default 3, or 15 for spacy.")] = None,
    noise: Annotated[
        bool, typer.Option(help="Also learn from variants in lower case, with typos, hashtags and the like.")
    ] = True,
    names: Annotated[bool, typer.Option(help="Replace some persons' names with other names.")] = True,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random choices.")] = 0,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train a detector for the policy token_classifier. Needs labelled text or reviews."""
    from flows.commands.train_detector import detector_document, detector_text
    from flows.running.temporary import temporary_files

    if kind not in ("encoder", "spacy"):
        raise ConfigError("--kind must be encoder or spacy")
    with temporary_files():
        document = detector_document(
            data or [],
            gold,
            reviews,
            out,
            os.environ,
            project=project,
            kind=kind,
            base=base,
            layers=layers,
            language=language,
            recall=recall,
            held_out=held_out,
            epochs=epochs,
            noise=noise,
            names=names,
            seed=seed,
        )
    emit(document, as_json, detector_text(document))
