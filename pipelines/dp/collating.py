"""Collate functions of the private loader, which say how many records the data set gave. They may run in a worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pipelines.dp.compositions import Composition, compose, content_of, recompose
from pipelines.errors import ConfigError, PrivacyGateError


def check_count(found: int, expected: int) -> None:
    """Raises PrivacyGateError if the data set gave another number of records than it was asked for."""
    if found != expected:
        raise PrivacyGateError(
            f"the data set gave {found} records, but {expected} were asked for: its __getitems__ must give one record "
            "for each number"
        )


class Counting:
    """A collate function that also returns the number of its records."""

    def __init__(self, collate: Callable[[Any], Any]) -> None:
        self._collate = collate

    def __call__(self, items: Any) -> tuple[int, Any]:
        """Returns the number of records, and their batch."""
        return _num_items(items), self._collate(items)


class Composing:
    """A collate function that makes the batches to compare, if it gets all records that were asked for.

    Returns the number of records, the batches, and a digest of each record.
    """

    def __init__(self, collate: Callable[[Any], Any], size: int, full_size: int, num_records: int) -> None:
        self._collate = collate
        self._size, self._full_size, self._num_records = size, full_size, num_records

    def __call__(self, items: Any) -> tuple[int, list[Composition], list[bytes]]:
        """Returns what the class says. Without all of the records there is no batch."""
        count = _num_items(items)
        is_whole = count == self._num_records
        compositions = compose(items, self._size, self._full_size, self._collate) if is_whole else []
        return count, compositions, [content_of(item) for item in items]


class Recomposing:
    """A collate function that makes the two batches of a later comparison."""

    def __init__(self, collate: Callable[[Any], Any], size: int, rng: np.random.Generator) -> None:
        self._collate, self._size, self._rng = collate, size, rng

    def __call__(self, items: Any) -> tuple[int, list[Composition]]:
        """Returns the number of records, and the two batches."""
        return _num_items(items), recompose(items, self._size, self._collate, self._rng)


def _num_items(items: Any) -> int:
    if not isinstance(items, list | tuple):
        raise ConfigError(f"the data set's __getitems__ must give a list of records, not {type(items).__name__}")
    return len(items)
