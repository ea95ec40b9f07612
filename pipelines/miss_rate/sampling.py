"""Which sentences to review: independent replicates, each a simple random sample without replacement.

Rows are drawn by their number alone, never by their text, so that the sample says nothing about the corpus and its
estimates are unbiased. The seed is public.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray


def replicate_size(num_population: int, fraction: float, min_sentences: int) -> int:
    """Sentences in one replicate: the fraction rounded up, at least ``min_sentences``, at most all of them."""
    # 0.0001 * 30000 is 3.0000000000000004 in floating point and must not become 4.
    wanted = math.ceil(fraction * num_population - 1e-9)
    return min(num_population, max(wanted, min_sentences))


def draw_replicate(num_population: int, size: int, seed: int, replicate: int) -> NDArray[np.int64]:
    """Row numbers of one replicate.

    Args:
        num_population: rows to draw from, numbered from 0 in corpus order.
        size: how many to draw, at most ``num_population``.
        seed: the stage's seed.
        replicate: number of the replicate; each has a random stream of its own.

    Returns:
        (size,) distinct row numbers, ascending.
    """
    generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed % 2**128, replicate])))
    if size == num_population:
        return np.arange(num_population, dtype=np.int64)
    drawn: NDArray[Any] = generator.choice(num_population, size=size, replace=False, shuffle=False)
    return np.sort(drawn).astype(np.int64)
