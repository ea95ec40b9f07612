"""One self-contained page from a report document: no script, nothing loaded from elsewhere, everything escaped."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined, Undefined
from markupsafe import Markup, escape

from pipelines import numbers
from pipelines.printable import printable
from pipelines.report import charts, claims, sentences, words
from pipelines.report.alignment import aligned
from pipelines.report.assumptions import Numbered
from pipelines.report.claim_facts import ClaimFacts
from pipelines.report.comparison_charts import Figure, dot_plot
from pipelines.report.figures import ratio
from pipelines.report.people import person_sentences, protected_sentences

_PACKAGE = "pipelines.report"


class _Environment(Environment):
    """Strict about variables, but a key that a stage did not write is None, which is shown as "not measured"."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        value = super().getattr(obj, attribute)
        return None if isinstance(value, Undefined) and isinstance(obj, Mapping) else value


@dataclass(frozen=True, kw_only=True)
class Making:
    """The facts on a page that its report does not hold. They are for the full version only.

    Attributes:
        run_id, started: id and start of the run that made the page.
        examples: rows that are open as they were written.
        redacted: rows as they were written, and as they were redacted.
        written: texts that the model wrote.
    """

    run_id: str
    started: str | None
    examples: Sequence[str]
    redacted: Sequence[tuple[str, str]] = ()
    written: Sequence[str] = ()


def render_html(report: Mapping[str, Any], making: Making | None = None) -> str:
    """Returns the whole HTML page of a full or a public report. The same arguments give the same bytes.

    Args:
        report: result of `pipelines.report.figures.build` or `pipelines.report.public.public_version`.
        making: run and examples to show; None for none.

    Raises:
        ValueError: a public report was to show examples of rows.
    """
    if making is not None and report["version"] != "full":
        raise ValueError("only the full report shows its run and examples of rows")
    page = (
        _environment()
        .get_template("report.html")
        .render(
            report=report,
            making=making,
            is_public=report["version"] == "public",
            css=Markup(_package_file("report.css")),  # noqa: S704 -- our own file
            assumptions=Numbered(report),
            facts=ClaimFacts(report["claims"], report["miss_rate"].get("mu")),
            given_away=sentences.given_away(report),
            meaning=sentences.meaning_of(report["claims"]),
            missed=sentences.missed(report["miss_rate"]),
            attacks=sentences.found_by_attacks(report.get("audit")),
            can_be_claimed=claims.can_be_claimed(report["claims"]),
            cannot_be_claimed=claims.cannot_be_claimed(report["claims"]),
            person=person_sentences(report.get("person")),
            protected=protected_sentences(report),
            words=words,
            charts=_charts(report),
            coverage=_coverage(report["redaction"]),
        )
    )
    return printable(aligned(page.replace("<!-- contents -->", _contents(page), 1)))


def _contents(page: str) -> str:
    """Lists the sections of a page. The first is the top itself."""
    found = re.findall(r'<h2 id="([a-z-]+)">([^<]+)</h2>', page)[1:]
    return " · ".join(f'<a href="#{name}">{title}</a>' for name, title in found)


def render_page(template: str, **values: Any) -> Markup:
    """Fills in another template of this package."""
    page = _environment().get_template(template).render(**values)
    return Markup(printable(aligned(page)))  # noqa: S704 -- escaped by the template


@functools.cache
def _environment() -> Environment:
    """Reading the templates takes longer than filling them in."""
    environment = _Environment(
        loader=FunctionLoader(_package_file),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(
        count=numbers.count,
        real=numbers.real,
        upper_bound=numbers.upper_bound,
        percent=numbers.percent,
        plain=numbers.plain,
        shown=_shown,
        code=_code,
        numbers_of=claims.numbers_of,
        not_together=claims.not_together,
        only_together=claims.only_together,
    )
    return environment


def _package_file(name: str) -> str:
    return resources.files(_PACKAGE).joinpath(name).read_text("utf-8")


def _charts(report: Mapping[str, Any]) -> dict[str, Markup | list[Markup] | None]:
    return {
        "labels": charts.coverage_bars(report["redaction"].get("masked_tokens_by_label") or {}),
        "shards": _shard_chart(report["shards"]),
        "intervals": _interval_chart(report["miss_rate"]),
        "curves": _curve_chart(report["training"].get("curves") or ()),
        "roc": _roc_chart(report.get("audit") or {}),
        "audited_people": _audited_people(report.get("audit") or {}),
        "miss_rates": _miss_rate_chart(report.get("audit") or {}),
        "downstream": _downstream_charts(
            ((report.get("synthetic") or {}).get("counted") or {}).get("downstream") or {}
        ),
    }


def _coverage(redaction: Mapping[str, Any]) -> dict[str, list[tuple[str, str, int, float | None]]]:
    """Rows (name, note, masked tokens, their share) by policy and by domain; those of policies only watched as well."""
    judged = redaction.get("num_judged_tokens")
    by_policy = [
        (name, note, number, ratio(number, judged))
        for key, note in (("masked_tokens_by_policy", ""), ("observed_tokens_by_policy", "only watched: masks nothing"))
        for name, number in (redaction.get(key) or {}).items()
    ]
    masked = redaction.get("masked_tokens_by_domain") or {}
    tokens = redaction.get("tokens_by_domain") or {}
    by_domain = [(name, "", masked.get(name, 0), ratio(masked.get(name, 0), of)) for name, of in tokens.items()]
    return {"by_policy": by_policy, "by_domain": by_domain}


def _shard_chart(shards: Mapping[str, Any]) -> Markup | None:
    public, private, duplicates = (shards.get(key) for key in ("num_public", "num_private", "num_duplicates"))
    if public is None or private is None:
        return None
    if duplicates is None or duplicates > private:
        return charts.shard_bar([("public", "fill-public", public), ("private", "fill-private", private)])
    return charts.shard_bar(
        [
            ("public", "fill-public", public),
            ("private", "fill-private", private - duplicates),
            ("private, as a duplicate", "fill-duplicate", duplicates),
        ]
    )


def _interval_chart(miss_rate: Mapping[str, Any]) -> Markup | None:
    rate = miss_rate.get("miss_rate") or {}
    lower, upper = rate.get("recommended") or (None, None)
    rows = [charts.Interval("m", rate.get("value"), lower, upper)]
    for name, key in (("γ", "false_negative_rate"), ("δ₂", "delta2")):
        bound = miss_rate.get(key) or {}
        if name == "δ₂" and miss_rate.get("delta2_is_zero_by_construction"):
            continue
        rows.append(charts.Interval(name, bound.get("value"), None, bound.get("upper")))
    return charts.interval_plot(rows)


def _curve_chart(epochs: Sequence[Mapping[str, Any]]) -> Markup | None:
    def points(value: Any) -> list[tuple[float, float]]:
        found = [(row.get("epoch"), value(row)) for row in epochs]
        return [(float(x), float(y)) for x, y in found if x is not None and y is not None]

    curves = {
        "public records, training": points(lambda row: row.get("public_loss")),
        "private records, training": points(lambda row: row.get("private_loss")),
        "held-out text": points(lambda row: (row.get("evaluation") or {}).get("loss")),
    }
    return charts.learning_curves(curves, "epoch", "loss per token (nats)")


def _roc_chart(audit: Mapping[str, Any]) -> Markup | None:
    curves = {
        name.replace("_", " "): points for name, points in ((audit.get("membership") or {}).get("roc") or {}).items()
    }
    if not curves:
        return None
    return charts.learning_curves(curves, "false positive rate", "true positive rate", has_diagonal=True)


def _audited_people(audit: Mapping[str, Any]) -> list[Markup]:
    drawn = []
    for game in audit.get("person") or ():
        shown = [("attacks on a person show at least", game["lower"]["value"])]
        shown += [(f"stated for {claim['whose']}, at most", claim["epsilon"]) for claim in game["claims"]]
        rows = [(name, {"mean": value, "low": None, "high": None}) for name, value in shown]
        drawn.append(dot_plot(rows, Figure(title=f"ε at δ = {numbers.real(game['lower']['delta'])}", least=0.0)))
    return [chart for chart in drawn if chart is not None]


def _miss_rate_chart(audit: Mapping[str, Any]) -> Markup | None:
    """Draws CRT's Figure 3."""
    by_rate = (audit.get("exposure") or {}).get("by_miss_rate") or {}
    curves = {
        f"missed by {missed_by}": [(point["rate"], point["largest_of_ten"]) for point in points]
        for missed_by, points in by_rate.items()
    }
    return charts.learning_curves(curves, "γ, share of secrets that is missed", "largest exposure of ten (bits)")


def _downstream_charts(downstream: Mapping[str, Any]) -> list[Markup]:
    figures = {
        "accuracy": Figure(
            title=f"accuracy of the {downstream.get('classifier_of')} (higher is better)", least=0.0, most=1.0
        ),
        "perplexity": Figure(title="perplexity a word of a trigram model (lower is better)", least=1.0),
        "network": Figure(title="perplexity a word of the run's network (lower is better)", least=1.0),
    }
    found = {**downstream, "network": (downstream.get("network") or {}).get("perplexity")}
    drawn = []
    for name, figure in figures.items():
        rows = [
            (f"trained on {kind} text", {"mean": values["value"], "low": values["low"], "high": values["high"]})
            for kind, values in (found.get(name) or {}).items()
        ]
        drawn.append(dot_plot(rows, figure))
    return [chart for chart in drawn if chart is not None]


def _code(text: str) -> Markup:
    """Text in which what stands between backticks is code."""
    parts = [escape(part) for part in text.split("`")]
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else part for number, part in enumerate(parts)
    )


def _shown(value: Any) -> str:
    """A setting: a value, or how much is hidden."""
    if isinstance(value, Mapping) and set(value) == {"num_values"}:
        num = value["num_values"]
        return "none" if num == 0 else f"{num} value{'' if num == 1 else 's'}, not shown"
    if isinstance(value, Mapping) and set(value) == {"is_set"}:
        return "set, not shown" if value["is_set"] else "not set"
    return "not set" if value is None else numbers.plain(value)
