"""The page of a comparison of methods: a figure of privacy against utility, and the table that it is drawn from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, Final

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from pipelines.report.charts import privacy_utility
from pipelines.report.numbers import real

TITLES: Final[Mapping[str, str]] = {
    "accuracy": "accuracy",
    "perplexity_per_word": "perplexity per word",
    "perplexity": "perplexity",
    "bits_per_byte": "bits per byte",
    "next_word_accuracy": "next-word accuracy",
    "bleu": "BLEU",
    "rouge_l": "ROUGE-L",
    "f1": "F1",
}
_MAIN: Final = ("accuracy", "perplexity_per_word", "perplexity")
_MORE: Final = ("bits_per_byte", "next_word_accuracy", "bleu", "rouge_l", "f1")


def figures_shown(methods: Sequence[Mapping[str, Any]]) -> list[str]:
    """Which figures a comparison shows, the main one first: what the task at hand has, and no empty columns."""

    def has(name: str) -> bool:
        return any(row[name]["mean"] is not None for row in methods)

    return [next(filter(has, _MAIN), "perplexity_per_word"), *filter(has, _MORE)]


def render_comparison(document: Mapping[str, Any]) -> str:
    """The page. The same document gives the same bytes.

    Args:
        document: as ``reticent compare --json`` prints it.
    """
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(real=real)
    files = resources.files("pipelines.report")
    css = files.joinpath("report.css").read_text("utf-8")
    shown = figures_shown(document["methods"])
    points = [
        (
            " ".join(part for part in (row["config"], row["method"]) if part),
            math.inf if row["epsilon_unamplified"] is None else row["epsilon_unamplified"],
            row[shown[0]],
        )
        for row in document["methods"]
    ]
    return environment.from_string(files.joinpath("comparison.html").read_text("utf-8")).render(
        css=Markup(css),  # noqa: S704 -- our own file
        chart=privacy_utility(points, TITLES[shown[0]]),
        shown=[(name, TITLES[name]) for name in shown],
        methods=document["methods"],
        whole=document.get("together"),
        failed=[row for row in document["variants"] if row["state"] == "failed"],
    )
