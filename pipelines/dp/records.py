"""The records behind the numbers of a data set, through torch's own wrappers."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from torch.utils.data import ConcatDataset, Subset, TensorDataset

IntArray = npt.NDArray[np.int64]


def repeats_records(dataset: Any) -> bool:
    """Returns true if a record has several numbers.

    Follows ``Subset`` and ``ConcatDataset``, wrapped in each other in any way, to the data sets below them. Numbers
    below 0 count from the end. Two ``TensorDataset`` of the very same tensors are one. Other data sets are opaque.
    """
    if not isinstance(dataset, Subset | ConcatDataset):
        return False
    found: dict[Hashable, list[IntArray]] = {}
    for base, numbers in _resolved(dataset, np.arange(len(dataset))):
        found.setdefault(_identity(base), []).append(numbers)
    return any(len(np.unique(numbers)) < len(numbers) for numbers in map(np.concatenate, found.values()))


def _resolved(dataset: Any, numbers: IntArray) -> Iterator[tuple[Any, IntArray]]:
    """Yields the innermost data sets, each with the numbers in it that ``numbers`` lead to."""
    if hasattr(dataset, "__len__"):
        numbers = np.where(numbers < 0, numbers + len(dataset), numbers)
    if isinstance(dataset, Subset):
        indices = np.fromiter((int(index) for index in dataset.indices), np.int64)
        yield from _resolved(dataset.dataset, indices[numbers])
    elif isinstance(dataset, ConcatDataset):
        start = 0
        for part, stop in zip(dataset.datasets, dataset.cumulative_sizes, strict=True):
            yield from _resolved(part, numbers[(start <= numbers) & (numbers < stop)] - start)
            start = stop
    else:
        yield dataset, numbers


def _identity(base: Any) -> Hashable:
    if type(base) is TensorDataset:
        return tuple((tensor.data_ptr(), tensor.shape, tensor.stride()) for tensor in base.tensors)
    return id(base)
