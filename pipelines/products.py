"""Products with the matrix of a layer, in which no row's bits depend on the rows beside it.

thinc's own products (blis) have this property, but its packages for Linux hold a generic kernel alone, which takes
three times as long as numpy's (OpenBLAS). In numpy's, the bits of a row may depend on its place, because kernels may
compute the first and the last rows of a block in another order. So a block here has rows of zeros at both ends, and
its size is a multiple of a kernel's tile. `RowProduct` tries this with its own matrix. If a row still comes out in two
ways, it stays with thinc. The choice depends on the processor and never on a time, so that all workers of a machine
compute the same.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

import numpy as np
from threadpoolctl import ThreadpoolController

_MARGIN: Final = 8
"""Rows of zeros before and after the others."""

BLOCK: Final = 176
"""The largest number of rows in a product. With both margins they stay within one block of every kernel tried."""

_TILE: Final = 16
"""The numbers of rows and of outputs are multiples of it."""

_lock = threading.Lock()
_limits: Final[list[Any]] = []
"""While products have one thread: the limit, then an entry for each block that asked for it."""


class RowProduct:
    """A product of rows with a fixed matrix. The bits of each result depend on its own row alone.

    Args:
        matrix: shape ``(num_outputs, width)``, float32.
        gemm: thinc's product, for processors on which numpy's lacks the property.
    """

    def __init__(self, matrix: np.ndarray, gemm: Callable[..., np.ndarray]) -> None:
        self._num_outputs, width = matrix.shape
        self._matrix = np.zeros((-(-self._num_outputs // _TILE) * _TILE, width), dtype=np.float32)
        self._matrix[: self._num_outputs] = matrix
        self._gemm = gemm
        with one_thread():
            self.is_numpy = _has_independent_rows(self._matrix)
        """True if numpy's product is used."""

    def columns(self, rows: np.ndarray) -> np.ndarray:
        """Returns the results as columns, for few rows.

        Args:
            rows: shape ``(n, width)``, float32, n at most `BLOCK`.

        Returns:
            Shape ``(num_outputs, size)``, where column ``8 + i`` belongs to row ``i``. The others belong to no row, and
            are there so that what is computed of the columns next has the same bits for any n.
        """
        block = padded(rows)
        made = self._matrix @ block.T if self.is_numpy else self._gemm(self._matrix, block, trans2=True)
        return made[: self._num_outputs]

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Returns the results as rows, shape ``(n, num_outputs)``, of any number of rows, shape ``(n, width)``."""
        made = np.empty((len(rows), self._num_outputs), dtype=np.float32)
        for at in range(0, len(rows), BLOCK):
            part = rows[at : at + BLOCK]
            made[at : at + BLOCK] = own(self.columns(part), len(part)).T
        return made


def padded(rows: np.ndarray) -> np.ndarray:
    """Returns rows with the margins that `RowProduct` needs."""
    block = np.zeros((-(-len(rows) // _TILE) * _TILE + 2 * _MARGIN, rows.shape[1]), dtype=np.float32)
    block[_MARGIN : _MARGIN + len(rows)] = rows
    return block


def own(columns: np.ndarray, num_rows: int) -> np.ndarray:
    """Returns the columns that belong to rows, of those that `RowProduct.columns` made."""
    return columns[:, _MARGIN : _MARGIN + num_rows]


def _has_independent_rows(matrix: np.ndarray) -> bool:
    """Tells if numpy computes the same bits for a row at every place, in blocks of all sizes."""
    rows = np.random.default_rng(0).standard_normal((BLOCK, matrix.shape[1]), dtype=np.float32)
    right = own(matrix @ padded(rows).T, BLOCK)
    for size in range(_TILE, BLOCK + 1, _TILE):
        for first in {0, (BLOCK - size) // 2 | 1, BLOCK - size}:
            some = rows[first : first + size - 1]
            made = own(matrix @ padded(some).T, len(some))
            if not np.array_equal(made, right[:, first : first + len(some)]):
                return False
    return True


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def one_thread() -> Iterator[None]:
    """Computes numpy's products with one thread inside the ``with`` block: several threads cut them at other places."""
    with _lock:
        if not _limits:
            _limits.append(_blas().limit(limits=1))
        _limits.append(None)
    try:
        yield
    finally:
        with _lock:
            _limits.pop()
            if len(_limits) == 1:
                _limits.pop().restore_original_limits()
