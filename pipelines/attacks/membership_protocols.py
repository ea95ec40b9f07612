"""Membership inference as the papers measured it, beside what it finds where there is nothing to find.

Selective DP (Shi et al. 2022, section 5.1) takes 500 members and 500 others, CRT (Zhao et al. 2022, appendix A.4) 1,000
and 1,000, and 1,000 groups of 20 of either. The score is the perplexity; the figure is the accuracy of the threshold,
one half for a guess. The papers' non-members were made up in a similar form; what tells two sources apart is taken for
a leak then. Here both come from one source, and the accuracies of the blind classifier and of a model that never saw
the records are measured in the same way and subtracted.

CRT's groups share records: 20,000 places for 1,000 records. They are not independent, and no interval holds that takes
them for it, so none is given. `pipelines.attacks.membership` has groups that share none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

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
    """How a paper measured.

    Attributes:
        name: of the paper.
        source: where it says so.
        num_records: members, and as many others.
        group_size: records of a group; None: it tried no groups.
        num_groups: of members, and as many of others; they overlap.
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
    """What one way of measuring gave.

    Attributes:
        accuracy: at a threshold that one half chose and the other was measured at.
        accuracy_interval: by Clopper and Pearson; None for overlapping groups.
        auc: area below the ROC.
        auc_interval: by DeLong; None for overlapping groups.
        baselines: the accuracy of what sees the texts only, or never saw the records, by name.
        accuracy_over: the accuracy above one half and above all baselines; below zero where one of them is better.
        warning: what does not hold; None where nothing is to be said.
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
    """A protocol's figures.

    Attributes:
        protocol: which.
        individual: of single records.
        overlapping_groups: of groups that share records; None if the paper tried none.
    """

    protocol: Protocol
    individual: Measured
    overlapping_groups: Measured | None

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def as_the_papers(
    scores: Mapping[str, float],
    baselines: Mapping[str, Mapping[str, float]],
    members: Sequence[str],
    non_members: Sequence[str],
    *,
    generator: np.random.Generator,
    confidence: float = 0.95,
) -> tuple[ProtocolResult, ...]:
    """`measure` by each of `PROTOCOLS` that there are records enough for."""
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
    """One protocol on scores that are there.

    Args:
        protocol: which.
        scores: of the attacked model, by identifier; higher for likelier members.
        baselines: scores of the same records that no leak is in, by name.
        members, non_members: identifiers; as many as the protocol takes are drawn of them.
        generator: draws records, groups and halves.
        confidence: of each interval, two-sided.

    Returns:
        None where there are fewer records than the protocol takes.
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
    """(num_groups, size) places of records: each group is drawn of all of them, no record twice within it.

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
    """Figures of one pair of scores; without intervals where there is no confidence."""

    def accuracy(pair: tuple[FloatArray, FloatArray]) -> tuple[float, Interval]:
        found = accuracy_at_a_threshold_of_the_other_half(*pair, generator, confidence or 0.95)
        if found is None:
            raise ValueError("a protocol needs four members and four non-members at least")
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
