"""``reticent estimate``: estimates what redaction missed, from a corpus or from plain counts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flows.running.fetching import fetch
from pipelines.errors import ConfigError, InputError
from pipelines.graph_names import FIGURES, REIDENTIFICATION
from pipelines.numbers import percent
from pipelines.settings.loading import load_settings

_METHODS = ("student_t", "student_t_clipped", "clopper_pearson", "cluster_robust", "bootstrap", "recommended")
_LABELS = {
    "student_t": "  (as in the paper; no defended confidence)",
    "student_t_clipped": "  (likewise)",
    "clopper_pearson": "  (if units were independent)",
    "cluster_robust": "  (for many misses)",
    "bootstrap": "  (for many misses)",
}


def counts_document(file: Path, confidence: float) -> dict[str, Any]:
    """Estimates the rate from a CSV file with the columns ``missed`` and ``total`` and one row per replicate.

    Raises:
        InputError: the file is missing or has another form.
        ConfigError: the confidence is not between 0.5 and 1.
    """
    from pipelines.miss_rate.counts import estimate_counts, read_counts

    if not 0.5 < confidence < 1:
        raise ConfigError(f"--confidence must lie between 0.5 and 1, not at {confidence:g}")
    try:
        lines = file.read_bytes().decode("utf-8-sig").splitlines()
    except FileNotFoundError:
        raise InputError(f"{file} does not exist; give a CSV file with the columns missed,total") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read as UTF-8 text ({type(error).__name__})") from None
    return estimate_counts(read_counts(lines, file.name), confidence)


def counts_text(document: Mapping[str, Any]) -> str:
    """Formats the estimates from counts for people."""
    upper, method = document["upper_bound"], document["recommended_method"]
    lines = [
        f"{document['num_missed']:,} missed of {document['num_total']:,} in {document['num_replicates']} replicates",
        f"  {'mean of the replicates':<24} {percent(document['mean'])}",
        f"  {'all together':<24} {percent(document['pooled'])}",
        *(f"  {name.replace('_', ' '):<24} {_interval(document[name])}{_LABELS.get(name, '')}" for name in _METHODS),
        f"  {'one-sided upper bound':<24} {'none' if upper is None else percent(upper, upper=True)}",
        f"recommended ({'none' if method is None else method.replace('_', ' ')}): {document['reason']}",
        *([f"assumes that {document['assumption']}"] if document["assumption"] else []),
        *(f"warning: {warning}" for warning in document["warnings"]),
    ]
    return "\n".join(lines)


def _interval(pair: Any) -> str:
    return "none" if pair is None else f"{percent(pair[0], lower=True)} to {percent(pair[1], upper=True)}"


def estimate_document(config: Path, environ: Mapping[str, str]) -> dict[str, Any]:
    """Returns the figures of the estimate stage, brought up to date with the newest reviews, and those of links.

    Raises:
        ReticentError: a stage failed.
    """
    session, keys = fetch(load_settings(config, environ), "estimate")
    ((_, key),) = keys["estimate"]
    files = session.roots.private_files("estimate", key)
    figures: dict[str, Any] = files.json(FIGURES)
    links = {name: value for name, value in (files.find_json(REIDENTIFICATION) or {}).items() if name != "links"}
    return figures | ({"reidentification": links} if links else {})


def estimate_text(document: Mapping[str, Any]) -> str:
    """Formats the three rates and their bounds for people."""
    links = _links(document["reidentification"]) if "reidentification" in document else []
    if document["source"] == "not_measured":
        return "\n".join(["not measured", *links, *(f"warning: {warning}" for warning in document["warnings"])])
    sentences = f"{document['num_sampled_sentences']:,} sentences"
    judged = f"judged by {document['source']}" + (" (a census)" if document["is_census"] else "")
    lines = [f"{sentences}, {document['num_secret_spans']:,} secrets in them, {judged}"]
    m, confidence = document["miss_rate"], f"{document['confidence']:.0%}"
    lines.append(
        f"  {'m      missed tokens / all tokens':<40} {_rate(m['value'])}  {confidence} {_interval(m['recommended'])}"
    )
    for name, key in (
        ("gamma  not masked stably / secrets", "false_negative_rate"),
        ("       not masked / secrets", "false_negative_rate_masked"),
        ("delta2 not masked, in public", "delta2"),
    ):
        rate = document[key]
        lines.append(f"  {name:<40} {_rate(rate['value'], upper=True)}  at most {percent(rate['upper'], upper=True)}")
    lines.append(f"  {'recall':<40} {_rate(document['recall'])}")
    lines.append(f"  {'precision':<40} {_rate(document['precision'])}")
    lines.append(f"  {'recall, 1 - m/Pct as in the paper':<40} {_rate(document['recall_as_in_jft'])}")
    lines.append(f"gamma and delta2 are {document['mu']}")
    if worst := document.get("worst_label"):
        gamma, delta2 = (worst[key]["upper"] for key in ("false_negative_rate", "delta2"))
        lines.append(
            f"claims about a random secret take the worst of {worst['num_labels']} labels, because an attacker may "
            f"know the secret's kind: gamma at most {percent(gamma, upper=True)}, delta2 at most "
            f"{percent(delta2, upper=True)}"
        )
    lines += [f"  {label}: {_row(row)}" for label, row in document["by_label"].items()]
    lines += [f"  domain {domain}: {_row(row)}" for domain, row in document.get("by_domain", {}).items()]
    lines += [*links, *(f"warning: {warning}" for warning in document["warnings"])]
    return "\n".join(lines)


def _links(links: Mapping[str, Any]) -> list[str]:
    """Formats how many documents could be linked to a table of people."""
    number, confidence = links["num_documents"], f"{links['confidence']:.0%}"
    lines = [f"links of {number:,} documents to a table of {links['num_rows']:,} rows (an estimate; no claim uses it)"]
    for name, key in (("one row fits best", "best"), ("its lead exceeds chance", "linked"), ("correct", "correct")):
        if links["original"][key] is not None:
            counts = (
                f"{links[text][f'num_{key}']:,} {text} ({confidence} {_interval(links[text][key])})"
                for text in ("original", "redacted")
            )
            lines.append(f"  {name:<24} {', '.join(counts)}")
    shares = ", ".join(f"{links[text]['false_links']:.3f} {text}" for text in ("original", "redacted"))
    lines.append(f"  {'share with such a lead in shuffled tables':<24} {shares}")
    return lines


def _row(row: Mapping[str, Any]) -> str:
    counts = f"{row['num_missed_spans']:,} of {row['num_secret_spans']:,} missed"
    if row["num_unstable_spans"]:
        counts += f" ({row['num_unmasked_spans']:,} not masked, {row['num_unstable_spans']:,} not stably)"
    return f"{counts}, at most {percent(row['false_negative_rate_upper'], upper=True)}"


def _rate(value: float | None, *, upper: bool = False) -> str:
    return f"{'unknown' if value is None else percent(value, upper=upper):<8}"
