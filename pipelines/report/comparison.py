"""The page of a comparison of methods: a figure of privacy against utility, and the table that it is drawn from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib import resources
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from pipelines.report.charts import privacy_utility
from pipelines.report.numbers import real


def render_comparison(document: Mapping[str, Any]) -> str:
    """The page. The same document gives the same bytes.

    Args:
        document: as ``reticent compare --json`` prints it.
    """
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(real=real)
    files = resources.files("pipelines.report")
    css = files.joinpath("report.css").read_text("utf-8")
    points = [
        (
            " ".join(part for part in (row["config"], row["method"]) if part),
            math.inf if row["epsilon_unamplified"] is None else row["epsilon_unamplified"],
            row["perplexity_per_word"],
        )
        for row in document["methods"]
    ]
    return environment.from_string(files.joinpath("comparison.html").read_text("utf-8")).render(
        css=Markup(css),  # noqa: S704 -- our own file
        chart=privacy_utility(points),
        methods=document["methods"],
        failed=[row for row in document["variants"] if row["state"] == "failed"],
    )
