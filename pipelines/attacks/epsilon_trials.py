"""Scores of canaries, joined to the coins that included them by identifier, never by position."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipelines.errors import ConfigError, InputError

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class GuessPlan:
    """The shares of canaries that an attacker guesses, fixed beforehand. The attacker abstains on the others.

    Attributes:
        included: share of the canaries, with the highest scores, that are called included.
        excluded: share of the canaries, with the lowest scores, that are called excluded.
    """

    included: float
    excluded: float

    def __post_init__(self) -> None:
        if min(self.included, self.excluded) < 0 or not 0 < self.included + self.excluded <= 1:
            raise ConfigError(f"shares of canaries to guess must lie between 0 and 1 together, not {self}")

    def counts(self, num_canaries: int) -> tuple[int, int]:
        """Returns k+ and k-, at least one guess in all."""
        included, excluded = math.floor(self.included * num_canaries), math.floor(self.excluded * num_canaries)
        return (included, excluded) if included + excluded else (1, 0)


@dataclass(frozen=True)
class Trials:
    """An attacker's scores of canaries, and the true coins.

    Attributes:
        scores: (m,) finite scores; a higher score suggests inclusion.
        included: (m,) coins.
    """

    scores: FloatArray
    included: BoolArray

    def __post_init__(self) -> None:
        if self.scores.shape != self.included.shape or self.scores.ndim != 1:
            raise ValueError("scores and coins must be one-dimensional and equally long")
        if not np.isfinite(self.scores).all():
            raise InputError("a score is not a finite number, so that canaries cannot be ranked by it")

    @classmethod
    def joined(cls, scores: Mapping[str, float], coins: Mapping[str, bool]) -> Trials:
        """Joins scores and coins of the same identifiers, in the order of the identifiers.

        Raises:
            InputError: a canary has a score and no coin, or a coin and no score. To leave it out would bias the audit.
        """
        if scores.keys() != coins.keys():
            raise InputError(
                f"{len(scores.keys() - coins.keys())} scores belong to no canary and "
                f"{len(coins.keys() - scores.keys())} canaries have no score; score each canary once"
            )
        names = sorted(scores)
        return cls(
            np.array([scores[name] for name in names], dtype=np.float64),
            np.array([coins[name] for name in names], dtype=np.bool_),
        )

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def in_scores(self) -> FloatArray:
        """The scores of the included canaries."""
        return self.scores[self.included]

    @property
    def out_scores(self) -> FloatArray:
        """The scores of the excluded canaries."""
        return self.scores[~self.included]

    def halves(self, rng: np.random.Generator) -> tuple[Trials, Trials]:
        """Draws two halves, without reading scores or coins: one to choose a threshold, one to judge it."""
        order = rng.permutation(len(self))
        return self.at(order[: len(self) // 2]), self.at(order[len(self) // 2 :])

    def at(self, places: npt.NDArray[np.int64]) -> Trials:
        """Returns the trials at these places."""
        return Trials(self.scores[places], self.included[places])

    def errors_at(self, threshold: float) -> tuple[int, int, int, int]:
        """Counts false positives, trials without, false negatives, trials with; positive is above the threshold."""
        said = self.scores > threshold
        return (
            int((said & ~self.included).sum()),
            int((~self.included).sum()),
            int((~said & self.included).sum()),
            int(self.included.sum()),
        )

    def correct_guesses(self, num_included: int, num_excluded: int, rng: np.random.Generator) -> int:
        """Counts right guesses if the highest scores are called included and the lowest excluded, ties in random order.

        Args:
            num_included: k+, number of guesses of inclusion.
            num_excluded: k-, number of guesses of exclusion; k+ and k- are at most the number of canaries together.
            rng: generator for ties.
        """
        if min(num_included, num_excluded) < 0 or num_included + num_excluded > len(self):
            raise ValueError(f"{num_included} and {num_excluded} guesses over {len(self)} canaries cannot be made")
        order = np.lexsort((rng.random(len(self)), self.scores))
        highest = self.included[order[len(self) - num_included :]]
        return int(highest.sum()) + int((~self.included[order[:num_excluded]]).sum())

    def guesses(self, plans: Sequence[GuessPlan], rng: np.random.Generator) -> list[tuple[int, int]]:
        """Returns the numbers of guesses and of right guesses of each plan."""
        found = []
        for plan in plans:
            counts = plan.counts(len(self))
            found.append((sum(counts), self.correct_guesses(*counts, rng)))
        return found
