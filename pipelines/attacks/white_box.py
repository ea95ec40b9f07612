"""The white-box game on the DP engine: gradients as canaries, and an attacker who sees every update.

Each canary is a record whose gradient has its own coordinate of the parameters and is longer than the clipping norm
(the Dirac canaries of Nasr et al. 2023, "Tight auditing", many at once as in the white-box experiments of Steinke et
al. 2023, section 6). A fair coin puts it into the data set or not. If it is there, the engine's Poisson sampling
decides about each step. Clipping, sampling, noise and division are the engine's own, through
`pipelines.dp.privacy.PrivacyEngine`, as in a user's loop. The game finds faults in any of them.

The attacker's score of a canary is the log-likelihood ratio of its inner products with the noisy sums. The attacker
measures the noise of each step on coordinates that no record touches, so a step without noise reveals everything.

An absent canary stays in the data set as a record without a gradient. So the sum is that of the data set without it,
and the rate and the divisor stay: the add-or-remove relation with a rate that is fixed beforehand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from pipelines.accounting import accountants
from pipelines.accounting.events import Composed, Event, NeighboringRelation, dp_sgd
from pipelines.attacks.epsilon_comparison import ClaimedEpsilon
from pipelines.attacks.epsilon_trials import BoolArray, FloatArray, GuessPlan, Trials
from pipelines.dp.privacy import PrivacyEngine
from pipelines.dp.sampling import PrivatePlan, plan_private_steps
from pipelines.errors import ConfigError, PrivacyGateError

RELATION: Final = NeighboringRelation.ADD_OR_REMOVE_ONE
NUM_SPARE: Final = 256
"""Number of coordinates that no record touches. They give the noise of a step to 5 %."""
ENGINE_PLANS: Final = (GuessPlan(0.05, 0.0), GuessPlan(0.25, 0.0), GuessPlan(0.1, 0.1))
"""Guess plans of a game like a training. A fault reveals some of the included canaries, and few of the others: many
guesses of inclusion that are all right refute the most."""
NUM_MICROBATCHES: Final = 4
"""Number of microbatches of an average step in a game like a training, which tests their sum too."""
LEAST_NOISE: Final = 1e-3
"""Least noise that the attacker assumes, in clipping norms. Rounding alone is far below."""


@dataclass(frozen=True, kw_only=True)
class Game:
    """The settings of a game, fixed before it.

    Attributes:
        num_canaries: number of trials of one game.
        num_others: number of other records, without a gradient.
        expected_batch_size: number of records in an average step; all records make the rate 1, the tightest game.
        epochs: number of passes; an epoch has one over the rate steps.
        noise_multiplier: noise multiplier of the engine.
        max_grad_norm: clipping norm of the engine.
        canary_norm: gradient norm of a canary before clipping, in clipping norms; above 1, to test clipping.
        max_physical_batch_size: most records in one run of the model.
    """

    num_canaries: int
    num_others: int = 0
    expected_batch_size: int
    epochs: int = 1
    noise_multiplier: float
    max_grad_norm: float = 1.0
    canary_norm: float = 10.0
    max_physical_batch_size: int | None = None

    def __post_init__(self) -> None:
        if min(self.num_canaries, self.expected_batch_size, self.epochs) < 1 or self.num_others < 0:
            raise ConfigError("a game needs at least one canary, one record a step and one epoch")
        if not self.canary_norm > 1:
            raise ConfigError(
                f"a canary's gradient must be longer than the clipping norm, not {self.canary_norm} of it"
            )

    @property
    def plan(self) -> PrivatePlan:
        """The engine's plan of rate and steps."""
        return plan_private_steps(self.num_canaries + self.num_others, self.expected_batch_size, self.epochs)

    @property
    def event(self) -> Event:
        """The privacy event of the game."""
        plan = self.plan
        step = dp_sgd(noise_multiplier=self.noise_multiplier, sample_rate=plan.sample_rate, num_steps=plan.num_steps)
        return Composed(events=(step,))

    def claimed(self, delta: float) -> ClaimedEpsilon:
        """Returns the accountant's epsilon for exactly this game's rate, noise and steps, under add-or-remove."""
        return ClaimedEpsilon(epsilon=accountants.epsilon(self.event, delta, RELATION), delta=delta, relation=RELATION)


@dataclass(frozen=True, kw_only=True)
class Played:
    """The result of a game.

    Attributes:
        trials: score and coin of each canary.
        noise: (num_steps,) noise of each step on the spare coordinates, in clipping norms.
    """

    trials: Trials
    noise: FloatArray


def play(game: Game, rng: np.random.Generator, *, test_seed: int | None = None) -> Played:
    """Trains once, with all canaries, and scores them.

    Args:
        game: settings of the game.
        rng: generator of the coins.
        test_seed: seed that makes the engine's samples and noise repeatable, for tests.

    Raises:
        PrivacyGateError: the engine counted or took other steps than the game's, so there is no claim about it.
    """
    coins = rng.random(game.num_canaries) < 0.5
    attacker = _Attacker(game)
    _train(game, coins, test_seed, attacker)
    return Played(trials=Trials(attacker.scores, coins), noise=np.array(attacker.noise))


def log_likelihood_ratios(sums: FloatArray, noise: FloatArray, sample_rate: float) -> FloatArray:
    """Returns log-likelihood ratios of inclusion, summed over steps: log(1 - q + q exp((2 x - 1) / (2 s^2))) for each.

    It is the ratio of (1 - q) N(0, s^2) + q N(1, s^2) to N(0, s^2), the pair that dominates a sampled Gaussian sum
    (Zhu, Dong and Wang 2022, on dominating pairs of Poisson sampling). No other score is more powerful at any error
    rate (Neyman and Pearson 1933).

    Args:
        sums: (num_steps, num_canaries) inner products of the noisy sums with the canaries, in clipping norms.
        noise: (num_steps,) noise s of each step, in clipping norms.
        sample_rate: q, above 0 and at most 1.
    """
    variance = np.maximum(noise, LEAST_NOISE)[:, None] ** 2
    exponents = (2 * sums - 1) / (2 * variance)
    if sample_rate >= 1:
        return np.asarray(exponents.sum(axis=0))
    ratios = np.logaddexp(math.log1p(-sample_rate), math.log(sample_rate) + exponents)
    return np.asarray(ratios.sum(axis=0))


class _Carrier(nn.Module):
    """A weight for each canary, looked up like a token's, as the model that is trained."""

    def __init__(self, num_weights: int) -> None:
        super().__init__()
        self.weights = nn.Embedding(num_weights, 1)
        with torch.no_grad():
            self.weights.weight.zero_()

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        """Returns (B,) weights of the numbers."""
        found: torch.Tensor = self.weights(numbers[:, None])[:, 0, 0]
        return found


class _Records(Dataset[Any]):
    """Canaries, then other records without a gradient: (number of the weight, length of the gradient)."""

    def __init__(self, game: Game, coins: BoolArray) -> None:
        self._lengths = np.where(coins, game.canary_norm * game.max_grad_norm, 0.0)
        self._num_others = game.num_others

    def __len__(self) -> int:
        return len(self._lengths) + self._num_others

    def __getitem__(self, index: int) -> tuple[int, float]:
        return (index, float(self._lengths[index])) if index < len(self._lengths) else (0, 0.0)


class _Attacker:
    """An attacker who adds up the evidence on each canary step by step, because to keep all sums would fill memory."""

    def __init__(self, game: Game) -> None:
        self._game = game
        self.scores = np.zeros(game.num_canaries)
        self.noise: list[float] = []

    def see(self, update: FloatArray) -> None:
        """Adds the evidence of a step's update, (num_canaries + NUM_SPARE,)."""
        game = self._game
        sums = update * (game.plan.expected_batch_size / game.max_grad_norm)
        noise = math.sqrt((sums[game.num_canaries :] ** 2).mean())
        self.noise.append(noise)
        self.scores += log_likelihood_ratios(sums[None, : game.num_canaries], np.array([noise]), game.plan.sample_rate)


def _train(game: Game, coins: BoolArray, test_seed: int | None, attacker: _Attacker) -> None:
    carrier = _Carrier(game.num_canaries + NUM_SPARE)

    def batch_of(items: list[tuple[int, float]]) -> tuple[torch.Tensor, torch.Tensor]:
        numbers, lengths = zip(*items, strict=True)
        return torch.tensor(numbers), torch.tensor(lengths)

    optimizer = torch.optim.SGD(carrier.parameters(), lr=0.1)
    optimizer.register_step_pre_hook(lambda *_: attacker.see(_update_of(carrier)))
    engine = PrivacyEngine(relation=RELATION, test_seed=test_seed, insecure_test_seed=test_seed is not None)
    _, private, loader = engine.make_private(
        module=carrier,
        optimizer=optimizer,
        data_loader=DataLoader(_Records(game, coins), batch_size=game.expected_batch_size, collate_fn=batch_of),
        noise_multiplier=game.noise_multiplier,
        max_grad_norm=game.max_grad_norm,
        max_physical_batch_size=game.max_physical_batch_size,
    )
    for _ in range(game.epochs):
        for numbers, lengths in loader:
            private.backward(lengths * carrier(numbers))
            private.step()
    if engine.event != game.event or len(attacker.noise) != game.plan.num_steps:
        raise PrivacyGateError(
            "the engine counted or took other steps than the game planned, so there is no claim about this training"
        )


def _update_of(carrier: _Carrier) -> FloatArray:
    gradient = carrier.weights.weight.grad
    assert gradient is not None  # noqa: S101  # the engine sets it before each step
    return gradient[:, 0].detach().cpu().double().numpy().copy()
