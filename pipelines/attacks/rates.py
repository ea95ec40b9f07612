"""Rates of successes with their intervals. Imports no torch."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pipelines.intervals import ClusteredCounts, clopper_pearson, korn_graubard


@dataclass(frozen=True, kw_only=True)
class Rate:
    """A share with its two-sided interval.

    Attributes:
        num_hits, num_units: numerator and denominator of the share.
        low, high: interval; (0, 1) if nothing was counted.
    """

    num_hits: int
    num_units: int
    low: float
    high: float

    @property
    def value(self) -> float | None:
        """The share; None if nothing was counted."""
        return self.num_hits / self.num_units if self.num_units else None

    @classmethod
    def of(cls, num_hits: int, num_units: int, confidence: float) -> Rate:
        """Returns the rate of independent units, with an exact interval (Clopper and Pearson 1934)."""
        low, high = clopper_pearson(num_hits, num_units, confidence)
        return cls(num_hits=num_hits, num_units=num_units, low=low, high=high)

    @classmethod
    def clustered(cls, is_hit: ArrayLike, clusters: Sequence[Hashable], confidence: float) -> Rate:
        """Returns the rate of units in clusters, such as several texts after one prompt (Korn and Graubard 1998).

        Args:
            is_hit: (N,) true for units that are hits.
            clusters: (N,) cluster of each unit.
            confidence: confidence of the interval.
        """
        hits = np.asarray(is_hit, dtype=np.int64)
        names = {name: number for number, name in enumerate(dict.fromkeys(clusters))}
        which = np.asarray([names[name] for name in clusters], dtype=np.int64)
        units = np.bincount(which, minlength=len(names))
        counts = ClusteredCounts.of(np.bincount(which, weights=hits, minlength=len(names)), units)
        low, high = korn_graubard(counts, confidence)
        return cls(num_hits=int(hits.sum()), num_units=len(hits), low=low, high=high)

    def document(self) -> dict[str, Any]:
        """Returns the rate as JSON values."""
        return {"value": self.value, **vars(self)}
