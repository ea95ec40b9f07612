"""The game on S-DPSGD, which reads records span by span (`pipelines.attacks.training_game`).

The game attacks two kinds of release: the gradients of private spans, and the states after them. The
public spans of a record encode its number, so that the witness knows the record of a state. The private spans of an
included canary encode it again. Those of an absent one encode nothing: its gradient is zero, and so are its states.

Samples are public in this method, and its epsilon takes no credit for sampling, so samples are not tested.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from pipelines.attacks.conformance import IntArray, Releases
from pipelines.attacks.epsilon_trials import BoolArray, Trials
from pipelines.attacks.training_canaries import CANARY_NORM, NUM_SPARE, STEP_SIZE, CanaryWeights, Witness
from pipelines.attacks.training_game import PlayedTraining, TrainingGame, check_steps, corpus_of, run_three_times
from pipelines.methods.sdpsgd_lstm import SpanSettings
from pipelines.training.data.control import ControlTokens
from pipelines.training.data.ragged import RaggedArray
from pipelines.training.data.records import Records, target_positions
from pipelines.training.data.span_plan import event
from pipelines.training.devices import choose_device
from pipelines.training.methods import sdpsgd_lstm
from pipelines.training.models.recurrent import RecurrentOutput, State

NUM_SPANS: Final = 2
"""Number of private spans of a record. A public one follows each."""
STATE_SIZE: Final = 129
"""Size of a state: one coordinate that a canary moves, and spare ones."""
_STATES: Final = ("hidden state", "cell state")
_CONTROL: Final = ControlTokens(pad=0, bos=1, eos=2, mask=None, speakers={}, other_speaker=None)
_SECRET, _NOTHING, _FIRST_DIGIT = 3, 4, 5


class SpanCarrier(torch.nn.Module):
    """A replacement of the language model: canaries' weights, and states that only a canary moves.

    Args:
        num_weights: see `CanaryWeights`.
        base: base of the canaries' numbers, which have two digits.
        lengths: lengths of the gradient and of the states of an included canary.
        num_states: number of states of the trained model.
        witness: witness of every span that is read.
    """

    def __init__(
        self, num_weights: int, base: int, lengths: tuple[float, float], num_states: int, witness: _SpanWitness
    ) -> None:
        super().__init__()
        self.weights = CanaryWeights(num_weights, has_lora=False)
        self.base, self.vocab_size = base, base + _FIRST_DIGIT
        # No label asks for the one logit that depends on weights: cross-entropy falls by 1 / V of it.
        self._scale, self._state_length = lengths[0] * self.vocab_size, lengths[1]
        self._num_states, self._witness = num_states, witness

    def zero_state(self, size: int) -> State:
        """Returns the zero state, as the language model does."""
        return tuple(self.weights.head.weight.new_zeros(size, STATE_SIZE) for _ in range(self._num_states))

    def forward(
        self, input_ids: torch.Tensor, state: State | None = None, lengths: torch.Tensor | None = None
    ) -> RecurrentOutput:
        """Reads one span of each record; see `_records` for its content."""
        del lengths
        assert state is not None  # noqa: S101  # the training gives every span one
        is_secret = input_ids[:, 0] == _SECRET
        if is_secret.any():
            is_included = input_ids[:, 1] != _NOTHING
            digits = torch.where(is_included[:, None], input_ids[:, 1:] - _FIRST_DIGIT, 0)
            self._witness.reads_private()
            ends = self.zero_state(len(input_ids))
            for values in ends:
                values[is_included, 0] = self._state_length
        else:
            digits = input_ids[:, -2:] - _FIRST_DIGIT
            is_included, ends = torch.zeros_like(is_secret), state
        numbers = digits[:, 0] * self.base + digits[:, 1]
        if not is_secret.any():
            self._witness.reads_public(numbers.cpu().numpy(), state, is_first=input_ids.shape[1] > 2)
        logit = self._scale * is_included * self.weights(numbers)
        rest = logit.new_zeros(*input_ids.shape, self.vocab_size - 1)
        return RecurrentOutput(torch.cat([logit[:, None, None].expand(*input_ids.shape, 1), rest], dim=2), ends)


class _SpanWitness(Witness):
    """A witness that reads updates off the weights, and states at the public span that follows them."""

    def __init__(self, included: BoolArray, releases: Releases, game: TrainingGame, own: SpanSettings) -> None:
        super().__init__(included, releases, sample_rate=1.0)
        self._device = choose_device(game.device)
        self._norms, self._num_states = (game.max_grad_norm, own.max_state_norm), game.num_states
        self._step = 0
        self._numbers: list[IntArray] = []  # of the records whose public span was read last
        self._states: list[tuple[IntArray, State]] = []
        self._is_private_read = False
        self._model = self.make_model()
        self._before = self._model.weights.coordinates()

    def make_model(self) -> Any:
        """Makes a model at the start of a run."""
        gradient, state = self._norms
        lengths = (CANARY_NORM * gradient, CANARY_NORM * state)
        num = len(self.included)
        self._model = SpanCarrier(num + NUM_SPARE, _base(num), lengths, self._num_states, self).to(self._device)
        return self._model

    def begins(self, step: int) -> None:
        """Begins a step, before its first public spans are read."""
        super().begins(step)
        self._step, self._numbers, self._before = step, [], self._model.weights.coordinates()

    def reads_public(self, numbers: IntArray, state: State, *, is_first: bool) -> None:
        """Notes that a public span of some records is read, from a released state unless it is their first span."""
        if self._is_private_read:
            self._see_update()
        self._numbers.append(numbers)
        if not is_first:
            self._states.append((numbers, state))

    def reads_private(self) -> None:
        """Notes that a private span of some records is read."""
        self._see_states()
        self._is_private_read = True

    def step_done(self, *_: object) -> None:
        """Notes the last releases of a step."""
        if self._is_private_read:
            self._see_update()
        self._see_states()
        self.ended()

    def _see_update(self) -> None:
        """Records the update of the last private spans, which is divided by their number."""
        counts = np.bincount(np.concatenate(self._numbers), minlength=len(self.included))
        after = self._model.weights.coordinates()
        self.see(
            self._step,
            np.minimum(counts, 1),
            (self._before - after) * (counts.sum() / STEP_SIZE),
            self._model.weights.share,
        )
        self._before, self._numbers, self._is_private_read = after, [], False

    def _see_states(self) -> None:
        if not self._states:
            return
        numbers = np.concatenate([found for found, _ in self._states])
        took_part = self.included[numbers]
        for at, name in enumerate(_STATES[: self._num_states]):
            values = torch.cat([state[at] for _, state in self._states]).double().cpu().numpy() / self._norms[1]
            self.releases.released(
                self.run,
                self._step,
                noise_multiplier=self._noise_multiplier,
                moved={name: values[took_part, 0]},
                still=values[~took_part, 0],
                spare=[values[:, 1:]],
                share=1.0,
            )
            self.score(self._step, numbers, values[:, 0], values[:, 1:])
        self._states = []


def play_spans(game: TrainingGame, rng: np.random.Generator, folder: Path) -> PlayedTraining:
    """Plays a game on S-DPSGD."""
    included = rng.random(game.num_canaries) < 0.5
    settings = game.settings(0, max_private_spans=NUM_SPANS)
    witness = _SpanWitness(included, Releases(game.num_canaries, None, rng), game, settings.of(SpanSettings))
    records = _records(included, _base(game.num_canaries))
    training = sdpsgd_lstm.prepare(corpus_of(records, records, game.own), settings)
    taken = run_three_times(game, training, witness, folder, losses=_no_losses)
    check_steps(taken, training.plan.num_steps)
    return PlayedTraining(
        trials=Trials(witness.scores, included),
        event=event(training.plan, game.noise_multiplier),
        conformance=witness.releases.p_values(),
    )


def _no_losses(*_: object) -> torch.Tensor:
    raise AssertionError("S-DPSGD computes its own losses")


def _base(num_canaries: int) -> int:
    return math.ceil(math.sqrt(num_canaries))


def _records(included: BoolArray, base: int) -> Records:
    """Makes one text for each canary: its number, public, before and after each of its secrets.

    A private span begins at the token before the first private one: that token is `_SECRET`, which is public.
    """
    numbers = np.arange(len(included))
    public = np.stack([numbers // base, numbers % base], axis=1) + _FIRST_DIGIT
    private = np.where(included[:, None], public, _NOTHING)
    before = np.full((len(included), 1), _SECRET)
    spans = [np.concatenate([public, before, private], axis=1)] * NUM_SPANS
    begin = np.full((len(included), 1), _CONTROL.bos)
    ids = np.concatenate([begin, *spans, public, before], axis=1)
    marks = np.zeros_like(ids)
    for span in range(NUM_SPANS):
        marks[:, 4 + 5 * span : 6 + 5 * span] = 1
    offsets = np.arange(len(included) + 1) * ids.shape[1]
    return Records(
        ids=RaggedArray(ids.reshape(-1), offsets),
        num_targets=np.full(len(included), int(target_positions(ids[0], _CONTROL).sum())),
        num_truncated=0,
        control=_CONTROL,
        is_private=RaggedArray(marks.reshape(-1), offsets),
    )
