"""Weights of sampled sentences: 1 / the probability that a sentence is in the sample."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.miss_rate.large import Large, size_of
from pipelines.miss_rate.sampling import SentenceId

COLUMNS = ("domain", "text", "token_starts")
"""Columns that `Weights.of` reads."""


def inclusion_probability(per_replicate: float, num_replicates: int) -> float:
    """Returns the probability that a sentence is in any of the independent replicates."""
    return -math.expm1(num_replicates * math.log1p(-per_replicate)) if per_replicate < 1 else 1.0


class Weights:
    """The weights of sentences, 1 / inclusion probability.

    Args:
        strata: (domain, inclusion probability in one replicate).
        num_replicates: number of replicates of the sample. The large part comes after them, as one more replicate.
        large: large sentences of the corpus.
        with_large: true if the large part of the sample counts; otherwise only the replicates do.

    Attributes:
        by_size: true if weights depend on the size of a sentence. They do not in a census.
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
        """Returns the sampled sentences that count."""
        if self.with_large:
            return sampled
        return {row: numbers for row, numbers in sampled.items() if min(numbers) < self._num_replicates}

    def of(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the arguments of `ReviewTable.add` for the weight of a sentence.

        Args:
            row: row with the columns `COLUMNS`, or with ``domain`` alone unless ``by_size``.
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
