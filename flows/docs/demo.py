"""The table in the README with the figures of one run of the built-in job, the run that its pictures show as well.

``make screenshots`` records the figures (`record`), and ``make docs`` writes the table (`table`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pipelines.numbers import count, percent, real, upper_bound
from pipelines.report.claims import headline_claim

RECORDED: Final = Path(__file__).parents[2] / "benchmarks" / "results" / "demo.json"


def figures(report: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the figures of a full report that the README shows."""
    metrics, missed, claim = report["metrics"], report["miss_rate"], headline_claim(report["claims"])
    assert claim is not None  # noqa: S101 -- the built-in job always has a headline
    four = [row["epsilon"] for row in (report["person"] or {"figures": ()})["figures"] if row["num_records"] == 4]
    return {
        "num_sentences": metrics["num_sentences"],
        "num_repeats": metrics["duplicates"],
        "num_trained": metrics["num_public"] + metrics["num_private"] - metrics["duplicates"],
        "num_public": metrics["num_public"],
        "coverage": metrics["coverage"],
        "num_secrets": missed["num_secret_spans"],
        "num_open": missed["num_unmasked_spans"],
        "num_unstable": missed["num_unstable_spans"],
        "epsilon": claim["epsilon"],
        "delta": claim["delta"],
        "epsilon_of_four": four[0] if four else None,
        "perplexity_before": metrics["perplexity_at_initialisation"],
        "perplexity": metrics["perplexity"],
        "perplexity_without_secrets": report["training"]["utility"]["groups"]["public"]["perplexity"],
    }


def record(report: Mapping[str, Any]) -> None:
    """Writes the figures of a report to `RECORDED`."""
    RECORDED.write_text(json.dumps(figures(report), indent=1) + "\n", "utf-8")


def table() -> str:
    """Returns the table with the recorded figures."""
    f = json.loads(RECORDED.read_text("utf-8"))
    missed = f["num_open"] + f["num_unstable"]
    set_aside = f["num_sentences"] - f["num_repeats"] - f["num_trained"]
    read = f"{count(f['num_sentences'])}, less {count(f['num_repeats'])} repeated ones and {count(set_aside)} set aside"
    unstable = "are masked, but change what else is masked ([unstable](docs/policies.md#stable-redaction))"
    claim = "guarantee for one secret in one sentence ([CRT](docs/architecture.md#what-runs), Theorem 8.1)"
    tested = "perplexity on text set aside (lower is better), before → after training"
    rows = {
        f"public rows, of those that the model trains on ({read} for tests)": (
            f"{count(f['num_public'])} of {count(f['num_trained'])}"
        ),
        "tokens masked as secrets, without the repeated turns": percent(f["coverage"]),
        "labelled secrets that masking left open. Your text will have more: the policy knows these dialogues": (
            f"{count(f['num_open'])} of {count(f['num_secrets'])}"
        ),
        f"labelled secrets that {unstable}. They count as missed (γ)": (
            f"{count(f['num_unstable'])} of {count(f['num_secrets'])}: "
            f"γ = {percent(missed / f['num_secrets'], upper=True)}"
        ),
        f"{claim}; the same for four sentences of one person": (
            f"ε = {upper_bound(f['epsilon'])}, δ = {upper_bound(f['delta'])}; ε = {upper_bound(f['epsilon_of_four'])}"
        ),
        f"{tested}; after training, of rows without secrets": (
            f"{real(f['perplexity_before'], 3)} → {real(f['perplexity'], 2)}; "
            f"{real(f['perplexity_without_secrets'], 2)}"
        ),
    }
    return "\n".join(["| figure | value |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items())])
