"""Tests of the noise inside a tensor: no stretch of it repeats another one, and its shape is Gaussian.

`pipelines.attacks.conformance` tests the size of the noise, and compares whole tensors with each other. Neither notices
a stream whose blocks are all the same, halves or neighbours that are equal, or uniform noise of the right variance.

Null distributions, for independent standard normals:
    * a shift turns a vector of noise in a circle and leaves its length. So the squared cosine of one vector of length n
      and any shift of another one has the Beta distribution (1/2, (n - 1) / 2). The p-value of the largest cosine is
      that of one shift times the number of shifts, by Bonferroni;
    * within a tensor, chunks of the same length are compared with the chunks that follow them. These are other
      coordinates, so the two vectors are independent as well;
    * counts of coordinates above a level are binomial.

Repeats along a tensor are seen at any distance. A single stretch is seen if its copy lies in the next chunk. Across the
middle of `LONGEST_VECTOR` coordinates, 3,000 numbers are enough for an alarm.

Public versus private: only noise is read.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy import fft, special, stats

from pipelines.attacks.epsilon_trials import FloatArray
from pipelines.dp.noise import BLOCK

LONGEST_VECTOR: Final = 2 * BLOCK
"""Largest number of compared coordinates of a tensor: two blocks of the engine's noise, so that equal blocks show."""
SHORTEST_VECTOR: Final = 1024
"""Smallest number of compared coordinates: fewer say little."""
CHUNKS: Final = (1, 9, 81, 729, 6_561, 19_683)
"""Lengths of chunks of a tensor, besides its half. Each shows repeats at distances from a tenth of its length to twice
its length. They avoid powers of 2, so that stretches that repeat in such steps do not all lie within a chunk."""
MOST_VECTORS: Final = 200
"""Largest number of vectors that are searched for repeats. A repeat that begins later is not seen."""
NUM_RECENT: Final = 6
"""Number of earlier vectors of the same length that each one is compared with: two steps of three tensors."""
LEVELS: Final = tuple(range(-4, 5))
"""Standard deviations above which coordinates are counted."""

ComplexArray = npt.NDArray[np.complex64]


class NoiseStructure:
    """A collection of the noise that was released, with tests of its parts and of its shape."""

    def __init__(self) -> None:
        self._inside: list[float] = []
        self._between: list[float] = []
        self._recent: dict[int, deque[ComplexArray]] = defaultdict(lambda: deque(maxlen=NUM_RECENT))
        self._counts = np.zeros(len(LEVELS), dtype=np.int64)
        self._num = 0

    def add(self, noise: FloatArray) -> None:
        """Adds the noise of a tensor.

        Args:
            noise: (n,) coordinates in the order of memory, over their standard deviation.
        """
        self._counts += [np.count_nonzero(noise > level) for level in LEVELS]
        self._num += noise.size
        if noise.size < SHORTEST_VECTOR or len(self._inside) == MOST_VECTORS or not noise.any():
            return
        # float32 leaves errors of about 1e-6, and cosines below 0.01 are no evidence.
        vector = noise[:LONGEST_VECTOR].astype(np.float32)
        self._inside.append(repeats_inside(vector))
        vector = vector[: 2 ** (vector.size.bit_length() - 1)]
        spectrum = np.asarray(fft.rfft(vector / np.linalg.norm(vector)))
        recent = self._recent[vector.size]
        self._between += [_largest_cosine(other * spectrum.conj(), vector.size, vector.size) for other in recent]
        recent.append(spectrum)

    def p_values(self) -> dict[str, float]:
        """Returns the p-value of each test, by a plain name of the test."""
        found = {"shape of the noise": _shape(self._counts, self._num)} if self._num else {}
        if self._inside:
            found["noise repeated inside a tensor"] = least(self._inside)
        if self._between:
            found["noise repeated at another place of a later tensor"] = least(self._between)
        return found


def repeats_inside(noise: npt.NDArray[np.floating[Any]]) -> float:
    """Returns the p-value of "no stretch of this noise repeats another one".

    Args:
        noise: (n,) coordinates of a tensor, of any standard deviation; n is at least `SHORTEST_VECTOR`.
    """
    found = []
    for length in (*CHUNKS, noise.size // 2):
        for start in (0, length):  # chunk 0 and chunk 1, 2 and 3, ...; then 1 and 2, 3 and 4, ...
            count = (noise.size - start) // (2 * length)
            if count * length < SHORTEST_VECTOR // 4:
                continue
            pairs = noise[start : start + 2 * length * count].reshape(count, 2, length)
            lengths = np.linalg.norm(pairs, axis=(0, 2))
            spectra = fft.rfft(pairs)
            product = np.einsum("cf,cf->f", spectra[:, 0].conj(), spectra[:, 1])
            with np.errstate(invalid="ignore"):  # a part without noise: the p-value is no number, which counts for 0
                product = product / lengths.prod()
            found.append(_largest_cosine(product, length, length * count))
    return least(found)


def _largest_cosine(product: ComplexArray, num_shifts: int, size: int) -> float:
    """Returns the p-value of the largest cosine at any shift, from the product of two spectra of unit vectors."""
    cosines = fft.irfft(product, n=num_shifts)
    largest = np.minimum(np.square(cosines, dtype=np.float64).max(), 1.0)
    upper_tail = special.betainc((size - 1) / 2, 0.5, 1 - largest)
    return float(np.minimum(1.0, num_shifts * upper_tail))


def _shape(counts: npt.NDArray[np.int64], num: int) -> float:
    """Returns the p-value of counts of standard normals above `LEVELS`, each by the exact binomial, both sides."""
    law = stats.binom(num, stats.norm.sf(LEVELS))
    return least(np.minimum(1.0, 2 * np.minimum(law.cdf(counts), law.sf(counts - 1))))


def least(p_values: npt.ArrayLike) -> float:
    """Returns the p-value of "all of them are true", by Bonferroni."""
    return float(np.minimum(1.0, np.size(p_values) * np.min(p_values)))
