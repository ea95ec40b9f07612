"""The distance of synthetic text from real text. Private: measured on text that nobody published.

Three distances, each beside what real text gives against other real text of the same size, for none of them is 0 there:
a classifier two-sample test (Lopez-Paz and Oquab 2017), which tells the two apart by words and lengths, each text by a
classifier that was fitted without it; the Jensen-Shannon divergence of words and of pairs of words; and the largest
difference of the distributions of lengths (Kolmogorov-Smirnov).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
from scipy import stats

from pipelines.attacks.blind import blind_scores
from pipelines.attacks.membership_evaluation import auc, auc_interval
from pipelines.gate.strings import words_of
from pipelines.randomness import Item, sample_of

MOST_TEXTS: Final = 2_000
_FEWEST_TEXTS: Final = 20


def distances(real: Iterable[str], other: Iterable[str], generator: np.random.Generator) -> dict[str, Any] | None:
    """Measures how far other text is from real text, and one half of the real text from the other.

    Args:
        real, other: texts, which stream by; uniform samples are drawn of them. White space around counts for nothing.
        generator: generator that draws the samples and the folds.

    Returns:
        ``other`` and ``real``: each ``num_texts`` (of either side), ``auc`` of the classifier with ``low`` and ``high``
        (0.5: not told apart), ``words`` and ``pairs`` (bits, 0 to 1), ``lengths`` (0 to 1). None with too few texts.
    """
    ours = sampled(real, 2 * MOST_TEXTS, generator)
    theirs = sampled(other, MOST_TEXTS, generator)
    size = min(len(ours) // 2, len(theirs))
    if size < _FEWEST_TEXTS:
        return None
    first, second = ours[:size], ours[size : 2 * size]
    return {
        "other": _between(first, theirs[:size], generator),
        "real": _between(first, second, generator),
    }


def sampled(texts: Iterable[str], most: int, generator: np.random.Generator) -> list[str]:
    """Draws at most so many texts that are not empty, uniformly, in random order."""
    return drawn_of((text.strip() for text in texts if text.strip()), most, generator)


def drawn_of(items: Iterable[Item], most: int, generator: np.random.Generator) -> list[Item]:
    """Draws at most so many of the items that stream by, uniformly, in random order."""
    drawn = sample_of(items, most, generator)
    return [drawn[at] for at in generator.permutation(len(drawn))]


def _between(real: Sequence[str], other: Sequence[str], generator: np.random.Generator) -> dict[str, Any]:
    names = ([f"{side}{number}" for number in range(len(texts))] for side, texts in (("r", real), ("o", other)))
    of_real, of_other = (dict(zip(name, texts, strict=True)) for name, texts in zip(names, (real, other), strict=True))
    scores = blind_scores(of_real, of_other, generator=generator)
    ours, theirs = (np.array([scores[name] for name in side]) for side in (of_real, of_other))
    low, high = auc_interval(ours, theirs, 0.95)
    words = [[words_of(text) for text in texts] for texts in (real, other)]
    lengths = [[len(found) for found in side] for side in words]
    return {
        "num_texts": len(real),
        "auc": auc(ours, theirs),
        "low": low,
        "high": high,
        "words": divergence(*(Counter(word for found in side for word in found) for side in words)),
        "pairs": divergence(*(Counter(pair for found in side for pair in pairwise(found)) for side in words)),
        "lengths": float(stats.ks_2samp(*lengths).statistic),
    }


def divergence(one: Counter[Any], other: Counter[Any]) -> float:
    """Returns the Jensen-Shannon divergence of two distributions, in bits (Lin 1991, eq. 4.1, equal weights)."""
    kinds = sorted({*one, *other}, key=repr)
    if not one or not other:
        return 1.0
    p, q = (np.array([counts[kind] for kind in kinds]) / counts.total() for counts in (one, other))
    middle = (p + q) / 2

    def entropy(of: np.ndarray[Any, Any]) -> float:
        return float(stats.entropy(of, base=2))

    return max(0.0, entropy(middle) - (entropy(p) + entropy(q)) / 2)
