"""Comparison of documents whose figures were computed on different processors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def close(one: Any, other: Any, *, relative: float = 1e-6) -> bool:
    """Tells whether two JSON documents are equal, floats up to a relative tolerance.

    A product of two matrices, and a sum, are rounded in another order on another processor. Everything else must be
    equal exactly.
    """
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(close(one[name], other[name], relative=relative) for name in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(close(a, b, relative=relative) for a, b in zip(one, other, strict=True))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=relative)
    return bool(one == other)
