"""Figures of an estimate about large sentences (`pipelines.miss_rate.large`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipelines.miss_rate.large import Large, Unseen
from pipelines.miss_rate.review import ReviewTable


def unseen_of(table: ReviewTable, large: Large, num_population: int) -> Unseen:
    """Returns the possible misses in large sentences, from those in the replicates."""
    is_large = np.array(table.large, dtype=bool)
    weights = np.array(table.weights)[is_large]
    # Domains are drawn at different rates, so the effective sample size is smaller (Kish).
    worth = float(weights.sum() ** 2 / (weights @ weights) / len(weights)) if len(weights) else 1.0
    missed = np.array(table.missed_secrets) + np.array(table.unstable_secrets)
    return Unseen(
        large=large,
        num_population=num_population,
        num_seen=worth * int(is_large.sum()),
        num_missed=worth * int((missed[is_large] > 0).sum()),
        num_escaped=worth * int((np.array(table.escaped_secrets)[is_large] > 0).sum()),
        num_sentences=sum(table.weights),
    )


def large_figures(
    table: ReviewTable, unseen: Unseen | None, num_unreviewed: int | None, is_census: bool, confidence: float
) -> dict[str, Any]:
    """Returns the figures of large sentences; ``most_missed_secrets`` is the limit that bounds allow for."""
    return {
        "num_reviewed": sum(table.large),
        "num_unreviewed": num_unreviewed,
        "is_reviewed": is_census or unseen is None or not unseen.large.num_population,
        "most_missed_secrets": unseen and unseen.most("missed", (1 + confidence) / 2),
    }


def about_large(unseen: Unseen | None, num_unreviewed: int | None, confidence: float) -> list[str]:
    """Returns a warning if bounds are wide because large sentences were not reviewed, and what to do."""
    if unseen is None or not unseen.large.num_population:
        return []
    most = unseen.most("missed", (1 + confidence) / 2)
    found = (
        f"the bounds allow for {most:,.0f} missed secrets (one a token) in the {unseen.large.num_population:,} large "
        "sentences, because the sample's large part "
    )
    if num_unreviewed:
        return [
            found + f"is not reviewed: review its {num_unreviewed} sentences left (`reticent review`), "
            "and the bounds need no such allowance"
        ]
    return [found + "was not drawn: set sample.large_sentences above 0 and run again"]
