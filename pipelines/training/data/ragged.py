"""Rows of different lengths, flat in one file, so that a corpus need not fit in memory.

Only the row borders (8 bytes a row) stay in memory. The values are mapped from disk and read when they are used.
"""

from __future__ import annotations

import threading
from array import array
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np
import numpy.typing as npt

from pipelines.artifacts import Target
from pipelines.files import open_to_write, to_be_read


class Values(Protocol):
    """Flat values that can be sliced: an array, or a file of them."""

    def __getitem__(self, at: slice, /) -> npt.NDArray[np.generic]: ...


class RaggedArray:
    """Read access to rows of different lengths: ``array[i]`` is row ``i``.

    Attributes:
        offsets: (num_rows + 1,) int64 start of each row in the flat values.
    """

    def __init__(self, values: Values, offsets: npt.NDArray[np.int64]) -> None:
        self._values = values
        self.offsets = offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> npt.NDArray[np.generic]:
        return self._values[self.offsets[row] : self.offsets[row + 1]]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """(num_rows,) number of values in each row."""
        return np.diff(self.offsets)


class _SealedValues:
    """Values of a sealed file, which cannot be mapped. A slice is decrypted when it is used. Threads may share it."""

    def __init__(self, file: BinaryIO, dtype: np.dtype[np.generic]) -> None:
        self._file, self._dtype = file, dtype
        self._lock = threading.Lock()

    def __getitem__(self, at: slice) -> npt.NDArray[np.generic]:
        start, stop = int(at.start), int(at.stop)
        with self._lock:
            self._file.seek(start * self._dtype.itemsize)
            raw = self._file.read((stop - start) * self._dtype.itemsize)
        return np.frombuffer(raw, dtype=self._dtype)


class RaggedWriter:
    """Writes a `RaggedArray` row by row to a scratch file. Use as a context manager, then call `open`."""

    def __init__(self, scratch: Target, name: str, dtype: npt.DTypeLike) -> None:
        self._path = scratch.blob(f"{name}.bin")
        self._dtype = np.dtype(dtype)
        self._file = open_to_write(self._path)
        self._offsets = array("q", [0])

    def append(self, values: npt.ArrayLike | bytes) -> None:
        """Adds one row. ``values`` are numbers that fit the dtype, or its raw bytes."""
        raw = values if isinstance(values, bytes) else np.asarray(values, dtype=self._dtype).tobytes()
        self._file.write(raw)
        self._offsets.append(self._offsets[-1] + len(raw) // self._dtype.itemsize)

    def close(self) -> None:
        """Flushes the file."""
        self._file.close()

    def open(self) -> RaggedArray:
        """Returns the rows written so far, mapped from disk."""
        self.close()
        if self._offsets[-1] == 0:  # an empty file cannot be mapped
            values: Values = np.empty(0, dtype=self._dtype)
        else:
            opened = to_be_read(self._path)
            if isinstance(opened, Path):
                values = np.memmap(opened, dtype=self._dtype, mode="r")
            else:
                values = _SealedValues(opened, self._dtype)
        return RaggedArray(values, np.asarray(self._offsets, dtype=np.int64))

    def __enter__(self) -> RaggedWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
