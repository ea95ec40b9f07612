"""The game on trainings: canaries go through the very steps of a method's records.

A method's own module plans and takes the steps (`prepare` and `train`), on canaries instead of a corpus: the same
sampling, clipping, noise, division, optimizer, checkpoint and resume calls, and, under several processes, the same
shares and sums. None of this code is copied here. Only two parts differ: the model, whose weights are the canaries'
coordinates (`pipelines.attacks.training_canaries`), and the optimizer, plain SGD, whose updates can be read off the
weights.

A training is played three times. It is killed and loses two steps, resumes from its checkpoint and runs to the end, and
begins once more with little noise for a few steps, which show a record's largest move.

The result is judged twice: by guesses of who took part, against the accountant's epsilon of exactly these steps
(add-or-remove, with a rate fixed beforehand), and by conformance tests (`pipelines.attacks.conformance`).

A game may have people in place of single records: each made-up person has k records, all with one gradient. A coin
decides its sign, so that two worlds differ in everything that one person wrote (replace-one). This is the case in which
the epsilon of a person is reached (`pipelines.accounting.groups`). If the method samples people, the claim is that of
one person. If it samples records, the claim is that of a group of k.
"""

from __future__ import annotations

import contextlib
import functools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from pipelines import randomness
from pipelines.accounting import accountants
from pipelines.accounting.events import Event, NeighboringRelation, NoEvent, to_json
from pipelines.accounting.groups import group_epsilons
from pipelines.attacks.conformance import combined
from pipelines.attacks.epsilon_comparison import ClaimedProfile, claim_p_value
from pipelines.attacks.epsilon_estimates import GUESS_PLANS, EpsilonEstimate, epsilon_estimates
from pipelines.attacks.epsilon_trials import Trials
from pipelines.attacks.training_canaries import KILLED_AFTER, SAVED_AFTER, STEP_SIZE, Killed, Witness
from pipelines.attacks.white_box import ENGINE_PLANS, NUM_MICROBATCHES, RELATION
from pipelines.dp.owners import Owners
from pipelines.dp.ranks import Ranks
from pipelines.errors import PrivacyGateError
from pipelines.methods import registry, sdpsgd_lstm
from pipelines.methods.settings import MethodSettings, Optimized, People
from pipelines.randomness import PrivateRandomness
from pipelines.training.checkpoint import Checkpoints
from pipelines.training.data.corpus import TrainingCorpus
from pipelines.training.data.records import Examples
from pipelines.training.loop import ExampleLosses, TrainingContext
from pipelines.training.methods.base import LoopTraining, TrainingSettings
from pipelines.training.methods.sdpsgd_lstm import SpanTraining
from pipelines.training.scoring.evaluation import Evaluation

LITTLE_NOISE: Final = 0.1
"""Largest noise multiplier of the run that measures the largest move of a record."""


@dataclass(frozen=True, kw_only=True)
class TrainingGame:
    """The settings of a game, fixed before it.

    Attributes:
        method: method whose steps are attacked.
        is_first_phase: true if the steps of its first phase are attacked.
        own: settings of the method.
        num_canaries: number of trials: of records, or of people.
        noise_multiplier: noise multiplier of the training.
        sample_rate: sampling rate of the training; the game has the nearest rate that whole records, or people, allow.
        max_grad_norm: clipping norm of the training.
        device: device of the training.
        person_records: number of records of each made-up person; None for a game on single records.
        num_states: number of states of a recurrent model (`pipelines.training.methods.base.TrainingSettings`).
    """

    method: str
    is_first_phase: bool = False
    own: MethodSettings
    num_canaries: int
    noise_multiplier: float
    sample_rate: float
    max_grad_norm: float
    device: str = "cpu"
    person_records: int | None = None
    num_states: int = 2

    @property
    def name(self) -> str:
        """The name of the game for people: whose steps are attacked, each of them seen."""
        whose = "" if self.person_records is None else f", on people with {_count(self.person_records)} each"
        phase = "the first phase of " if self.is_first_phase else ""
        return f"the steps of {phase}{self.method}, each of them seen{whose}"

    @property
    def by_owner(self) -> bool:
        """True if the steps sample people."""
        return isinstance(self.own, People) and self.own.unit == "owner"

    @property
    def num_records(self) -> int:
        """The number of records of the training."""
        return self.num_canaries * (self.person_records or 1)

    @property
    def num_sampled(self) -> int:
        """The number of records, or of people, that the steps sample from."""
        return self.num_canaries if self.by_owner else self.num_records

    @property
    def group_size(self) -> int:
        """The number of sampled units in which the two worlds of a coin differ."""
        return 1 if self.by_owner else self.person_records or 1

    @property
    def expected_batch_size(self) -> int:
        """The number of records, or of people, in an average step."""
        return max(1, round(self.sample_rate * self.num_sampled))

    @property
    def rate(self) -> float:
        """The sampling rate of the game."""
        return self.expected_batch_size / self.num_sampled

    @property
    def records_each(self) -> int:
        """The number of records that a drawn person brings."""
        each = self.own.owner_records if isinstance(self.own, People) else 1
        return min(each, self.person_records or 1)

    @property
    def microbatch_size(self) -> int:
        """The number of records in one run of the model. A step adds up several runs."""
        return math.ceil(self.expected_batch_size / NUM_MICROBATCHES)

    @property
    def takes_spans(self) -> bool:
        """True if the method reads records span by span (`pipelines.attacks.span_game`)."""
        return self.method == sdpsgd_lstm.SPEC.name

    @property
    def path(self) -> str:
        """The attacked code, for people."""
        if self.takes_spans:
            return f"{sdpsgd_lstm.SPEC.module}: gradients of private spans, and the states after them"
        planned_by = "pipelines.training.methods.jft_phase_one" if self.is_first_phase else None
        return f"pipelines.training.loop: noised steps, planned by {planned_by or registry.method(self.method).module}"

    def settings(self, seed: int, **changed: Any) -> TrainingSettings:
        """Returns the settings of the method: one epoch, or as many as a kill and its lost steps need."""
        steps = max(1, round(self.num_sampled / self.expected_batch_size))
        given = {"optimizer": "sgd"} if isinstance(self.own, Optimized) else {}
        return TrainingSettings(
            epochs=math.ceil((KILLED_AFTER + 1) / steps),
            public_batch_size=1,
            expected_batch_size=self.expected_batch_size,
            max_grad_norm=self.max_grad_norm,
            public_learning_rate=STEP_SIZE / self.max_grad_norm,
            private_learning_rate=STEP_SIZE / self.max_grad_norm,
            seed=seed,
            phase_one={**_NO_PHASE_ONE, "event": to_json(NoEvent())},
            own=self.own.model_copy(update={**given, **changed}),
            num_states=self.num_states,
        )


_NO_PHASE_ONE: Final[dict[str, Any]] = {
    "variant": None, "rows": "redacted", "preconditions": [], "light_noise_miss_rate": None, "public_order": None,
}  # fmt: skip


@functools.lru_cache(maxsize=8)
def _profile(event: Event, person: int | None) -> ClaimedProfile:
    return ClaimedProfile.of(event, RELATION) if person is None else ClaimedProfile.of_group(event, person)


def _count(number: int) -> str:
    return "one record" if number == 1 else f"{number:,} records"


@dataclass(frozen=True, kw_only=True)
class PlayedTraining:
    """The result of a game.

    Attributes:
        trials: score and coin of each canary.
        event: privacy event of the played training.
        conformance: p-value of each conformance test, by name.
        person: number of sampled units that one person is, if the coins replace people; None if they add records.
    """

    trials: Trials
    event: Event
    conformance: dict[str, float]
    person: int | None = None

    def claimed(self, delta: float) -> float:
        """Returns the accountant's epsilon for exactly these steps and the relation of the coins."""
        if self.person is None:
            return accountants.epsilon(self.event, delta, RELATION)
        return self.claimed_of(self.person, delta)

    def claimed_of(self, size: int, delta: float) -> float:
        """Returns the epsilon of a group of sampled units that are all replaced."""
        if size == 1:
            return accountants.epsilon(self.event, delta, NeighboringRelation.REPLACE_ONE)
        return group_epsilons(self.event, [delta], size)[0]

    def estimates(self, delta: float, confidence: float, rng: np.random.Generator) -> list[EpsilonEstimate]:
        """Returns all lower bounds on epsilon."""
        found = epsilon_estimates(self.trials, delta=delta, confidence=confidence, rng=rng, **self._coins)
        return list(found.values())

    @property
    def _coins(self) -> dict[str, Any]:
        """Meaning of a coin, and number of coins that are guessed."""
        if self.person is None:
            return {"plans": ENGINE_PLANS}
        return {"plans": GUESS_PLANS, "relation": NeighboringRelation.REPLACE_ONE, "group_size": self.person}

    def p_values(self, rng: np.random.Generator) -> dict[str, float]:
        """Returns the p-values of the conformance tests, and of the guesses of who took part."""
        guesses = claim_p_value(self.trials, _profile(self.event, self.person), rng=rng, **self._coins)
        return {"guesses of who took part": guesses, **self.conformance}

    def p_value(self, rng: np.random.Generator) -> float:
        """Returns the p-value of "this training does what is claimed": all tests together."""
        return combined(self.p_values(rng).values())


def run_three_times(
    game: TrainingGame, training: LoopTraining | SpanTraining, witness: Witness, folder: Path, losses: ExampleLosses
) -> int:
    """Trains until killed, then from the checkpoint to the end, then a few steps from the start.

    Returns:
        The number of noised steps that the training reports.
    """
    ranks, noise, taken = Ranks.here(), game.noise_multiplier, 0
    runs = (("first", KILLED_AFTER, noise), ("first", 0, noise), ("other", SAVED_AFTER, min(noise, LITTLE_NOISE)))
    for number, (name, stop, noise_multiplier) in enumerate(runs):
        witness.starts(noise_multiplier, stop)
        secret = randomness.of_training(number, ranks.rank, insecure_test_seed=False)

        def of_step(step: int, secret: PrivateRandomness = secret) -> np.random.Generator:
            witness.begins(step)
            return secret(step)

        context = TrainingContext(
            randomness=of_step,
            checkpoints=Checkpoints(folder / f"{name}.ckpt", "game", 1.0, witness.clock, writes=ranks.is_first),
            losses=losses,
            evaluate=lambda _: Evaluation(reason="a game scores canaries alone"),
            microbatch_size=game.microbatch_size,
            progress=witness.step_done,
        )
        with contextlib.suppress(Killed):
            taken = training.train(witness.make_model(), noise_multiplier, context).num_steps
    return taken


def corpus_of(
    nonprivate_examples: Examples,
    private_examples: Examples,
    own: MethodSettings,
    of_records: npt.NDArray[np.int64] | None = None,
) -> TrainingCorpus:
    """Makes a corpus for a method's plan, without text, vocabulary and held-out fold.

    If the method samples people, ``of_records`` has the person of each private record; None: each is a person.
    """
    owners = None
    if isinstance(own, People) and own.unit == "owner":
        people = np.arange(len(private_examples)) if of_records is None else of_records
        owners = Owners(of_records=people, count=int(people.max()) + 1, records_each=own.owner_records)
    nothing = cast(Any, None)
    return TrainingCorpus(
        vocabulary=nothing,
        nonprivate_order="none",
        nonprivate_examples=nonprivate_examples,
        num_private_without_noise=0,
        private_examples=private_examples,
        held_out=nothing,
        owners=owners,
    )


def check_steps(taken: int, planned: int) -> None:
    """Raises PrivacyGateError if a training took other steps than it planned."""
    if taken != planned:
        raise PrivacyGateError(
            f"the training took {taken} noised steps and planned {planned}, so there is no claim about it"
        )
