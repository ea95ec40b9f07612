"""A test of the orderings between training methods that the papers report. Predictions: docs/orderings.md.

    python benchmarks/orderings.py --data-dir FOLDER [--seeds 5] [--sentences 1500] [--work build/orderings]
                                   [--corpus wikitext2] [--only dpsgd,no_dp]

Every training is a whole run of the pipeline, from text to claims. What is done is kept in the work folder, so that the
command may be stopped and given again; figures are rewritten after every repetition.
"""

from __future__ import annotations

import json
import math
import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from common import RESULTS, append_line, command_line, read_lines, write_json, write_lines
from data_sets import wikitext
from reproduce.verdicts import interval

from flows.commands.compare import Variant, run_variant
from pipelines.corpus.customersim import simulate
from pipelines.corpus.split import Splitter

HELD_OUT_SENTENCES = 300
SIZES = ("noise_multiplier", "num_steps", "num_private_records", "num_public_records")
"""Figures of a training that tables repeat."""

SETTINGS = """
[corpus]
inputs = ["corpus.jsonl"]
{corpus}
[gate]
{gate}
[sample]
fraction = 0.05
[estimate]
{estimate}
[runtime]
microbatch_size = 32
[train]
num_layers = 1
num_heads = 2
embedding_size = 32
context_length = 192
tokenizer = "bytes"
epochs = 4
jft_phase1_epochs = 4
expected_batch_size = 128
max_eval_sentences = {held_out}
{train}
"""
PROXY = 'source = "proxy"\nproxy = ["presidio"]'
SPEAKERS = 'speakers = ["SYS", "USR"]'
CORPORA: Mapping[str, Mapping[str, str]] = {
    "wikitext2": {"corpus": "", "gate": "enabled = false", "estimate": PROXY, "train": ""},
    "customersim": {"corpus": 'format = "dialogue"', "gate": "", "estimate": PROXY, "train": SPEAKERS},
    "builtin": {"corpus": "", "gate": "", "estimate": 'source = "gold"', "train": SPEAKERS},
}
PAPERS = ("wikitext2", "customersim")
POLICIES: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "wikitext2": {"entity": ("high_entity", "high_entity")},
    "customersim": {"entity": ("customersim", "conservative")},
    "builtin": {"entity": ("customersim", "conservative")},
}
"""Policy that masks, and policy that decides on public rows, by corpus and level. The two contextual levels of JFT mask
by the policy of their name and make everything private."""


@dataclass(frozen=True)
class Training:
    """A row of the table.

    Attributes:
        name: name in the table.
        method: name of the method, as in `reticent compare`.
        level: level of redaction.
        settings: settings of ``[train]``, as in a settings file.
        derived: settings that follow from the figures of rows before it, same corpus and repetition.
    """

    name: str
    method: str
    level: str = "entity"
    settings: Mapping[str, str] = field(default_factory=dict)
    derived: Callable[[Mapping[str, Mapping[str, Any]]], Mapping[str, str]] | None = None


def noise_of_dpsgd(done: Mapping[str, Mapping[str, Any]]) -> Mapping[str, str]:
    """Returns settings of equal noise instead of equal epsilon."""
    return {"noise_multiplier": repr(done["dpsgd"]["noise_multiplier"]), "target_epsilon": ""}


def spent_by_light_noise(done: Mapping[str, Mapping[str, Any]]) -> Mapping[str, str]:
    """Returns the epsilon that both phases of light noise spend without credit for redaction, and as many steps."""
    return {"target_epsilon": repr(done["jft/light_noise"]["epsilon_unamplified"]), "epochs": "8"}


LABELS = (
    *("PERSON", "NORP", "FAC", "ORG", "GPE", "LOC", "PRODUCT", "EVENT", "WORK_OF_ART", "LAW", "LANGUAGE", "DATE"),
    *("TIME", "PERCENT", "MONEY", "QUANTITY", "ORDINAL", "CARDINAL", "PROPN", "PRON", "SUBJ", "OBJ"),
)
TYPES = {"typed_masks": json.dumps(LABELS)}
TRAININGS = (
    Training("no_dp", "no_dp"),
    Training("dpsgd", "dpsgd"),
    Training("crt", "crt"),
    Training("crt, noise of dpsgd", "crt", derived=noise_of_dpsgd),
    Training("redacted, entity", "redacted"),
    Training("jft, entity", "jft/direct"),
    Training("redacted, low_contextual", "redacted", "low_contextual"),
    Training("jft, low_contextual", "jft/direct", "low_contextual"),
    Training("redacted, high_contextual", "redacted", "high_contextual"),
    Training("jft, high_contextual", "jft/direct", "high_contextual"),
    Training("jft/light_noise", "jft/light_noise"),
    Training("jft/conservative_light_noise", "jft/conservative_light_noise"),
    Training("dpsgd, epsilon and steps of light noise", "dpsgd", derived=spent_by_light_noise),
    Training("redaction_schedule", "redaction_schedule", "low_contextual"),
    Training("redaction_schedule, noise of dpsgd", "redaction_schedule", "low_contextual", derived=noise_of_dpsgd),
    Training("typed masks, ignored", "redacted", "low_contextual", TYPES),
    Training("typed masks, learnt", "anonymized", "low_contextual", TYPES),
    Training("dpsgd, no added tokens", "dpsgd", settings={"added_tokens": "false"}),
)


@dataclass(frozen=True)
class Ordering:
    """A prediction of docs/orderings.md: ``better`` has the lower perplexity, or, with ``equal``, neither has.

    Attributes:
        number: number of the prediction.
        corpora: corpora of the prediction; for others the difference is shown without a verdict.
    """

    number: int
    better: str
    worse: str
    equal: bool = False
    corpora: tuple[str, ...] = PAPERS


ORDERINGS = (
    Ordering(1, "no_dp", "crt"),
    Ordering(1, "no_dp", "crt, noise of dpsgd"),
    Ordering(1, "crt", "dpsgd"),
    Ordering(1, "crt, noise of dpsgd", "dpsgd"),
    *(Ordering(2, "no_dp", f"jft, {level}") for level in ("entity", "low_contextual")),
    *(Ordering(2, f"jft, {level}", "dpsgd") for level in ("entity", "low_contextual")),
    Ordering(3, "jft, low_contextual", "redacted, low_contextual"),
    Ordering(4, "jft/light_noise", "dpsgd"),
    Ordering(5, "jft/conservative_light_noise", "dpsgd"),
    Ordering(6, "dpsgd, epsilon and steps of light noise", "jft/light_noise"),
    Ordering(7, "redacted, low_contextual", "typed masks, learnt"),
    Ordering(8, "redacted, low_contextual", "typed masks, ignored", equal=True),
    Ordering(9, "dpsgd", "dpsgd, no added tokens", equal=True, corpora=("wikitext2",)),
    Ordering(9, "dpsgd", "dpsgd, no added tokens", corpora=("customersim",)),
    Ordering(10, "jft, high_contextual", "dpsgd"),
    Ordering(11, "redaction_schedule", "dpsgd"),
    Ordering(11, "redaction_schedule, noise of dpsgd", "dpsgd"),
)


def documents(corpus: str, fold: str, data_dir: Path, num_sentences: int) -> Iterator[dict[str, Any]]:
    """Yields documents until so many sentences: paragraphs by a fixed seed, or dialogues in their order."""
    if corpus == "builtin":
        total = 0
        for row in simulate(10**9, 1 if fold == "test" else 0):
            yield {"id": f"{fold}-{row['id']}", "text": row["text"], "spans": row["spans"], "fold": fold}
            total += len(row["text"].strip().splitlines())
            if total >= num_sentences:
                return
    if corpus == "customersim":
        texts = [str(row["text"]) for row in read_lines(data_dir / "customersim" / f"{fold}.jsonl")]
        counts: Iterator[int] = (len(text.strip().splitlines()) for text in texts)
    else:
        texts = wikitext(data_dir, fold, min_words=21)
        random.Random(f"{corpus}/{fold}").shuffle(texts)
        splitter = Splitter(mode="rules")
        counts = (len(next(iter(splitter.split([text])))) for text in texts)
    total = 0
    for number, (text, count) in enumerate(zip(texts, counts, strict=True)):
        if total >= num_sentences:
            return
        total += count
        yield {"id": f"{fold}-{number}", "text": text, "fold": fold}


def prepare(corpus: str, folder: Path, data_dir: Path, num_sentences: int) -> Path:
    config = folder / "reticent.toml"
    if not config.exists():
        rows = [*documents(corpus, "train", data_dir, num_sentences)]
        rows += documents(corpus, "test", data_dir, HELD_OUT_SENTENCES)
        write_lines(folder / "corpus.jsonl", rows)
        config.write_text(SETTINGS.format(held_out=HELD_OUT_SENTENCES, **CORPORA[corpus]), encoding="utf-8")
    return config


def overrides(corpus: str, training: Training, done: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Returns the settings of one training, by environment variable."""
    policy, conservative = POLICIES[corpus].get(training.level, (training.level, ""))
    more = training.derived(done) if training.derived is not None else {}
    train = {f"TRAIN__{name.upper()}": value for name, value in {**training.settings, **more}.items()}
    named = {"REDACT__POLICIES": json.dumps([policy]), "REDACT__CONSERVATIVE": conservative, **train}
    return {f"RETICENT__{name}": value for name, value in named.items()}


def difference(rows: Sequence[Mapping[str, Any]], ordering: Ordering) -> dict[str, Any] | None:
    """Returns the mean difference of log perplexity, worse minus better, with its interval, and the verdict."""
    logs: dict[str, dict[int, float]] = {ordering.better: {}, ordering.worse: {}}
    for row in rows:
        if row["name"] in logs:
            logs[row["name"]][row["repetition"]] = math.log(row["perplexity_per_word"])
    shared = sorted(set(logs[ordering.better]) & set(logs[ordering.worse]))
    values = [logs[ordering.worse][n] - logs[ordering.better][n] for n in shared]
    if len(values) < 2:
        return None
    found = interval(values)
    verdict = "came out" if found.low > 0 else "the other way" if found.high < 0 else "undecided"
    if ordering.equal:
        verdict = "came out: no difference seen" if found.low <= 0 <= found.high else "did not come out: they differ"
    limits = {"mean": found.mean, "low": found.low, "high": found.high}
    return {**limits, "num_repetitions": found.num, "verdict": verdict}


def summary(rows: Sequence[Mapping[str, Any]], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the published document: figures of trainings and verdicts, no text and no paths."""
    corpora = {}
    for corpus in PAPERS:
        mine = [row for row in rows if row["corpus"] == corpus]
        if not mine:
            continue
        table = []
        for training in TRAININGS:
            found = [row for row in mine if row["name"] == training.name]
            if not found:
                continue
            logs = interval([math.log(row["perplexity_per_word"]) for row in found])
            gains = [
                (math.log(row["perplexity_at_initialisation"]) - row["loss_per_token"])
                / row["loss_per_token_standard_error"]
                for row in found
            ]
            table.append(
                {
                    "name": training.name,
                    "level": training.level,
                    "num_repetitions": len(found),
                    "perplexity_per_word": math.exp(logs.mean),
                    "low": math.exp(logs.low) if logs.has_interval else None,
                    "high": math.exp(logs.high) if logs.has_interval else None,
                    "epsilon": found[0]["epsilon_unamplified"],
                    **{name: found[0][name] for name in ("headline", *SIZES)},
                    "least_gain_in_standard_errors": min(gains),
                    "train_seconds": sum(row["train_seconds"] for row in found) / len(found),
                }
            )
        verdicts = [
            {"prediction": o.number, "better": o.better, "worse": o.worse, "equal": o.equal, **found}
            for o in ORDERINGS
            if corpus in o.corpora and (found := difference(mine, o)) is not None
        ]
        corpora[corpus] = {"trainings": table, "orderings": verdicts}
    return {"schema_version": 1, "command": "python benchmarks/orderings.py", **arguments, "corpora": corpora}


def markdown(document: Mapping[str, Any]) -> str:
    lines = [
        "# Orderings between methods",
        "",
        f"`{document['command']} --seeds {document['seeds']} --sentences {document['sentences']}`, on a shared 2-core"
        " machine. Settings and predictions: [docs/orderings.md](../../docs/orderings.md).",
    ]
    for corpus, found in document["corpora"].items():
        lines += ["", f"## {corpus}", ""]
        lines += [
            "| training | perplexity a word (95 % interval) | ε* | noise | private steps | gain over initialisation,"
            " standard errors | seconds |",
            "|---|---|---|---|---|---|---|",
        ]
        for row in found["trainings"]:
            limits = "" if row["low"] is None else f" ({row['low']:,.0f} – {row['high']:,.0f})"
            epsilon = "none" if row["epsilon"] is None else f"{row['epsilon']:.3g}"
            noise = "none" if row["noise_multiplier"] is None else f"{row['noise_multiplier']:.2f}"
            lines.append(
                f"| {row['name']} | {row['perplexity_per_word']:,.0f}{limits} | {epsilon} | {noise} "
                f"| {row['num_steps']} | {row['least_gain_in_standard_errors']:.1f} | {row['train_seconds']:.0f} |"
            )
        lines += [
            "",
            "ε*: of the whole training on a sentence, replace-one, without credit for redaction; none: a part of it has"
            " no noise. Gain: the least over repetitions.",
            "",
            "| # | predicted | difference of log perplexity (95 % interval) | repetitions | |",
            "|---|---|---|---|---|",
        ]
        for row in found["orderings"]:
            sign = "≈" if row["equal"] else "<"
            lines.append(
                f"| {row['prediction']} | {row['better']} {sign} {row['worse']} | {row['mean']:+.3f} "
                f"({row['low']:+.3f} – {row['high']:+.3f}) | {row['num_repetitions']} | {row['verdict']} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = command_line(__doc__, data_dir=True, work="build/orderings")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sentences", type=int, default=1_500)
    parser.add_argument("--corpus", choices=PAPERS, action="append")
    parser.add_argument("--only", help="names of trainings, separated by semicolons")
    args = parser.parse_args()
    only = None if args.only is None else {name.strip() for name in args.only.split(";")}
    log = args.work / f"trainings-{args.sentences}.jsonl"
    rows = read_lines(log)
    for seed in range(args.seeds):
        for corpus in args.corpus or PAPERS:
            folder = (args.work / f"{corpus}-{args.sentences}").absolute()
            config = prepare(corpus, folder, args.data_dir, args.sentences)
            done = {r["name"]: r for r in rows if r["corpus"] == corpus and r["repetition"] == seed}
            for training in TRAININGS:
                if training.name in done or (only is not None and training.name not in only):
                    continue
                variant = Variant(config, training.method, seed, overrides(corpus, training, done))
                row = {"corpus": corpus, "name": training.name, **run_variant(variant, os.environ)}
                print(corpus, seed, training.name, row["state"], row.get("reason", ""), flush=True)
                if row["state"] != "completed":
                    continue
                done[training.name] = row
                rows.append(row)
                append_line(log, row)
        document = summary(rows, {"seeds": args.seeds, "sentences": args.sentences})
        write_json(RESULTS / "orderings.json", document, sort_keys=True, allow_nan=False)
        (RESULTS / "orderings.md").write_text(markdown(document), encoding="utf-8")


if __name__ == "__main__":
    main()
