"""Sampling of people: each person enters a step with a fixed probability, and then brings some of their records.

The event of such a step is that of a Poisson sample of records, with people in place of records: what a drawn person
adds to the sum is clipped as the share of one record is. So no bound on the number of a person's records is needed
(`docs/concepts.md`).

The number of people counts everyone in the training fold, also those without a private record. It is public, and equal
in neighbouring data sets if everything that one person wrote is *replaced*. Who owns which record is private.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from pipelines.dp.ranks import ALONE, Ranks
from pipelines.dp.sampling import IntArray, poisson_sample


@dataclass(frozen=True, kw_only=True)
class Owners:
    """The people of a training, and their records.

    Attributes:
        of_records: (records,) number of each record's person, from 0 to ``count - 1``. Private.
        count: number of people, also of those without a record.
        records_each: largest number of records that a drawn person brings. With several, the person's share is the
            gradient of their mean loss, clipped once.

    Raises:
        ValueError: a number out of range.
    """

    of_records: IntArray
    count: int
    records_each: int = 1

    def __post_init__(self) -> None:
        if self.records_each < 1:
            raise ValueError(f"a drawn person brings at least one record, not {self.records_each}")
        if len(self.of_records) and not 0 <= self.of_records.min() <= self.of_records.max() < self.count:
            raise ValueError("a record belongs to nobody who is counted")


class OwnerSampler:
    """Draws people, and then records of each of them.

    Args:
        owners: people and their records.
        ranks: processes that share the people.

    Attributes:
        records_each: see `Owners`.
        facts: numbers and a digest that all processes must have in common.
    """

    def __init__(self, owners: Owners, ranks: Ranks = ALONE) -> None:
        self._order = np.argsort(owners.of_records, kind="stable")
        self._borders = np.searchsorted(owners.of_records[self._order], np.arange(owners.count + 1))
        self._people: IntArray = ranks.share(np.arange(owners.count))
        self.records_each = owners.records_each
        digest = hashlib.sha256(owners.of_records.astype("<i8").tobytes()).hexdigest()
        self.facts = f"{owners.count} {owners.records_each} {digest}"

    def draw(self, sample_rate: float, rng: np.random.Generator) -> list[IntArray]:
        """Draws a step's people, each independently with probability ``sample_rate``, and their records.

        Returns:
            Numbers of the records of each drawn person who has any: all of them, or ``records_each`` without
            replacement.
        """
        drawn = self._people[poisson_sample(len(self._people), sample_rate, rng)]
        records = (self._order[self._borders[person] : self._borders[person + 1]] for person in drawn)
        return [rng.permutation(own)[: self.records_each] for own in records if len(own)]
