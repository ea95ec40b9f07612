"""The game on the steps of `pipelines.training.loop`, which most methods take (`pipelines.attacks.training_game`)."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from pipelines.accounting.events import dp_sgd
from pipelines.attacks.conformance import IntArray, Releases
from pipelines.attacks.epsilon_trials import BoolArray, FloatArray, Trials
from pipelines.attacks.training_canaries import CANARY_NORM, KILLED_AFTER, NUM_SPARE, STEP_SIZE, CanaryWeights, Witness
from pipelines.attacks.training_game import PlayedTraining, TrainingGame, check_steps, corpus_of, run_three_times
from pipelines.dp.ranks import Ranks
from pipelines.errors import PrivacyGateError
from pipelines.methods import registry
from pipelines.training.data.ragged import RaggedArray
from pipelines.training.data.records import ExampleBatch, Examples
from pipelines.training.devices import choose_device
from pipelines.training.methods.base import LoopTraining
from pipelines.training.methods.jft_phase_one import prepare_phase_one

MOST_SEEDS: Final = 100


class Canaries:
    """Records of one number each, in the form of `pipelines.training.data.records.Examples`.

    Args:
        lengths: (N,) lengths of their gradients.
        on_read: function that receives the rows that are read.
        of_records: (N,) canary of each record, if several records are one canary.
    """

    num_truncated = 0
    is_private = None

    def __init__(
        self, lengths: npt.ArrayLike, on_read: Callable[[IntArray], None], of_records: IntArray | None = None
    ) -> None:
        self._lengths, self._on_read = torch.from_numpy(np.asarray(lengths, dtype=np.float64)), on_read
        numbers = np.arange(len(self._lengths))
        self._numbers = numbers if of_records is None else of_records
        self.ids = RaggedArray(numbers, np.arange(len(self._lengths) + 1))
        self.num_targets = self.num_outputs = np.ones(len(self._lengths), dtype=np.int64)

    def __len__(self) -> int:
        return len(self.num_targets)

    def collate(self, rows: IntArray) -> ExampleBatch:
        """Makes a batch of the canaries' numbers, with the lengths of their gradients as weights."""
        self._on_read(rows)
        found = np.asarray(rows, dtype=np.int64)
        numbers = torch.from_numpy(self._numbers[found])[:, None]
        return ExampleBatch(numbers, torch.zeros_like(numbers), self._lengths[found][:, None])


def canary_losses(model: torch.nn.Module, batch: ExampleBatch) -> torch.Tensor:
    """Returns (B,) losses whose gradients have the batch's lengths, each in the canary's own coordinates."""
    found: torch.Tensor = batch.weights[:, 0] * model(batch.inputs[:, 0])
    return found


def prepared(game: TrainingGame, canaries: Examples, other: Examples, of_records: IntArray) -> LoopTraining:
    """Returns the method's own plan. A random schedule is drawn until it has enough steps for a kill."""
    for seed in range(MOST_SEEDS):
        settings = game.settings(seed)
        if game.is_first_phase:
            everything = {"value": 1.0, "upper": 1.0, "confidence": 1.0, "basis": "assumed"}
            training = prepare_phase_one(corpus_of(canaries, other, game.own), settings, settings.epochs, everything)
        else:
            module = importlib.import_module(registry.method(game.method).module)
            training = module.prepare(corpus_of(other, canaries, game.own, of_records), settings)
        if training.num_steps > KILLED_AFTER:
            return training
    raise PrivacyGateError(f"no schedule of {game.method} has more than {KILLED_AFTER} noised steps to play with")


class _LoopWitness(Witness):
    """A witness that reads samples off the requested records, and updates off the weights."""

    def __init__(self, included: BoolArray, releases: Releases, game: TrainingGame, of_records: IntArray) -> None:
        person = None if game.person_records is None else game.group_size
        super().__init__(included, releases, game.rate, person)
        self._game, self._of_records = game, of_records
        self._scale = game.expected_batch_size / STEP_SIZE
        self._step: int | None = None
        self._device = choose_device(game.device)
        self._counts: IntArray = np.zeros(len(of_records), dtype=np.int64)
        self._before: FloatArray = np.zeros(0)
        self._model = self.make_model()

    def make_model(self) -> CanaryWeights:
        """Makes a model at the start of a run."""
        self._model = CanaryWeights(len(self.included) + NUM_SPARE).to(self._device)
        return self._model

    def read(self, rows: IntArray) -> None:
        """Notes that records are read."""
        np.add.at(self._counts, rows, 1)

    def begins(self, step: int) -> None:
        """Begins a noised step. Records read before, for comparisons, are no sample."""
        super().begins(step)
        self._step, self._counts, self._before = step, np.zeros_like(self._counts), self._model.coordinates()

    def step_done(self, *_: object) -> None:
        """Notes the releases of a noised step."""
        if self._step is None:
            return
        counts = torch.from_numpy(self._counts).to(self._device)
        Ranks.here().add_up([counts])
        update = (self._before - self._model.coordinates()) * self._scale
        sampled, shares = self._sampled(counts.cpu().numpy())
        self.releases.sampled(self.run, self._step, sampled)
        self.see(self._step, shares, update, self._model.share)
        self._step = None
        self.ended()

    def _sampled(self, counts: IntArray) -> tuple[IntArray, IntArray]:
        """Returns how often each unit was sampled, and the clipping norms by which each canary may move the sum."""
        if self._game.by_owner:
            turns = -(-self._of_canaries(counts) // self._game.records_each)
            return turns, np.minimum(turns, 1)
        return counts, self._of_canaries(np.minimum(counts, 1))

    def _of_canaries(self, counts: IntArray) -> IntArray:
        return np.bincount(self._of_records, counts, len(self.included)).astype(np.int64)


def play_loop(game: TrainingGame, rng: np.random.Generator, folder: Path) -> PlayedTraining:
    """Plays a game on a method whose noised steps are the loop's."""
    included = rng.random(game.num_canaries) < 0.5
    lengths, of_records = included * 1.0, np.arange(game.num_canaries)
    if game.person_records is not None:
        of_records = np.repeat(of_records, game.person_records)
        # Neighbours are records of one person, whose draws must be independent; people are found in any order.
        of_records = rng.permutation(of_records) if game.by_owner else of_records
        lengths = np.where(included, 1.0, -1.0)[of_records]
    sampled, moves = "person" if game.by_owner else "record", "record" if game.person_records is None else "person"
    releases = Releases(game.num_sampled, game.rate, rng, sampled=sampled, moves=moves)
    witness = _LoopWitness(included, releases, game, of_records)
    canaries = Canaries(lengths * CANARY_NORM * game.max_grad_norm, witness.read, of_records)
    training = prepared(game, canaries, Canaries([0.0], lambda _: None), of_records)
    taken = run_three_times(game, training, witness, folder, losses=canary_losses)
    plan = training.plan
    check_steps(taken, plan.num_steps)
    return PlayedTraining(
        trials=Trials(witness.scores, included),
        event=dp_sgd(noise_multiplier=game.noise_multiplier, sample_rate=plan.sample_rate, num_steps=plan.num_steps),
        conformance=releases.p_values(),
        person=None if game.person_records is None else game.group_size,
    )
