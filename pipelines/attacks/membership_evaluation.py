"""Evaluation of membership scores: ROC, AUC, accuracy, and their intervals for the number of records.

There are scores of m members and n non-members, higher for likelier members. Equal scores count half in the AUC and
share a point of the ROC. Intervals hold for records that are independent draws.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy import stats

from pipelines.intervals import clopper_pearson, clopper_pearson_upper

FloatArray = npt.NDArray[np.float64]
Interval = tuple[float, float]

FALSE_POSITIVE_RATES: Final = (0.1, 0.01, 0.001)
_RESAMPLES_AT_ONCE: Final = 100
_MOST_POINTS: Final = 200


@dataclass(frozen=True, kw_only=True)
class OperatingPoint:
    """The most members found at a false positive rate up to the wanted one.

    Attributes:
        wanted: wanted false positive rate.
        true_positive_rate: share of members found.
        interval: interval of that share, by bootstrap over members and non-members.
        num_false_positives: number of non-members taken for members.
        false_positive_rate_upper: upper bound on the false positive rate, by Clopper and Pearson.
        is_resolved: true if there are enough non-members for one of them to be within the wanted rate. If not, the
            point has no false positive, and says little about the wanted rate.
    """

    wanted: float
    true_positive_rate: float
    interval: Interval
    num_false_positives: int
    false_positive_rate_upper: float
    is_resolved: bool


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """The share of right answers on as many members as non-members, at a threshold chosen on other records.

    Attributes:
        value: accuracy; one half for a guess.
        interval: interval by Clopper and Pearson.
        threshold: least score of records taken for members: the best threshold of the half that is not measured.
        num_measured: number of measured records.
    """

    value: float
    interval: Interval
    threshold: float
    num_measured: int


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The figures of one score.

    Attributes:
        num_members, num_non_members: numbers of scored records, or groups of records.
        auc: probability that a member scores above a non-member.
        auc_interval: DeLong interval on the logit scale.
        auc_bootstrap: percentile interval over resampled members and non-members.
        p_value: one-sided p-value of an AUC above one half (Mann and Whitney).
        accuracy: accuracy at a threshold chosen on the other half; None below four members or non-members.
        points: operating point of each wanted false positive rate.
        roc: pairs of false and true positive rate, thinned.
    """

    num_members: int
    num_non_members: int
    auc: float
    auc_interval: Interval
    auc_bootstrap: Interval
    p_value: float
    accuracy: Accuracy | None
    points: tuple[OperatingPoint, ...]
    roc: tuple[Interval, ...]


def evaluate(
    members: FloatArray,
    non_members: FloatArray,
    *,
    generator: np.random.Generator,
    confidence: float = 0.95,
    num_resamples: int = 1_000,
    false_positive_rates: Sequence[float] = FALSE_POSITIVE_RATES,
) -> Evaluation:
    """Computes all figures of one score.

    Args:
        members: (m,) scores.
        non_members: (n,) scores.
        generator: generator that draws halves and resamples.
        confidence: confidence of each interval, two-sided.
        num_resamples: number of resamples of the bootstrap.
        false_positive_rates: false positive rates at which to read the ROC.

    Raises:
        ValueError: there are fewer than two members or non-members, or a score is not a finite number.
    """
    if min(len(members), len(non_members)) < 2 or not (np.isfinite(members).all() and np.isfinite(non_members).all()):
        raise ValueError("a score needs two members and two non-members at least, and finite numbers")
    aucs, rates = _bootstrap(members, non_members, false_positive_rates, num_resamples, generator)
    tails = ((1 - confidence) / 2, (1 + confidence) / 2)
    num_members, num_non_members = len(members), len(non_members)
    false, true = roc_counts(members, non_members)
    points = []
    for column, wanted in enumerate(false_positive_rates):
        at = int(np.flatnonzero(false <= wanted * num_non_members + 1e-9)[-1])
        low, high = np.quantile(rates[:, column], tails)
        points.append(
            OperatingPoint(
                wanted=wanted,
                true_positive_rate=float(true[at]) / num_members,
                interval=(float(low), float(high)),
                num_false_positives=int(false[at]),
                false_positive_rate_upper=clopper_pearson_upper(int(false[at]), num_non_members, confidence),
                is_resolved=bool(wanted * num_non_members >= 1 - 1e-9),
            )
        )
    low, high = np.quantile(aucs, tails)
    shown = _thinned(len(false))
    return Evaluation(
        num_members=num_members,
        num_non_members=num_non_members,
        auc=auc(members, non_members),
        auc_interval=auc_interval(members, non_members, confidence),
        auc_bootstrap=(float(low), float(high)),
        p_value=auc_p_value(members, non_members),
        accuracy=accuracy_at_a_threshold_of_the_other_half(members, non_members, generator, confidence),
        points=tuple(points),
        roc=tuple((float(false[i]) / num_non_members, float(true[i]) / num_members) for i in shown),
    )


def roc_counts(members: FloatArray, non_members: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Returns false and true positives at each threshold, from none to all. Equal scores share a point."""
    pooled = np.concatenate([members, non_members])
    order = np.argsort(-pooled, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(pooled[order]) != 0, True))
    is_member = order < len(members)
    true, false = np.cumsum(is_member)[ends], np.cumsum(~is_member)[ends]
    return np.append(0.0, false), np.append(0.0, true)


def auc(members: FloatArray, non_members: FloatArray) -> float:
    """Returns the probability that a member scores above a non-member, ties half (Mann and Whitney)."""
    return float(_placements(members, non_members)[0].mean())


def _placements(members: FloatArray, non_members: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Returns the share of non-members below each member, and of members above each non-member (DeLong 1988)."""
    num_members, num_non_members = len(members), len(non_members)
    ranks = stats.rankdata(np.concatenate([members, non_members]))
    above = (ranks[:num_members] - stats.rankdata(members)) / num_non_members
    below = 1 - (ranks[num_members:] - stats.rankdata(non_members)) / num_members
    return above, below


def auc_interval(members: FloatArray, non_members: FloatArray, confidence: float) -> Interval:
    """Returns DeLong's interval (DeLong, DeLong and Clarke-Pearson 1988, equation 2) on the logit scale.

    With an AUC of 0 or 1 nothing varies. Then min(m, n) disjoint pairs are counted, all in the same order (Clopper and
    Pearson).
    """
    above, below = _placements(members, non_members)
    value = float(above.mean())
    error = math.sqrt(above.var(ddof=1) / len(above) + below.var(ddof=1) / len(below))
    if error == 0 or not 0 < value < 1:
        pairs = min(len(members), len(non_members))
        return clopper_pearson(value * pairs, pairs, confidence)
    reach = float(stats.norm.ppf((1 + confidence) / 2)) * error / (value * (1 - value))
    centre = math.log(value / (1 - value))
    return 1 / (1 + math.exp(reach - centre)), 1 / (1 + math.exp(-reach - centre))


def auc_p_value(members: FloatArray, non_members: FloatArray) -> float:
    """Returns the one-sided p-value of the AUC if both have one distribution; exact for few scores without ties."""
    if np.ptp(np.concatenate([members, non_members])) == 0:
        return 1.0
    return float(stats.mannwhitneyu(members, non_members, alternative="greater", method="auto").pvalue)


def auc_difference(
    members: tuple[FloatArray, FloatArray], non_members: tuple[FloatArray, FloatArray], confidence: float
) -> tuple[float, Interval, float]:
    """Returns the first score's AUC less the second's on the same records, by DeLong's covariances.

    Args:
        members: (m,) scores of either kind, of the same records in the same order.
        non_members: (n,) scores of either kind, likewise.
        confidence: confidence of the interval, two-sided.

    Returns:
        The difference, its interval, and the one-sided p-value of a difference above 0.
    """
    first, second = (_placements(members[i], non_members[i]) for i in (0, 1))
    above, below = first[0] - second[0], first[1] - second[1]
    difference = float(above.mean())
    error = math.sqrt(above.var(ddof=1) / len(above) + below.var(ddof=1) / len(below))
    if error == 0:
        return difference, (difference, difference), 1.0 if difference <= 0 else 0.0
    reach = float(stats.norm.ppf((1 + confidence) / 2)) * error
    return difference, (difference - reach, difference + reach), float(stats.norm.sf(difference / error))


def accuracy_at_a_threshold_of_the_other_half(
    members: FloatArray, non_members: FloatArray, generator: np.random.Generator, confidence: float
) -> Accuracy | None:
    """Measures as many members as non-members: a random half of each chooses the threshold for the other half."""
    size = min(len(members), len(non_members))
    if size < 4:
        return None
    inside, outside = (generator.permutation(scores)[:size] for scores in (members, non_members))
    half = size // 2
    threshold = best_threshold(inside[:half], outside[:half])
    right = int((inside[half:] >= threshold).sum() + (outside[half:] < threshold).sum())
    measured = 2 * (size - half)
    return Accuracy(
        value=right / measured,
        interval=clopper_pearson(right, measured, confidence),
        threshold=threshold,
        num_measured=measured,
    )


def best_threshold(members: FloatArray, non_members: FloatArray) -> float:
    """Returns the least score of members with the best accuracy on as many of either; the least of equal ones."""
    candidates = np.unique(np.concatenate([members, non_members]))
    missed = np.searchsorted(np.sort(members), candidates, "left")
    spared = np.searchsorted(np.sort(non_members), candidates, "left")
    return float(candidates[np.argmax(spared - missed)])


def _bootstrap(
    members: FloatArray,
    non_members: FloatArray,
    wanted: Sequence[float],
    num_resamples: int,
    generator: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """Returns (B,) AUCs and (B, F) true positive rates over resampled members and non-members (Efron 1979)."""
    pooled = np.concatenate([members, non_members])
    order = np.argsort(-pooled, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(pooled[order]) != 0))
    sizes = len(members), len(non_members)
    aucs, rates = [], []
    for first in range(0, num_resamples, _RESAMPLES_AT_ONCE):
        num = min(_RESAMPLES_AT_ONCE, num_resamples - first)
        drawn = [generator.multinomial(size, np.full(size, 1 / size), size=num) for size in sizes]
        times = np.concatenate(drawn, axis=1)[:, order]  # (b, m + n) how often each record was drawn
        is_member = order < sizes[0]
        counts = [np.add.reduceat(times * kind, starts, axis=1).cumsum(axis=1) for kind in (is_member, ~is_member)]
        true, false = (np.pad(count, ((0, 0), (1, 0))) / size for count, size in zip(counts, sizes, strict=True))
        aucs.append(((true[:, 1:] + true[:, :-1]) / 2 * np.diff(false, axis=1)).sum(axis=1))
        last = [(false <= rate + 1e-12).sum(axis=1) - 1 for rate in wanted]
        rates.append(np.stack([true[np.arange(num), at] for at in last], axis=1))
    return np.concatenate(aucs), np.concatenate(rates)


def _thinned(num: int) -> npt.NDArray[np.int64]:
    """Returns the shown points of a ROC: all of the first, because they are the low rates."""
    first = np.arange(min(num, _MOST_POINTS // 4))
    return np.unique(np.concatenate([first, np.linspace(0, num - 1, _MOST_POINTS).round().astype(np.int64)]))


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Adjusts the p-values of several tests (Holm 1979).

    If all null hypotheses hold, some p-value falls below a level with at most that probability.
    """
    adjusted, least = {}, 0.0
    for rank, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[name]))
        adjusted[name] = least
    return {name: adjusted[name] for name in p_values}
