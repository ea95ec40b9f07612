"""The page of `benchmarks/task_scores.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from common import heading


def markdown(document: Mapping[str, Any]) -> str:
    lines = [
        "# Classification and table-to-text on real data",
        "",
        f"`{document['command']}`, on a shared 2-core CPU; {document['seconds'] / 60:.0f} minutes of training in all.",
        "Settings: `benchmarks/task_scores.py`. What to make of it: [docs/models.md](../../docs/models.md).",
    ]
    for found in document["tasks"].values():
        lines += [
            "",
            f"## {found['title']}",
            "",
            f"{found['num_train']:,} training and {found['num_test']:,} test rows; trained models are scored on "
            f"{found['num_scored']} {'rows' if 'accuracy' in found['rows'][0] else 'tables, with every reference'}.",
        ]
        if "accuracy" in found["rows"][0]:
            titles = ("", "accuracy (95 %)", "seeds", "ε*", "noise", "private steps", "seconds")
            lines += ["", *heading(*titles)]
            lines += [_accuracy_line(row) for row in found["rows"]]
        else:
            titles = ("", "BLEU (95 %)", "ROUGE-L (95 %)", "NIST", "METEOR", "CIDEr-D", "perplexity", "seeds")
            lines += ["", *heading(*titles, "ε*", "noise", "seconds")]
            lines += [_text_line(row) for row in found["rows"]]
            lines += ["", "The first three outputs:", ""]
            lines += [
                f"- {row['name']}: " + "; ".join(f"“{t}”" for t in row["examples"])
                for row in found["rows"]
                if "examples" in row
            ]
    lines += [
        "",
        "Trainings of the command that are not in a table have not been run yet; given again, it goes on where it was.",
        "Means over seeds. Intervals are those of one model: over test rows (normal), or over tables (bootstrap).",
        "The ε of jft is that of its second phase; the first reads redacted text without noise.",
        "ε*: of the whole training on a row, replace-one, without credit for redaction, δ = 10⁻⁵; none: a part of it",
        "has no noise.",
    ]
    return "\n".join(lines) + "\n"


def _privacy(row: Mapping[str, Any]) -> tuple[str, str]:
    epsilon = "none" if row.get("epsilon") is None else f"{row['epsilon']:.3g}"
    return epsilon, "none" if row.get("noise_multiplier") is None else f"{row['noise_multiplier']:.2f}"


def _accuracy_line(row: Mapping[str, Any]) -> str:
    scores = f"{row['accuracy']:.1%} ({row['low']:.1%} – {row['high']:.1%})"
    if "num_seeds" not in row:
        return f"| {row['name']} | {scores} | | | | | |"
    epsilon, noise = _privacy(row)
    seeds = f"{row['num_seeds']}: {row['least']:.1%} – {row['most']:.1%}"
    cells = [row["name"], scores, seeds, epsilon, noise, str(row["num_steps"]), f"{row['train_seconds']:.0f}"]
    return f"| {' | '.join(cells)} |"


def _text_line(row: Mapping[str, Any]) -> str:
    cells = [f"{row[key]:.1f} ({row[f'{key}_low']:.1f} – {row[f'{key}_high']:.1f})" for key in ("bleu", "rouge_l")]
    cells += [f"{row['nist']:.2f}", f"{row['meteor']:.2f}", f"{row['cider']:.2f}"]
    if "num_seeds" in row:
        epsilon, noise = _privacy(row)
        cells += [f"{row['perplexity_at_initialisation']:,.0f} → {row['perplexity']:.2f}", str(row["num_seeds"])]
        cells += [epsilon, noise, f"{row['train_seconds']:.0f}"]
    else:
        cells += [""] * 5
    return f"| {row['name']} | {' | '.join(cells)} |"
