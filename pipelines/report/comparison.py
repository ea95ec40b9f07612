"""The page of a comparison of methods: privacy against utility, each figure with its interval, and a table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pipelines.report.comparison_charts import Figure, dot_plot, privacy_utility
from pipelines.report.render import render_page

COMPARED: Final[Mapping[str, Figure]] = {
    "accuracy": Figure(title="accuracy", least=0.0, most=1.0),
    "perplexity_per_word": Figure(title="perplexity per word", least=1.0),
    "perplexity": Figure(title="perplexity", least=1.0),
    "bits_per_byte": Figure(title="bits per byte", least=0.0),
    "next_token_accuracy": Figure(title="next-token accuracy", least=0.0, most=1.0),
    "next_word_accuracy": Figure(title="next-word accuracy", least=0.0, most=1.0),
    "bleu": Figure(title="BLEU", least=0.0, most=100.0),
    "rouge_1": Figure(title="ROUGE-1", least=0.0),
    "rouge_2": Figure(title="ROUGE-2", least=0.0),
    "rouge_l": Figure(title="ROUGE-L", least=0.0),
    "nist": Figure(title="NIST", least=0.0),
    "meteor": Figure(title="METEOR", least=0.0),
    "cider": Figure(title="CIDEr", least=0.0),
    "f1": Figure(title="F1", least=0.0),
    "hits_at_1": Figure(title="hits@1", least=0.0, most=1.0),
    "bert_score": Figure(title="BERTScore", most=1.0),
}
"""Figures of a comparison, and what they can be: an interval over repetitions ends there."""
_MAIN: Final = ("accuracy", "perplexity_per_word", "perplexity")
_MORE: Final = ("bits_per_byte", "next_word_accuracy", "bleu", "rouge_l", "f1", "hits_at_1", "bert_score")


def figures_shown(methods: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the names of the figures that a comparison shows, the main one first, and no empty columns."""

    def has(name: str) -> bool:
        return any(row[name]["mean"] is not None for row in methods)

    return [next(filter(has, _MAIN), "perplexity_per_word"), *filter(has, _MORE)]


def claims_zero(method: Mapping[str, Any]) -> bool:
    """Tells if the headline claim of a method has an ε of 0, which says nothing about secrets that redaction missed."""
    return bool(method["headline"]) and method["headline"]["epsilon"] == 0


def render_comparison(document: Mapping[str, Any]) -> str:
    """Returns the page. The same document gives the same bytes.

    Args:
        document: document that ``reticent compare --json`` prints.
    """
    methods = document["methods"]
    shown = [(name, COMPARED[name]) for name in figures_shown(methods)]
    names = [" ".join(part for part in (row["config"], row["method"]) if part) for row in methods]
    main, figure = shown[0]
    points = [
        (name, math.inf if row["epsilon_unamplified"] is None else row["epsilon_unamplified"], row[main])
        for name, row in zip(names, methods, strict=True)
    ]
    charts = [dot_plot([(name, row[of]) for name, row in zip(names, methods, strict=True)], f) for of, f in shown]
    return render_page(
        "comparison.html",
        css=render_page("report.css"),
        by_epsilon=privacy_utility(points, figure),
        charts=[chart for chart in charts if chart is not None],
        shown=shown,
        rows=list(zip(names, methods, strict=True)),
        whole=document.get("together"),
        zero=[name for name, row in zip(names, methods, strict=True) if claims_zero(row)],
        failed=[row for row in document["variants"] if row["state"] == "failed"],
    )
