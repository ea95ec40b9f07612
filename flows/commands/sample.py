"""``reticent sample``: draws sentences for review, and computes how many a bound needs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flows.running.fetching import figures_of
from flows.running.spec import open_store
from pipelines.errors import ConfigError
from pipelines.graph_names import FIGURES
from pipelines.settings.loading import load_settings
from pipelines.store.objects import runs


def sample_document(config: Path, environ: Mapping[str, str]) -> dict[str, Any]:
    """Returns the design of the sample: population, replicates, strata, inclusion probabilities.

    Raises:
        ReticentError: a stage failed.
    """
    return figures_of(load_settings(config, environ), "sample")


def sample_text(document: Mapping[str, Any]) -> str:
    """Formats the design for people."""
    sizes = [replicate["num_sentences"] for replicate in document["replicates"]]
    each = f"{sizes[0]:,}" if len(set(sizes)) == 1 else f"{min(sizes):,} to {max(sizes):,}"
    lines = [
        f"{document['num_distinct_sentences']:,} of {document['num_population_sentences']:,} training sentences: "
        f"{len(sizes)} replicates of {each}" + (" (a census)" if document["is_census"] else ""),
        *(
            f"  domain {'(none)' if row['domain'] is None else row['domain']}: {row['num_sentences']:,} a replicate of "
            f"{row['num_population_sentences']:,} (inclusion probability {row['inclusion_probability']:.6f})"
            for row in document["strata"]
            if document["stratify"] == "domain"
        ),
        *_large_lines(document.get("large", {"num_sentences": 0, "classes": []})),
        f"manual screening (JFT): {document['num_screening_sentences']:,} sentences",
        *(f"warning: {warning}" for warning in document["warnings"]),
        "next: reticent review",
    ]
    return "\n".join(lines)


def _large_lines(large: Mapping[str, Any]) -> list[str]:
    number = sum(row["num_population_sentences"] for row in large["classes"])
    if not number:
        return []
    return [
        f"large sentences: {large['num_sentences']:,} more of {number:,}, such as lists, which may hold many secrets"
    ]


def plan_document(
    config: Path,
    environ: Mapping[str, str],
    *,
    target: str,
    bound: float,
    confidence: float,
    expected_rate: float,
    assurance: float,
    design_effect: float | None,
    units_per_sentence: float | None,
) -> dict[str, Any]:
    """Computes how many secrets, tokens and sentences to review.

    Args:
        config: settings file; if it exists and its last run was measured, density and design effect come from that run
        target: rate to bound, ``gamma``, ``miss_rate`` or ``delta2``
        bound, confidence, expected_rate, assurance: arguments of `pipelines.miss_rate.planning`
        design_effect, units_per_sentence: values that replace the last run's measurements

    Raises:
        ConfigError: a value is out of range.
    """
    from pipelines.miss_rate.planning import UNITS, plan

    if target not in UNITS:
        raise ConfigError(f"--target must be one of {', '.join(UNITS)}, not {target}")
    known = _last_estimate(config, environ)
    measured = known.get("planning", {}).get(target, {})
    return plan(
        target,  # type: ignore[arg-type]
        bound=bound,
        confidence=confidence,
        expected_rate=expected_rate,
        assurance=assurance,
        design_effect=design_effect if design_effect is not None else measured.get("design_effect") or 1.0,
        units_per_sentence=units_per_sentence if units_per_sentence is not None else measured.get("units_per_sentence"),
        num_population=known.get("num_population_sentences"),
    )


def _last_estimate(config: Path, environ: Mapping[str, str]) -> dict[str, Any]:
    """Returns figures of the last run's estimate and sample; empty without a project or a run."""
    if not config.is_file():
        return {}
    roots = open_store(load_settings(config, environ))
    record = runs.latest(roots)
    found: dict[str, Any] = {}
    for stage in ("sample", "estimate"):
        if (key := runs.key_in(record, stage)) is not None:
            found |= roots.private_files(stage, key).find_json(FIGURES) or {}
    return found


def plan_text(document: Mapping[str, Any]) -> str:
    """Formats the plan for people."""
    unit, rate = document["unit"], document["expected_rate"]
    lines = [
        f"to show {document['target']} <= {document['bound']:g} at confidence {document['confidence']:g}, review "
        f"{document['num_units']:,} {unit}"
    ]
    if rate:
        lines.append(
            f"  at an expected rate of {rate:g}, up to {document['num_misses_allowed']:,} of them may be missed; that "
            f"many suffice with probability {document['assurance']:g}"
        )
        lines.append(f"  if none is missed, {document['num_units_if_none_is_missed']:,} {unit} are enough")
    else:
        lines.append("  none of which may be missed; give --expected-rate if you expect some misses")
    if document["num_sentences"] is None:
        lines.append(f"  in sentences: unknown; give --units-per-sentence ({unit} in an average sentence)")
    elif document["is_census"]:
        lines.append(f"  in sentences: all {document['num_sentences']:,} training sentences")
    else:
        lines.append(
            f"  in sentences: about {document['num_sentences']:,}, at {document['units_per_sentence']:.3g} {unit} "
            f"each, and up to {document['num_large_sentences']:,} large ones"
        )
    if document["design_effect"] > 1:
        lines.append(f"  includes clustering: design effect {document['design_effect']:.3g}")
    return "\n".join(lines)
