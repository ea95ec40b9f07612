"""Scores of canaries joined to the coins that included them: by identifier, never by position."""

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
    """How many canaries an attacker guesses, fixed beforehand; he abstains on the others.

    Attributes:
        included: share of the canaries, those of the highest scores, that he calls included.
        excluded: share of the canaries, those of the lowest scores, that he calls excluded.
    """

    included: float
    excluded: float

    def __post_init__(self) -> None:
        if min(self.included, self.excluded) < 0 or not 0 < self.included + self.excluded <= 1:
            raise ConfigError(f"shares of canaries to guess must lie between 0 and 1 together, not {self}")

    def counts(self, num_canaries: int) -> tuple[int, int]:
        """k+ and k-, at least one guess in all."""
        included, excluded = math.floor(self.included * num_canaries), math.floor(self.excluded * num_canaries)
        return (included, excluded) if included + excluded else (1, 0)


@dataclass(frozen=True)
class Trials:
    """What an attacker scored, beside the truth.

    Attributes:
        scores: (m,) higher speaks for the canary's being included; finite.
        included: (m,) the coins.
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
        """Scores and coins of the same identifiers, in the order of the identifiers.

        Raises:
            InputError: a canary has a score and no coin, or a coin and no score. Left out, it would bias the audit.
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
        """Of the canaries that were included."""
        return self.scores[self.included]

    @property
    def out_scores(self) -> FloatArray:
        """Of the canaries that were not."""
        return self.scores[~self.included]

    def halves(self, rng: np.random.Generator) -> tuple[Trials, Trials]:
        """Two halves, drawn without a look at scores or coins: one to choose a threshold on, one to judge it by."""
        order = rng.permutation(len(self))
        return self.at(order[: len(self) // 2]), self.at(order[len(self) // 2 :])

    def at(self, places: npt.NDArray[np.int64]) -> Trials:
        """The trials at these places."""
        return Trials(self.scores[places], self.included[places])

    def errors_at(self, threshold: float) -> tuple[int, int, int, int]:
        """False positives, trials without, false negatives, trials with: "included" is said above the threshold."""
        said = self.scores > threshold
        return (
            int((said & ~self.included).sum()),
            int((~self.included).sum()),
            int((~said & self.included).sum()),
            int(self.included.sum()),
        )

    def correct_guesses(self, num_included: int, num_excluded: int, rng: np.random.Generator) -> int:
        """Right guesses of the attacker who calls the highest scores included and the lowest not; ties in random order.

        Args:
            num_included: guesses of inclusion, k+.
            num_excluded: guesses of exclusion, k-; with k+ at most the number of canaries.
            rng: for ties.
        """
        if min(num_included, num_excluded) < 0 or num_included + num_excluded > len(self):
            raise ValueError(f"{num_included} and {num_excluded} guesses over {len(self)} canaries cannot be made")
        order = np.lexsort((rng.random(len(self)), self.scores))
        highest = self.included[order[len(self) - num_included :]]
        return int(highest.sum()) + int((~self.included[order[:num_excluded]]).sum())

    def guesses(self, plans: Sequence[GuessPlan], rng: np.random.Generator) -> list[tuple[int, int]]:
        """(guesses, right ones of them) of each plan."""
        found = []
        for plan in plans:
            counts = plan.counts(len(self))
            found.append((sum(counts), self.correct_guesses(*counts, rng)))
        return found
