"""Membership inference with the papers' protocols, compared with baselines that cannot know members.

Selective DP (Shi et al. 2022, section 5.1) takes 500 members and 500 others, CRT (Zhao et al. 2022, appendix A.4) 1,000
and 1,000, and 1,000 groups of 20 of either. The score is the perplexity. The figure is the accuracy of the threshold,
one half for a guess. The papers' non-members were invented in a similar form, so a difference between the two sources
counted as a leak. Here both come from one source, and the accuracies of the blind classifier and of a model that never
saw the records are measured in the same way and subtracted.

CRT's groups share records: 20,000 places for 1,000 records. They are not independent, so there is no valid interval and
none is given. `pipelines.attacks.membership` has groups that share no record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pipelines.attacks.membership_evaluation import (
    FloatArray,
    Interval,
    accuracy_at_a_threshold_of_the_other_half,
    auc,
    auc_interval,
)

OVERLAP: Final = (
    "groups share records and are not independent: no interval and no test that takes them for independent holds, so "
    "none is given"
)


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """The protocol of a paper.

    Attributes:
        name: name of the paper.
        source: section of the paper.
        num_records: number of members, and of others.
        group_size: number of records of a group; None: no groups.
        num_groups: number of groups of members, and of others; the groups overlap.
    """

    name: str
    source: str
    num_records: int
    group_size: int | None = None
    num_groups: int = 0


PROTOCOLS: Final = (
    Protocol(name="selective_dp", source="Shi et al. 2022, section 5.1", num_records=500),
    Protocol(name="crt", source="Zhao et al. 2022, appendix A.4", num_records=1_000, group_size=20, num_groups=1_000),
)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The figures of one kind of records.

    Attributes:
        accuracy: accuracy of one half at a threshold that the other half chose.
        accuracy_interval: interval by Clopper and Pearson; None for overlapping groups.
        auc: area below the ROC.
        auc_interval: interval by DeLong; None for overlapping groups.
        baselines: accuracy of each baseline (sees only texts, or never saw the records), by name.
        accuracy_over: accuracy less the best of one half and all baselines; below zero if one of them is better.
        warning: limits of the figures; None if there are none.
    """

    accuracy: float
    accuracy_interval: Interval | None
    auc: float
    auc_interval: Interval | None
    baselines: Mapping[str, float]
    accuracy_over: float
    warning: str | None


@dataclass(frozen=True, kw_only=True)
class ProtocolResult:
    """The figures of a protocol.

    Attributes:
        protocol: protocol of a paper.
        individual: figures of single records.
        overlapping_groups: figures of groups that share records; None if the paper tried none.
    """

    protocol: Protocol
    individual: Measured
    overlapping_groups: Measured | None


def as_the_papers(
    scores: Mapping[str, float],
    baselines: Mapping[str, Mapping[str, float]],
    members: Sequence[str],
    non_members: Sequence[str],
    *,
    generator: np.random.Generator,
    confidence: float = 0.95,
) -> tuple[ProtocolResult, ...]:
    """Runs `measure` for each of `PROTOCOLS` that has enough records."""
    found = (
        measure(protocol, scores, baselines, members, non_members, generator=generator, confidence=confidence)
        for protocol in PROTOCOLS
    )
    return tuple(result for result in found if result is not None)


def measure(
    protocol: Protocol,
    scores: Mapping[str, float],
    baselines: Mapping[str, Mapping[str, float]],
    members: Sequence[str],
    non_members: Sequence[str],
    *,
    generator: np.random.Generator,
    confidence: float = 0.95,
) -> ProtocolResult | None:
    """Measures one protocol on given scores.

    Args:
        protocol: protocol of a paper.
        scores: scores of the attacked model, by identifier; higher for likelier members.
        baselines: scores of the same records without a leak, by name of the baseline.
        members, non_members: identifiers, from which the protocol's number is drawn.
        generator: generator that draws records, groups and halves.
        confidence: confidence of each interval, two-sided.

    Returns:
        The figures; None if there are fewer records than the protocol takes.
    """
    if min(len(members), len(non_members)) < protocol.num_records:
        return None
    names = [
        generator.permutation(np.array(sorted(part), dtype=object))[: protocol.num_records].tolist()
        for part in (members, non_members)
    ]
    inside, outside = names

    def of(found: Mapping[str, float]) -> tuple[FloatArray, FloatArray]:
        return np.array([found[name] for name in inside]), np.array([found[name] for name in outside])

    own, others = of(scores), {name: of(found) for name, found in baselines.items()}
    individual = _measured(own, others, generator, confidence)
    if protocol.group_size is None:
        return ProtocolResult(protocol=protocol, individual=individual, overlapping_groups=None)
    chosen = [
        overlapping_groups(protocol.num_records, protocol.group_size, protocol.num_groups, generator) for _ in names
    ]

    def means(pair: tuple[FloatArray, FloatArray]) -> tuple[FloatArray, FloatArray]:
        return pair[0][chosen[0]].mean(axis=1), pair[1][chosen[1]].mean(axis=1)

    grouped = {name: means(pair) for name, pair in others.items()}
    groups = _measured(means(own), grouped, generator, None)
    return ProtocolResult(protocol=protocol, individual=individual, overlapping_groups=groups)


def overlapping_groups(
    num_records: int, size: int, num_groups: int, generator: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Returns (num_groups, size) places of records. Each group is drawn from all records, without repetition.

    Raises:
        ValueError: there are fewer records than a group has.
    """
    if num_records < size:
        raise ValueError(f"{num_records} records make no group of {size}")
    return generator.random((num_groups, num_records)).argpartition(size - 1, axis=1)[:, :size].astype(np.int64)


def _measured(
    own: tuple[FloatArray, FloatArray],
    others: Mapping[str, tuple[FloatArray, FloatArray]],
    generator: np.random.Generator,
    confidence: float | None,
) -> Measured:
    """Measures one pair of scores, without intervals if there is no confidence."""

    def accuracy(pair: tuple[FloatArray, FloatArray]) -> tuple[float, Interval]:
        found = accuracy_at_a_threshold_of_the_other_half(*pair, generator, confidence or 0.95)
        if found is None:
            raise ValueError("a protocol needs at least four members and four non-members")
        return found.value, found.interval

    value, interval = accuracy(own)
    baselines = {name: accuracy(pair)[0] for name, pair in others.items()}
    return Measured(
        accuracy=value,
        accuracy_interval=None if confidence is None else interval,
        auc=auc(*own),
        auc_interval=None if confidence is None else auc_interval(*own, confidence),
        baselines=baselines,
        accuracy_over=value - max([0.5, *baselines.values()]),
        warning=OVERLAP if confidence is None else None,
    )
