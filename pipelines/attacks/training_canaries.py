"""Canaries for the games on trainings (`pipelines.attacks.training_game`), and a witness of every update.

A canary is a record whose gradient has its own coordinates: in an embedding, in a linear layer (like a language model's
head), and in the second factor of a low-rank addition. The gradient is ten times longer than the clipping norm. After
clipping, each of its K coordinates is the clipping norm over the square root of K.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Final

import numpy as np
import torch
from torch import nn
from torch.nn.functional import one_hot

from pipelines.accounting.groups import Pair
from pipelines.attacks.conformance import IntArray, Releases
from pipelines.attacks.epsilon_trials import BoolArray, FloatArray
from pipelines.attacks.noise_structure import LONGEST_VECTOR
from pipelines.attacks.white_box import LEAST_NOISE, log_likelihood_ratios

CANARY_NORM: Final = 10.0
"""Length of a canary's gradient, in clipping norms: long enough to test clipping."""
NUM_SPARE: Final = LONGEST_VECTOR
"""Number of coordinates of each tensor that no record touches."""
SAVED_AFTER: Final = 2
KILLED_AFTER: Final = 4
"""Numbers of noised steps after which a game writes its checkpoint, and is killed. The steps between are lost."""
STEP_SIZE: Final = 1e-3
"""Step size of plain SGD, whose update can be read off the weights. It does not change canaries' gradients."""
TAIL: Final = 1e-12
"""Probability of samples of a person that the score takes for slightly smaller ones."""


class Killed(Exception):  # not an error: part of the game
    """A signal that ends a training in the middle, as a kill does."""


class CanaryWeights(nn.Module):
    """A coordinate for each canary in each of several tensors.

    Args:
        num_weights: number of coordinates of a tensor; spare ones are the last.
        has_lora: true for a low-rank addition to the embedding and the head.
    """

    def __init__(self, num_weights: int, *, has_lora: bool = True) -> None:
        super().__init__()
        self.num_weights, self.width = num_weights, math.ceil(math.sqrt(num_weights))
        self.embedding = nn.Embedding(num_weights, 1)
        self.head = nn.Linear(self.width, self.width, bias=False)
        with torch.no_grad():
            self.embedding.weight.zero_()
            self.head.weight.zero_()
        self.lora: nn.Sequential | None = None
        if has_lora:  # as peft has it: the first factor is given, the second starts at zero
            down, up = (nn.Linear(self.width, self.width, bias=False) for _ in range(2))
            with torch.no_grad():
                down.weight.copy_(torch.eye(self.width))
                up.weight.zero_()
            self.lora = nn.Sequential(down, up)

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """The tensors with canaries' coordinates, by name."""
        found: dict[str, torch.Tensor] = {"embedding": self.embedding.weight, "head": self.head.weight}
        if self.lora is not None:
            found["lora"] = self.lora.get_parameter("1.weight")
        return found

    @property
    def share(self) -> float:
        """The length of a clipped canary's coordinate in each tensor, in clipping norms."""
        return 1 / math.sqrt(len(self.tensors))

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        """Returns (B,) the mean direction of the canaries' coordinates: their sum, times `share`."""
        at = one_hot(numbers % self.width, self.width).to(self.head.weight.dtype)
        columns = (numbers // self.width)[:, None]
        found = self.embedding(numbers[:, None])[:, 0] + self.head(at).gather(1, columns)
        if self.lora is not None:
            found = found + self.lora(at).gather(1, columns)
        along: torch.Tensor = found[:, 0] * self.share
        return along

    def coordinates(self) -> FloatArray:
        """Returns (K, num_weights) weights of all canaries and the spare ones, in the memory order of each tensor."""
        found = [weight.detach().reshape(-1)[: self.num_weights] for weight in self.tensors.values()]
        return np.asarray(torch.stack(found).cpu().double().numpy())


class Witness(ABC):
    """A witness of a training, through its killed and resumed runs, which scores canaries by the releases.

    Args:
        included: (num_canaries,) coins.
        releases: collection of the releases for conformance tests.
        sample_rate: rate that the attacker assumes; 1 if the samples are known.
        person: number of sampled units that a canary is, if its coin decides the sign of its gradient. None if its coin
            decides whether it has one.

    Attributes:
        run: number of the run, from 0.
        scores: (num_canaries,) scores of the training that was killed and resumed.
    """

    def __init__(self, included: BoolArray, releases: Releases, sample_rate: float, person: int | None = None) -> None:
        self.included, self.releases, self.rate, self._person = included, releases, sample_rate, person
        self.run, self._num_begun, self._stop, self._noise_multiplier = -1, 0, 0, 0.0
        self._own: list[tuple[int, FloatArray]] = []
        self.scores = np.zeros(len(included))

    def starts(self, noise_multiplier: float, stop: int) -> None:
        """Begins a run, with the game's noise or, for a test only, with other noise.

        Args:
            noise_multiplier: noise multiplier of this run.
            stop: number of noised steps after which it is killed; 0: it runs to its end.
        """
        self.run += 1
        self._num_begun, self._stop, self._noise_multiplier = 0, stop, noise_multiplier

    def begins(self, step: int) -> None:
        """Begins a noised step."""
        self._num_begun = step + 1

    @abstractmethod
    def step_done(self, *_: object) -> None:
        """Ends a step. The training calls it; see `pipelines.training.loop.TrainingContext`."""

    @abstractmethod
    def make_model(self) -> nn.Module:
        """Makes a model at the start of a run."""

    def clock(self) -> float:
        """Returns the time for the checkpoints, which makes them save after `SAVED_AFTER` steps."""
        return float(self._num_begun >= SAVED_AFTER)

    def ended(self) -> None:
        """Ends a noised step.

        Raises:
            Killed: it was the last step of this run.
        """
        if self._stop and self._num_begun >= self._stop:
            raise Killed

    def see(self, step: int, shares: IntArray, update: FloatArray, share: float) -> None:
        """Records a released noised sum.

        Args:
            step: number of the noised step.
            shares: (num_canaries,) number of clipping norms by which each canary may move the sum.
            update: (K, num_canaries + NUM_SPARE) sum, in clipping norms.
            share: see `CanaryWeights.share`.
        """
        num = len(self.included)
        own, has_gradient = update[:, :num], self.included
        if self._person is not None:
            own, has_gradient = own * np.where(self.included, 1.0, -1.0), np.ones(num, dtype=np.bool_)
        took_part = has_gradient & (shares > 0)
        beyond_one = (shares[took_part] - 1) * share
        names = ("embedding", "head", "lora")[: len(update)]
        self.releases.released(
            self.run,
            step,
            noise_multiplier=self._noise_multiplier,
            moved={name: row[took_part] - beyond_one for name, row in zip(names, own, strict=True)},
            still=own[:, has_gradient & (shares == 0)],
            spare=list(update[:, num:]),
            share=share,
        )
        self.score(step, np.arange(num), update[:, :num].sum(axis=0) * share, update[:, num:])

    def score(self, step: int, numbers: IntArray, values: FloatArray, spare: FloatArray) -> None:
        """Adds the evidence of a release to the scores of canaries.

        Args:
            step: number of the noised step.
            numbers: (n,) numbers of the canaries.
            values: (n,) inner products with the canaries, in clipping norms.
            spare: coordinates of noise alone, from which the attacker measures its size.
        """
        if self.run > 1:
            return
        ratios = np.zeros(len(self.included))
        noise = math.sqrt(np.square(spare).mean())
        if self._person is None:
            ratios[numbers] = log_likelihood_ratios(values[None], np.array([noise]), self.rate)
        else:
            ratios[numbers] = Pair(self._person, self.rate, max(noise, LEAST_NOISE), TAIL).losses(values)
        if self.run == 0:
            self._own.append((step, ratios))
        else:
            self._take_first_run(step)
            self.scores += ratios

    def _take_first_run(self, resumed_at: int | None) -> None:
        """Adds the evidence of the first run before the resumed step. Later steps were lost and released nothing."""
        self.scores += sum((r for step, r in self._own if resumed_at is None or step < resumed_at), np.zeros(1))
        self._own = []
