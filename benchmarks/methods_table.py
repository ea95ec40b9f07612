"""The table of docs/methods.md: every method on the built-in corpus and on a sample of WikiText-2.

    python benchmarks/methods_table.py --data-dir FOLDER [--sentences 1500] [--work build/methods] [--only NAME,...]

Model, tokens and corpora are those of benchmarks/orderings.py; one training each. Writes results/methods.json
and the table between its marks in docs/methods.md; with --only, the rows of the other methods stay.

`jft/manual_screening` learns first from rows that people have screened. Here an oracle screens a tenth of the training
sentences: it marks what the maker of the built-in corpus wrote in as secret, and in WikiText-2, where nobody has said
what is secret, what `presidio` finds. Somebody real misses some.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from common import RESULTS, ROOT, command_line, read_json, read_lines, write_json, write_lines
from orderings import Training, overrides, prepare

from flows.commands.compare import Variant, run_variant
from flows.commands.redact import judge_records, redactor_spec
from flows.commands.review import import_document, open_items
from flows.docs.tables import page as with_table
from pipelines.miss_rate.review_items import Item
from pipelines.miss_rate.review_log import Decision, Secret

CORPORA = {"builtin": "built-in dialogues", "wikitext2": "WikiText-2"}
# Plain SGD takes other step sizes than AdamW: those that docs/methods.md names.
SGD = {"public_learning_rate": "1.0", "private_learning_rate": "0.1"}
TRAININGS = (
    Training("no_dp", "no_dp"),
    Training("redacted", "redacted"),
    Training("anonymized", "anonymized"),
    Training("crt", "crt"),
    Training("jft/direct", "jft/direct"),
    Training("jft/light_noise", "jft/light_noise"),
    Training("jft/conservative_light_noise", "jft/conservative_light_noise"),
    Training("redaction_schedule", "redaction_schedule"),
    Training("dpsgd", "dpsgd"),
    Training("sdpsgd_lstm", "sdpsgd_lstm", settings=SGD),
    Training("jft/manual_screening", "jft/manual_screening"),  # the last: its reviews are read by later runs
)
SCREENING = {"RETICENT__SAMPLE__SCREENING_FRACTION": "0.1"}


def oracle(corpus: str, config: Path, items: Sequence[Item]) -> Iterator[Decision]:
    """Yields the decisions of a reviewer who misses nothing."""
    if corpus == "builtin":
        rows = read_lines(config.parent / "corpus.jsonl")
        found = [next(_written(row, item.text) for row in rows if item.text in row["text"]) for item in items]
    else:
        judged = judge_records(({"text": item.text} for item in items), redactor_spec(["presidio"], {}))
        found = [
            [Secret(j.starts[s.start_token], j.ends[s.end_token - 1], s.label) for s in j.spans] for _, j in judged
        ]
    for item, secrets in zip(items, found, strict=True):
        # What is masked already stays so; the oracle speaks of what is sensitive.
        yield Decision(
            id=f"oracle-{item.key}", at="2026-01-01T00:00:00+00:00", reviewer="oracle", key=item.key,
            secrets=tuple(secrets),
        )  # fmt: skip


def _written(row: Mapping[str, Any], text: str) -> list[Secret]:
    """Returns the secrets that the corpus's maker wrote into a part of a document."""
    first = row["text"].index(text)
    spans = [(span["start"] - first, span["end"] - first, span["label"]) for span in row["spans"]]
    return [Secret(start, end, label) for start, end, label in spans if start >= 0 and end <= len(text)]


def screen(corpus: str, config: Path, environ: Mapping[str, str]) -> None:
    """Reviews the manual-screening set by the oracle, by way of a file, as `reticent review --import` does."""
    items = open_items(config, environ, asked="screening").items
    rows = [
        {"text": item.text, "reviews": [decision.to_json()]}
        for item, decision in zip(items, oracle(corpus, config, items), strict=True)
    ]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "oracle.jsonl"
        write_lines(file, rows)
        found = import_document(config, environ, file, "jsonl", "oracle", asked="screening")
    print(corpus, "screened:", len(items), "new:", found["num_reviews"], flush=True)


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        "| corpus | method | bits a byte | perplexity a word | loss a token, before → after (standard error) | ε* |"
        " claimed notion, ε | seconds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        claim = row["headline"]
        before = math.log(row["perplexity_at_initialisation"])
        epsilon = "–" if row["epsilon_unamplified"] is None else f"{row['epsilon_unamplified']:.3g}"
        notion = "–" if claim is None else f"{claim['notion'].replace('_', ' ')}, {claim['epsilon']:.3g}"
        if claim is not None and not claim["is_guarantee"]:
            notion += " (no guarantee)"
        lines.append(
            f"| {CORPORA[row['corpus']]} | `{row['name']}` | {row['bits_per_byte']:.2f} "
            f"| {row['perplexity_per_word']:.3g} "
            f"| {before:.2f} → {row['loss_per_token']:.2f} ({row['loss_per_token_standard_error']:.3f}) "
            f"| {epsilon} | {notion} | {row['train_seconds']:.0f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = command_line(__doc__, data_dir=True, work="build/methods")
    parser.add_argument("--sentences", type=int, default=1_500)
    parser.add_argument("--only", help="names of methods, separated by commas")
    args = parser.parse_args()
    chosen = [t for t in TRAININGS if args.only is None or t.name in args.only.split(",")]
    rows = []
    if args.only is not None:
        known = read_json(RESULTS / "methods.json")["trainings"]
        rows = [row for row in known if row["name"] not in {training.name for training in chosen}]
    for corpus in CORPORA:
        config = prepare(corpus, (args.work / f"{corpus}-{args.sentences}").absolute(), args.data_dir, args.sentences)
        for training in chosen:
            settings = overrides(corpus, training, {})
            if training.method == "jft/manual_screening":
                settings |= SCREENING
                screen(corpus, config, {**os.environ, **settings})
            found = run_variant(Variant(config, training.method, 0, settings), os.environ)
            print(corpus, training.name, found["state"], found.get("reason", ""), flush=True)
            if found["state"] != "completed":
                raise SystemExit(1)
            rows.append({"corpus": corpus, "name": training.name, **found})
    names = [training.name for training in TRAININGS]
    rows.sort(key=lambda row: (list(CORPORA).index(row["corpus"]), names.index(row["name"])))
    write_json(RESULTS / "methods.json", {"schema_version": 1, "trainings": rows}, sort_keys=True)
    page = ROOT / "docs" / "methods.md"
    text = with_table(page.read_text("utf-8"), "methods", markdown(rows), "python benchmarks/methods_table.py")
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
