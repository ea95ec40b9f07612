"""The table of docs/methods.md: every method on the built-in corpus and on a sample of WikiText-2.

    python benchmarks/methods_table.py --data-dir FOLDER [--sentences 1500] [--work build/methods]

Model, tokens and corpora are those of benchmarks/orderings.py; one training each. Writes results/methods.json
and the table between its two marks in docs/methods.md.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from orderings import RESULTS, Training, overrides, prepare

from flows.comparing import Variant, run_variant

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
)
MARKS = ("<!-- table of methods -->", "<!-- end of the table -->")


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """The table of one corpus after the other."""
    lines = [
        "| corpus | method | perplexity a word | loss a token, before → after (standard error) | ε* |"
        " claimed notion, ε | seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        claim = row["headline"]
        before = math.log(row["perplexity_at_initialisation"])
        epsilon = "none" if row["epsilon_unamplified"] is None else f"{row['epsilon_unamplified']:.3g}"
        notion = "none" if claim is None else f"{claim['notion'].replace('_', ' ')}, {claim['epsilon']:.3g}"
        lines.append(
            f"| {CORPORA[row['corpus']]} | `{row['name']}` | {row['perplexity_per_word']:.3g} "
            f"| {before:.2f} → {row['loss_per_token']:.2f} ({row['loss_per_token_standard_error']:.3f}) "
            f"| {epsilon} | {notion} | {row['train_seconds']:.0f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Trains, and rewrites the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=1_500)
    parser.add_argument("--work", type=Path, default=Path("build/methods"))
    args = parser.parse_args()
    rows = []
    for corpus in CORPORA:
        config = prepare(corpus, (args.work / f"{corpus}-{args.sentences}").absolute(), args.data_dir, args.sentences)
        for training in TRAININGS:
            found = run_variant(Variant(config, training.method, 0, overrides(corpus, training, {})), os.environ)
            print(corpus, training.name, found["state"], found.get("reason", ""), flush=True)
            if found["state"] != "completed":
                raise SystemExit(1)
            rows.append({"corpus": corpus, "name": training.name, **found})
    text = json.dumps({"schema_version": 1, "trainings": rows}, sort_keys=True, indent=1) + "\n"
    (RESULTS / "methods.json").write_text(text, encoding="utf-8")
    page = Path("docs/methods.md")
    before, _, rest = page.read_text("utf-8").partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    page.write_text(f"{before}{MARKS[0]}\n{markdown(rows)}\n{MARKS[1]}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
