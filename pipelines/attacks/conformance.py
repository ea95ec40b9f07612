"""Tests of released noised steps, each with an exact null distribution. None depends on an attack's success.

A game (`pipelines.attacks.training_game`) knows which records took part in a step, and which coordinates hold only
noise. So it can test if a step did what the accountant assumes: noise of the stated size, fresh for every step, tensor,
run and resumed run; samples in which each record takes part independently; no record that moves the sum by more than
the clipping norm.

Null distributions, for a training that does what it says:
    * squares of spare coordinates, over the variance of the noise, add up to a chi-square;
    * the squared cosine of two vectors of noise of length n has the Beta distribution (1/2, (n - 1) / 2);
    * parts of one tensor's noise, and its shape, are tested by `pipelines.attacks.noise_structure`;
    * counts of records are binomial. A randomised probability integral transform turns them into standard normals;
    * the mean coordinate of records that took part is Gaussian around their share of the clipping norm.

The p-values are combined by Bonferroni (`combined`), which assumes nothing about their dependence.

Public versus private: all records are invented. No text of a corpus enters.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy import stats

from pipelines.attacks.epsilon_trials import BoolArray, FloatArray
from pipelines.attacks.noise_structure import NoiseStructure, least

IntArray = npt.NDArray[np.int64]

LEAST_P_VALUE: Final = 1e-300
"""Least reported probability: a bet on a p-value needs one above 0."""
VECTOR_LENGTH: Final = 1024
"""Number of spare coordinates of a tensor whose noise is compared with that of others."""
MOST_VECTORS: Final = 600
"""Most vectors of noise that are kept for comparison. It misses a fault that begins later."""
_PLURALS: Final = {"record": "records", "person": "people"}


def combined(p_values: Iterable[float]) -> float:
    """Returns the p-value of "all hypotheses are true", by Bonferroni: valid for any dependence.

    A p-value that is not a number counts as 0: it comes from weights that are not numbers, which are always a fault.
    """
    found = np.nan_to_num([*p_values], nan=0.0)
    return float(np.clip(len(found) * found.min(), LEAST_P_VALUE, 1.0))


@dataclass
class _Mean:
    """A sum of ``count`` values, each standard normal for a correct training."""

    total: float = 0.0
    count: int = 0

    def add(self, deviations: FloatArray) -> None:
        self.total += float(deviations.sum())
        self.count += deviations.size

    @property
    def z(self) -> float:
        return self.total / math.sqrt(self.count) if self.count else 0.0


class Releases:
    """A collection of the releases of a game's steps, with their tests.

    Args:
        num_records: number of canaries of the game, included or not.
        sample_rate: probability with which each record enters a step; None if samples are public, and no claim rests
            on them.
        rng: generator for the randomised transforms of counts.
        sampled: name of a unit that is sampled, for the names of tests.
        moves: name of a unit whose move of the sum is bounded.
    """

    def __init__(
        self,
        num_records: int,
        sample_rate: float | None,
        rng: np.random.Generator,
        *,
        sampled: str = "record",
        moves: str = "record",
    ) -> None:
        self._names = sampled, moves
        self._num_records, self._rate, self._rng = num_records, sample_rate, rng
        self._squares: list[tuple[float, int]] = []
        self._vectors: list[FloatArray] = []
        self._origins: list[tuple[int, int]] = []
        self._structure = NoiseStructure()
        self._moves: dict[str, _Mean] = defaultdict(_Mean)
        self._still = _Mean()
        self._turns = np.zeros(num_records, dtype=np.int64)
        self._num_samples = self._num_pairs = 0
        self._sizes: list[int] = []
        self._again: list[tuple[int, int]] = []
        self._of_step: dict[int, BoolArray] = {}
        self._last: BoolArray | None = None

    def sampled(self, run: int, step: int, counts: IntArray) -> None:
        """Adds the sample of a step.

        Args:
            run: number of the run of the training, from 0; a run that continues after a kill has a new number.
            step: number of the step in its training.
            counts: (num_records,) number of reads of each record.
        """
        present = counts > 0
        self._sizes.append(int(counts.sum()))
        self._turns += present
        self._num_samples += 1
        self._num_pairs += int((present[:-1:2] & present[1::2]).sum())
        # A repeated step is compared with its lost first run, any other step with the step before it.
        other = self._of_step.get(step, self._last) if run else self._last
        if other is not None:
            self._again.append((int((present & other).sum()), int(other.sum())))
        self._last = present
        if run == 0:
            self._of_step[step] = present

    def released(
        self,
        run: int,
        step: int,
        *,
        noise_multiplier: float,
        moved: Mapping[str, FloatArray],
        still: FloatArray,
        spare: Sequence[FloatArray],
        share: float,
    ) -> None:
        """Adds the released tensors of a step. All values are in clipping norms.

        Args:
            run, step: numbers as for `sampled`.
            noise_multiplier: standard deviation of the noise.
            moved: own coordinates, for each tensor, of the records that took part and have a gradient.
            still: own coordinates of records that have a gradient and did not take part.
            spare: coordinates, for each tensor, that no record touches.
            share: length of a clipped record's own coordinate in each tensor.
        """
        for values in spare:
            self._squares.append((float(np.square(values).sum()) / noise_multiplier**2, values.size))
            self._structure.add(values.reshape(-1) / noise_multiplier)
            vector = values.reshape(-1)[:VECTOR_LENGTH]
            length = float(np.linalg.norm(vector))
            if vector.size == VECTOR_LENGTH and length > 0 and len(self._vectors) < MOST_VECTORS:
                self._vectors.append((vector / length).astype(np.float32))
                self._origins.append((run, step))
        for name, values in moved.items():
            self._moves[name].add((values - share) / noise_multiplier)
        if len(moved) > 1:
            along = share * np.sum(list(moved.values()), axis=0)
            self._moves["all tensors"].add((along - share**2 * len(moved)) / noise_multiplier)
        self._still.add(still / noise_multiplier)

    def p_values(self) -> dict[str, float]:
        """Returns the p-value of each test, by a plain name of the test."""
        structure = self._structure.p_values()
        return {**self._noise(), **self._fresh_noise(), **structure, **self._records(), **self._samples()}

    def _noise(self) -> dict[str, float]:
        squares, sizes = (np.array(column, dtype=np.float64) for column in zip(*self._squares, strict=True))
        each = _chi_square(squares, sizes)
        return {
            "size of the noise": float(_chi_square(squares.sum(), sizes.sum())),
            "size of the noise in each step and tensor": least(each),
        }

    def _fresh_noise(self) -> dict[str, float]:
        names = ("between tensors", "between steps", "between runs", "after a resume")
        if len(self._vectors) < 2:
            return {}
        vectors = np.stack(self._vectors)
        runs, steps = np.array(self._origins).T
        first, second = np.triu_indices(len(vectors), 1)
        same_run = runs[first] == runs[second]
        is_resumed = (runs[first] == 0) & (runs[second] == 1)
        kinds = (
            same_run & (steps[first] == steps[second]),
            same_run & (steps[first] != steps[second]),
            ~same_run & ~is_resumed,
            is_resumed,
        )
        cosines = np.square(np.clip((vectors @ vectors.T)[first, second].astype(np.float64), -1, 1))
        return {
            f"fresh noise {name}": least(stats.beta.sf(cosines[chosen], 0.5, (VECTOR_LENGTH - 1) / 2))
            for name, chosen in zip(names, kinds, strict=True)
            if chosen.any()
        }

    def _records(self) -> dict[str, float]:
        unit, units = self._names[1], _PLURALS[self._names[1]]
        found = {f"largest move of a {unit}, {name}": float(stats.norm.sf(m.z)) for name, m in self._moves.items()}
        found[f"{units} that took no part"] = float(2 * stats.norm.sf(abs(self._still.z)))
        return found

    def _samples(self) -> dict[str, float]:
        if self._rate is None or not self._num_samples:
            return {}
        num, rate = self._num_records, self._rate

        def p_value(counts: Iterable[int], trials: Iterable[int], rate: float) -> float:
            return _normals_p_value(self._normals(np.array([*counts]), np.array([*trials]), rate))

        steps = self._num_samples
        again = [pair for pair in self._again if pair[1]]
        return {
            "sizes of samples": p_value(self._sizes, itertools.repeat(num, steps), rate),
            f"how often each {self._names[0]} is sampled": p_value(self._turns, itertools.repeat(steps, num), rate),
            "pairs sampled together": p_value([self._num_pairs], [steps * (num // 2)], rate**2),
            f"{_PLURALS[self._names[0]]} sampled again": p_value((k for k, _ in again), (n for _, n in again), rate)
            if again
            else 1.0,
        }

    def _normals(self, counts: IntArray, trials: IntArray, rate: float) -> FloatArray:
        """Turns binomial counts into standard normals by the probability integral transform, uniform within a count."""
        law = stats.binom(trials, rate)
        mass = self._rng.random(counts.shape) * law.pmf(counts)
        below, above = law.cdf(counts - 1) + mass, law.sf(counts) + mass
        # Uses the nearer tail, to lose no digits.
        low = stats.norm.ppf(np.clip(below, LEAST_P_VALUE, 1))
        return np.asarray(np.where(counts < trials * rate, low, stats.norm.isf(np.clip(above, LEAST_P_VALUE, 1))))


def _chi_square(squares: npt.ArrayLike, sizes: npt.ArrayLike) -> FloatArray:
    """Returns two-sided p-values of sums of squares of these numbers of standard normals."""
    law = stats.chi2(sizes)
    return np.asarray(np.minimum(1.0, 2 * np.minimum(law.cdf(squares), law.sf(squares))))


def _normals_p_value(z: FloatArray) -> float:
    """Returns the p-value that values are standard normals, by their sum and by the sum of their squares."""
    by_sum = float(2 * stats.norm.sf(abs(z.sum()) / math.sqrt(len(z))))
    return min(1.0, 2 * min(by_sum, float(_chi_square(np.square(z).sum(), len(z)))))
