"""Scores of canaries joined to the coins that included them: by identifier, never by position."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipelines.errors import InputError

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


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

    def correct_guesses(self, num_guesses: int, rng: np.random.Generator) -> int:
        """Right guesses of the attacker who calls the highest scores included and the lowest not (k+ and k-).

        Half of the guesses are of either kind, the odd one an inclusion; scores that tie are put in random order.

        Args:
            num_guesses: r, at most the number of canaries.
            rng: for ties.
        """
        if not 0 <= num_guesses <= len(self):
            raise ValueError(f"{num_guesses} guesses over {len(self)} canaries cannot be made")
        order = np.lexsort((rng.random(len(self)), self.scores))
        num_low = num_guesses // 2
        num_high = num_guesses - num_low
        high = self.included[order[len(self) - num_high :]]
        return int(high.sum()) + int((~self.included[order[:num_low]]).sum())
