"""The miss rate from plain counts: the numbers of missed tokens and of all tokens, one row per replicate.

JFT's own files hold only these counts. They do not separate sentences, so a replicate is the cluster.
"""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipelines import intervals
from pipelines.errors import InputError
from pipelines.intervals import ClusteredCounts, Interval

_REQUIRED = ("missed", "total")
_OPTIONAL = "sentences"


@dataclass(frozen=True)
class ReplicateCounts:
    """The counts of each replicate.

    Attributes:
        missed: number of missed sensitive tokens (or secrets).
        total: number of all tokens (or secrets); at least ``missed`` and above 0.
        sentences: number of sentences that hold them, if known.
    """

    missed: tuple[int, ...]
    total: tuple[int, ...]
    sentences: tuple[int, ...] | None = None


def read_counts(lines: Iterable[str], source: str) -> ReplicateCounts:
    """Reads CSV text with the columns ``missed``, ``total`` and, if you have it, ``sentences``.

    Args:
        lines: lines of the file; the first names the columns. Other columns are ignored.
        source: name of the file, for messages.

    Raises:
        InputError: a column is missing, a value is impossible or no whole number, or there is no row.
    """
    try:
        reader = csv.DictReader(lines, skipinitialspace=True, strict=True)
        names = [(name or "").strip().lstrip("\ufeff").lower() for name in reader.fieldnames or ()]
        reader.fieldnames = names
        rows = list(reader)
    except csv.Error as error:
        raise InputError(f"{source}: not a CSV file: {error}") from None
    if missing := [name for name in _REQUIRED if name not in names]:
        raise InputError(f"{source}: no column named {missing[0]}; the first line must read missed,total")
    if not rows:
        raise InputError(f"{source}: no counts below the first line; give one row per replicate")
    columns: dict[str, list[int]] = {name: [] for name in (*_REQUIRED, _OPTIONAL) if name in names}
    for number, row in enumerate(rows, start=2):
        for name, values in columns.items():
            values.append(_whole_number(row[name], f"{source}, row {number}: {name}"))
        if columns["total"][-1] == 0:
            raise InputError(f"{source}, row {number}: total is 0, which gives no rate; leave the replicate out")
        if columns["missed"][-1] > columns["total"][-1]:
            raise InputError(f"{source}, row {number}: missed is larger than total")
    sentences = tuple(columns[_OPTIONAL]) if _OPTIONAL in columns else None
    if sentences is not None and any(not 0 < n <= t for n, t in zip(sentences, columns["total"], strict=True)):
        raise InputError(f"{source}: sentences must lie between 1 and total in every row")
    return ReplicateCounts(tuple(columns["missed"]), tuple(columns["total"]), sentences)


def _whole_number(text: object, where: str) -> int:
    try:
        value = int(str(text).strip())
    except ValueError:
        value = -1
    if not 0 <= value < 2**53:
        raise InputError(f"{where} must be a whole number, not negative")
    return value


def estimate_counts(counts: ReplicateCounts, confidence: float, seed: int = 0) -> dict[str, Any]:
    """Computes all estimates and intervals that plain counts allow.

    Returns:
        ``mean`` of the replicates' rates (the paper's estimate) and ``pooled`` rate; the intervals ``student_t``
        (the paper's), ``student_t_clipped``, ``clopper_pearson``, ``cluster_robust``, ``bootstrap``; ``upper_bound``
        (one-sided), ``design_effect``, and ``recommended`` with ``recommended_method``, ``reason``, and the
        ``assumption`` that they need. An interval that does not exist, or that cannot be defended, is null.
    """
    clusters = ClusteredCounts.of(counts.missed, counts.total)
    rates = np.asarray(counts.missed) / np.asarray(counts.total)
    num_missed, num_total = sum(counts.missed), sum(counts.total)
    paper = intervals.student_t(rates, confidence)
    exact = intervals.clopper_pearson(num_missed, num_total, confidence)
    robust = intervals.cluster_robust(clusters, confidence)
    sums = _sums(clusters, counts)
    if robust is None and num_missed == 0:
        robust = _floats(intervals.korn_graubard_of(sums, confidence))
    method: str | None
    recommended: Interval | None
    upper: float | None
    if (len(rates) > 1 and num_missed) or counts.sentences is not None:
        method, recommended = "korn_graubard", _floats(intervals.korn_graubard_of(sums, confidence))
        upper = float(intervals.korn_graubard_upper_of(sums, confidence))
    else:  # the rows show no spread, so nothing says how misses cluster
        method, recommended = None, None
        upper = None
    return {
        "num_replicates": len(rates),
        "num_missed": num_missed,
        "num_total": num_total,
        "confidence": confidence,
        "mean": float(rates.mean()),
        "pooled": num_missed / num_total,
        "student_t": paper,
        "student_t_clipped": intervals.clip(paper) if paper else None,
        "clopper_pearson": exact,
        "cluster_robust": robust,
        "bootstrap": intervals.bootstrap(clusters, confidence, np.random.default_rng(seed)),
        "design_effect": num_total / float(intervals.effective_size(sums, 0.05)) if method else None,
        "upper_bound": upper,
        "recommended": recommended,
        "recommended_method": method,
        "reason": _REASONS[method],
        "assumption": _ASSUMPTION if method else None,
        "warnings": _warnings(counts, paper, method),
    }


_REASONS: dict[str | None, str] = {
    "korn_graubard": "exact binomial interval at the effective sample size, which is measured from the spread of the "
    "rows: misses come in clusters, which clopper_pearson ignores; student_t (as in the paper) knows no bounds and "
    "gives no length to zero misses",
    None: "without a miss, or with a single row, the rows show no spread that a design effect could be measured from, "
    "so no interval can be defended; give the column sentences (sentences in each row). clopper_pearson holds only if "
    "units are independent",
}
_ASSUMPTION = (
    "the rows are random samples, and no sentence, seen or unseen, holds far more units than the others: totals cannot "
    "show rare sentences that hold many, such as lists. `reticent estimate` on a corpus can"
)


def _sums(clusters: ClusteredCounts, counts: ReplicateCounts) -> intervals.ClusterSums:
    """Returns rows as clusters. Without a spread between rows, each sentence is a cluster, if their number is known."""
    sums = dataclasses.replace(clusters.sums(), worst_hits=np.float64(0.0), worst_units=np.float64(0.0))
    if counts.sentences is None or (len(counts.total) > 1 and any(counts.missed)):
        return sums
    return dataclasses.replace(sums, clusters=np.float64(sum(counts.sentences)), units_squared=np.float64(0.0))


def _floats(interval: tuple[Any, Any]) -> Interval:
    return float(interval[0]), float(interval[1])


def _warnings(counts: ReplicateCounts, paper: Interval | None, method: str | None) -> list[str]:
    found = []
    if not any(counts.missed):
        found.append("no miss was found; that shows an upper bound, not a rate of 0")
    if method is None:
        found.append(
            "no interval is recommended: totals without a spread do not show how misses cluster; a column named "
            "sentences (sentences in each row) gives one"
        )
    if paper is None:
        found.append("a single row gives no Student-t interval")
    elif paper[0] == paper[1]:
        found.append("the Student-t interval (as in the paper) has no length, because all rows have the same rate")
    elif intervals.clip(paper) != paper:
        found.append("the Student-t interval (as in the paper) leaves the range 0 to 1; a clipped one is given too")
    return found
