"""How much each sampled sentence stands for: 1 / the probability that it stands in the sample."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.miss_rate.large import Large, size_of
from pipelines.miss_rate.sampling import SentenceId

COLUMNS = ("domain", "text", "token_starts")
"""What `Weights.of` reads."""


def inclusion_probability(per_replicate: float, num_replicates: int) -> float:
    """The probability that a sentence stands in any of the independent replicates."""
    return -math.expm1(num_replicates * math.log1p(-per_replicate)) if per_replicate < 1 else 1.0


class Weights:
    """1 / inclusion probability of a sentence.

    Args:
        strata: (domain, inclusion probability in one replicate).
        num_replicates: of the sample. The large part stands behind them, as one replicate more.
        large: the large sentences of the corpus.
        with_large: whether the large part of the sample counts; otherwise the replicates alone do.

    Attributes:
        by_size: whether anything depends on the size of a sentence. It does not in a census.
    """

    def __init__(
        self,
        strata: Sequence[tuple[str | None, float]],
        num_replicates: int,
        large: Large | None = None,
        *,
        with_large: bool = True,
    ) -> None:
        self.large = large or Large()
        self.with_large = with_large and self.large.num_drawn > 0
        self._num_replicates = num_replicates
        self._in_one = dict(strata)
        self._in_any = {domain: inclusion_probability(p, num_replicates) for domain, p in strata}
        self._by_domain = len(strata) > 1
        self.by_size = bool(self.large.classes) and any(p < 1 for p in self._in_any.values())

    def kept(self, sampled: dict[SentenceId, list[int]]) -> dict[SentenceId, list[int]]:
        """The sampled sentences that count."""
        if self.with_large:
            return sampled
        return {row: numbers for row, numbers in sampled.items() if min(numbers) < self._num_replicates}

    def of(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of `ReviewTable.add` that say how much a sentence stands for.

        Args:
            row: with the columns `COLUMNS`; ``domain`` alone unless ``by_size``.
        """
        key = row["domain"] if self._by_domain else next(iter(self._in_one), None)
        size = size_of(row) if self.by_size else 0
        chance = self.large.chance(size) if self.by_size and self.with_large else 0.0
        in_any = self._in_any.get(key, 1.0)
        is_weighted = self._by_domain or (self.by_size and self.with_large)
        return {
            "weight": 1 / (1 - (1 - in_any) * (1 - chance)) if is_weighted else 1.0,
            "weight_in_replicate": 1 / self._in_one.get(key, 1.0) if self._by_domain else 1.0,
            "domain": row["domain"],
            "is_large": self.by_size and self.large.class_of(size) >= 0,
        }
