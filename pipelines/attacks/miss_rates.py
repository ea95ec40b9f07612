"""Leakage of canaries if a policy misses a share γ of them (CRT, Figures 3 and 5).

A mixture takes a share γ of its canaries from missed ones and the rest from found ones, all of one training that read
both. How well the model learns a canary then hardly depends on γ. The sweep shows the leakage of the mixture, and no
training is needed for each γ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from pipelines.attacks.membership_evaluation import FloatArray, auc
from pipelines.attacks.membership_protocols import overlapping_groups

MISS_RATES: Final = (0.0, 0.1, 0.3, 0.5)
OF_PAPER: Final = 10
"""Number of canaries of which CRT's Figure 3 shows the largest exposure."""
GROUP: Final = 20
NUM_DRAWN: Final = 1_000


@dataclass(frozen=True, kw_only=True)
class ScoredCanary:
    """A canary with its scores.

    Attributes:
        is_included: true if it was in the training.
        bits: exposure of the canary.
        nats: log-perplexity of the canary; a low one suggests a member.
    """

    is_included: bool
    bits: float
    nats: float


@dataclass(frozen=True, kw_only=True)
class AtMissRate:
    """The leakage at a share γ of missed canaries: averages over mixtures, without intervals.

    Attributes:
        rate: γ, share of missed canaries.
        num_canaries: number of trained canaries in a mixture.
        mean_exposure: mean exposure of these canaries, in bits.
        largest_of_ten: largest exposure of ten of these canaries, on average: the paper's figure.
        auc: AUC of membership by log-perplexity, against canaries that a coin left out.
        auc_of_groups: AUC of overlapping groups of 20, drawn as in the paper; None if there are too few.
    """

    rate: float
    num_canaries: int
    mean_exposure: float
    largest_of_ten: float
    auc: float
    auc_of_groups: float | None


def by_miss_rate(
    missed: Sequence[ScoredCanary],
    found: Sequence[ScoredCanary],
    generator: np.random.Generator,
    rates: Sequence[float] = MISS_RATES,
) -> list[AtMissRate]:
    """Measures the leakage at each γ.

    Args:
        missed, found: canaries of one form and one training.
        generator: generator that draws mixtures and groups.
        rates: values of γ, from 0 to 1.

    Returns:
        The leakage at each γ that has enough canaries, members and others.
    """
    points = []
    for rate in rates:
        bits, own = _mixed(missed, found, rate, True, generator)
        _, others = _mixed(missed, found, rate, False, generator)
        if not len(own) or not len(others):
            continue
        tens = generator.permuted(np.tile(bits, (NUM_DRAWN, 1)), axis=1)[:, :OF_PAPER]
        groups = None
        if min(len(own), len(others)) >= GROUP:
            groups = [p[overlapping_groups(len(p), GROUP, NUM_DRAWN, generator)].mean(axis=1) for p in (own, others)]
        points.append(
            AtMissRate(
                rate=rate,
                num_canaries=len(own),
                mean_exposure=float(bits.mean()),
                largest_of_ten=float(tens.max(axis=1).mean()),
                auc=auc(-own, -others),
                auc_of_groups=None if groups is None else auc(-groups[0], -groups[1]),
            )
        )
    return points


def _mixed(
    missed: Sequence[ScoredCanary],
    found: Sequence[ScoredCanary],
    rate: float,
    is_included: bool,
    generator: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """Returns (n,) exposures and log-perplexities with a share ``rate`` of missed canaries, n as large as possible."""
    parts = [
        (share, [canary for canary in part if canary.is_included is is_included])
        for share, part in ((rate, missed), (1 - rate, found))
        if share > 0
    ]
    num = min(len(part) / share for share, part in parts)
    chosen: list[ScoredCanary] = []
    for share, part in parts:
        order = generator.permutation(len(part))[: math.floor(num * share + 1e-9)]
        chosen += [part[at] for at in order.tolist()]
    return np.array([canary.bits for canary in chosen]), np.array([canary.nats for canary in chosen])
