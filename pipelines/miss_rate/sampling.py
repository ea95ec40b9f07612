"""Which sentences to review: independent replicates, each a simple random sample without replacement.

Just Fine-tune Twice, section 3.1: ten replicates of 0.01 % of the training data. With strata, each replicate is a
simple random sample of every stratum, so that a small domain is looked at too.

Rows are drawn by their number alone, never by their text, so that the sample says nothing about the corpus and its
estimates are unbiased. The seed is public.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

SCREENING_STREAM: Final = 1_000_000
"""The random stream of the manual-screening set; replicates have the streams below."""


@dataclass(frozen=True)
class Stratum:
    """A part of the training sentences that is sampled on its own.

    Attributes:
        domain: its name; None for sentences without a domain, or for all of them where nothing is stratified.
        num_population: training sentences in it.
        size: sentences of it in each replicate.
    """

    domain: str | None
    num_population: int
    size: int

    @property
    def inclusion_probability(self) -> float:
        """Of a sentence, in one replicate."""
        return self.size / self.num_population


def replicate_size(num_population: int, fraction: float, min_sentences: int) -> int:
    """Sentences in one replicate: the fraction rounded up, at least ``min_sentences``, at most all of them."""
    # 0.0001 * 30000 is 3.0000000000000004 in floating point and must not become 4.
    wanted = math.ceil(fraction * num_population - 1e-9)
    return min(num_population, max(wanted, min_sentences))


def make_strata(
    populations: Mapping[str | None, int], fraction: float, min_sentences: int, min_per_stratum: int
) -> list[Stratum]:
    """The strata and what each replicate draws from them, in the order of their names.

    Sizes are proportional to the populations, apart from the minimum of a stratum; ``min_sentences`` is that of a
    whole replicate, and is reached proportionally.
    """
    total = sum(populations.values())
    wanted = replicate_size(total, fraction, min_sentences)
    share = max(fraction, wanted / total) if total else 0.0
    return [
        Stratum(name, populations[name], replicate_size(populations[name], share, min_per_stratum))
        for name in sorted(populations, key=lambda n: (n is not None, n or ""))
        if populations[name]
    ]


def draw_replicate(num_population: int, size: int, seed: int, replicate: int, stratum: int = 0) -> NDArray[np.int64]:
    """Row numbers of one replicate in one stratum.

    Args:
        num_population: rows to draw from, numbered from 0 in corpus order.
        size: how many to draw, at most ``num_population``.
        seed: the stage's seed.
        replicate: number of the replicate; each has a random stream of its own.
        stratum: number of the stratum, likewise.

    Returns:
        (size,) distinct row numbers, ascending.
    """
    entropy = [seed % 2**128, replicate] + ([stratum] if stratum else [])
    generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))
    if size == num_population:
        return np.arange(num_population, dtype=np.int64)
    drawn: NDArray[Any] = generator.choice(num_population, size=size, replace=False, shuffle=False)
    return np.sort(drawn).astype(np.int64)


def inclusion_probability(per_replicate: float, num_replicates: int) -> float:
    """The probability that a sentence stands in any of the independent replicates."""
    return -math.expm1(num_replicates * math.log1p(-per_replicate)) if per_replicate < 1 else 1.0
