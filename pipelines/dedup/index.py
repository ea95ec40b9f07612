"""An exact set of 128-bit keys that numbers its members and looks up whole batches."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pipelines.dedup.bloom import BoolArray, UInt64Array

Int64Array = npt.NDArray[np.int64]


def differs(high: UInt64Array, low: UInt64Array) -> BoolArray:
    """Checks for each key if it differs from the key before it."""
    found = np.ones(len(high), dtype=np.bool_)
    found[1:] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
    return found


class KeyIndex:
    """The distinct keys of (high, low), sorted; a key's *slot* is its rank.

    Args:
        high, low: halves of the keys, uint64 of shape (keys,); repeats are dropped
    """

    def __init__(self, high: UInt64Array, low: UInt64Array) -> None:
        order = np.lexsort((low, high))
        high, low = high[order], low[order]
        distinct = differs(high, low)
        self._high = high[distinct]
        self._low = low[distinct]

    def __len__(self) -> int:
        return len(self._high)

    def find(self, high: UInt64Array, low: UInt64Array) -> Int64Array:
        """Returns the slot of each key, or -1 if the key is not a member (int64 of shape (keys,))."""
        slots = np.full(len(high), -1, dtype=np.int64)
        # Members with an equal high half are neighbours. Such runs nearly always have length one, so walking along
        # them costs one more comparison for the few keys whose high half matches.
        rows = np.arange(len(high))
        at = np.searchsorted(self._high, high)
        while len(rows):
            inside = at < len(self._high)
            rows, at = rows[inside], at[inside]
            same = self._high[at] == high[rows]
            rows, at = rows[same], at[same]
            equal = self._low[at] == low[rows]
            slots[rows[equal]] = at[equal]
            rows, at = rows[~equal], at[~equal] + 1
        return slots
