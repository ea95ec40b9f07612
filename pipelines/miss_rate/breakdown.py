"""Rates gamma and delta2 of each label and of each domain, with bounds that hold for all of them at once.

A secret counts as missed if a token of it is unmasked, or if it is masked and its redaction is unstable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from pipelines import intervals
from pipelines.intervals import ClusteredCounts
from pipelines.miss_rate.large import Unseen
from pipelines.miss_rate.review import LabelCount, ReviewTable

MU_OF_ONE_LABEL: Final = (
    "uniform over the pairs (sentence, labelled secret) of one kind (label), the worst one, of the training sentences "
    "that are left after deduplication"
)
"""Distribution for an attacker who knows the kind of a secret."""


def columns_sum(first: Sequence[int], second: Sequence[int]) -> list[int]:
    """Returns the sums of two columns, row by row."""
    return [a + b for a, b in zip(first, second, strict=True)]


def bounded(
    counts: ClusteredCounts,
    is_census: bool,
    confidence: float,
    unseen: Unseen | None = None,
    kind: str = "missed",
    num_units: float = 0.0,
) -> dict[str, Any]:
    """Returns a rate with its one-sided upper bound. A census has no sampling error.

    Args:
        counts: counts of the reviewed sentences.
        is_census: true if all sentences were reviewed.
        confidence: confidence of the bound.
        unseen: possible misses in large sentences; None if the large part of the sample was reviewed.
        kind: ``missed`` or ``escaped``.
        num_units: number of secrets, weighted as the sentences; needed with ``unseen``.
    """
    value = counts.value
    if is_census:
        return {"value": value, "upper": value, "confidence": 1.0}
    if unseen is None or not unseen.large.num_population:
        upper = intervals.ratio_upper(counts, confidence)
    else:  # each part errs with half the probability
        half = (1 + confidence) / 2
        upper = min(1.0, intervals.ratio_upper(counts, half) + unseen.added(kind, num_units, half))
    return {"value": value, "upper": upper, "confidence": confidence}


def weighted(columns: Sequence[float], weights: Sequence[float]) -> float:
    """Returns the weighted sum of a column."""
    return float(np.asarray(columns, dtype=np.float64) @ np.asarray(weights, dtype=np.float64))


def ratio(numerator: float, denominator: float) -> float | None:
    """Returns a quotient, or None if the denominator is 0."""
    return numerator / denominator if denominator else None


def _row(
    table: ReviewTable, num_secrets: int, num_unmasked: int, num_unstable: int, bound: dict[str, Any]
) -> dict[str, Any]:
    """Returns the figures of one label or domain."""
    return {
        "num_secret_spans": num_secrets,
        "num_missed_spans": num_unmasked + num_unstable,
        "num_unmasked_spans": num_unmasked,
        "num_unstable_spans": num_unstable if table.has_stability else None,
        "false_negative_rate": bound["value"],
        "false_negative_rate_upper": bound["upper"],
    }


def by_domain(
    table: ReviewTable, is_census: bool, confidence: float, unseen: Unseen | None = None
) -> dict[str, dict[str, Any]]:
    """Returns gamma of each of several domains, with bounds that hold for all of them at once (Bonferroni)."""
    if len(table.domain_names) < 2:
        return {}
    domains = np.array(table.domains)
    unmasked, unstable = np.array(table.missed_secrets), np.array(table.unstable_secrets)
    missed, secrets, weights = unmasked + unstable, np.array(table.secrets), np.array(table.weights)
    each = 1 - (1 - confidence) / len(table.domain_names)
    found = {}
    for number, name in enumerate(table.domain_names):
        here = domains == number
        counts = ClusteredCounts.of(missed[here], secrets[here], weights=weights[here])
        bound = bounded(counts, is_census, each, unseen, "missed", weighted(secrets[here], weights[here]))
        num_secrets, num_unmasked, num_unstable = (int(column[here].sum()) for column in (secrets, unmasked, unstable))
        row = _row(table, num_secrets, num_unmasked, num_unstable, bound)
        found[name] = {"num_sentences": int(here.sum()), **row}
    return dict(sorted(found.items()))


def by_label(
    table: ReviewTable, is_census: bool, confidence: float, unseen: Unseen | None = None
) -> dict[str, tuple[LabelCount, tuple[dict[str, Any], dict[str, Any]]]]:
    """Returns gamma and delta2 of each label, with bounds that hold for all labels at once (Bonferroni).

    A label that exists but is not in the sample has the bound 1. In a census, such a label is only in duplicates and is
    left out.
    """
    counts = {name: count for name, count in table.labels.items() if count.num_secrets or not is_census}
    each = 1 - (1 - confidence) / len(counts) if counts else confidence
    found = {}
    for name, count in counts.items():
        missed = ClusteredCounts.of(columns_sum(count.missed, count.unstable), count.secrets, weights=count.weights)
        escaped = ClusteredCounts.of(count.escaped, count.secrets, weights=count.weights)
        units = weighted(count.secrets, count.weights)
        gamma = bounded(missed, is_census, each, unseen, "missed", units)
        found[name] = count, (gamma, bounded(escaped, is_census, each, unseen, "escaped", units))
    return found


def label_rows(
    table: ReviewTable, is_census: bool, confidence: float, unseen: Unseen | None = None
) -> dict[str, dict[str, Any]]:
    """Returns `by_label` as figures."""
    return {
        label: _row(table, count.num_secrets, count.num_missed, count.num_unstable, bounds[0])
        for label, (count, bounds) in sorted(by_label(table, is_census, confidence, unseen).items())
    }


def worst_label(
    table: ReviewTable, is_census: bool, confidence: float, unseen: Unseen | None = None
) -> dict[str, Any] | None:
    """Returns the largest gamma and the largest delta2 of any label, each with a bound for all labels at once."""
    found = [bounds for count, bounds in by_label(table, is_census, confidence, unseen).values()]
    if not found or all(gamma["value"] is None for gamma, _ in found):
        return None
    worst = [
        {
            "value": max(bounds[which]["value"] or 0.0 for bounds in found),
            "upper": max(bounds[which]["upper"] for bounds in found),
            "confidence": 1.0 if is_census else confidence,
        }
        for which in (0, 1)
    ]
    return {"num_labels": len(found), "mu": MU_OF_ONE_LABEL, "false_negative_rate": worst[0], "delta2": worst[1]}
