"""What every training method offers the stage: a training that can be planned, calibrated, accounted for, and run.

A method's module has one function, ``prepare(corpus, settings)``. Most methods return a `LoopTraining`: a programme of
plain and noised steps for `pipelines.training.loop`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import torch

from pipelines.accounting.accountants import epsilon_at_most
from pipelines.accounting.calibration import calibrate_noise_multiplier
from pipelines.accounting.events import Composed, Event, NoEvent, NonPrivate, dp_sgd
from pipelines.dp.sampling import PrivatePlan
from pipelines.methods.settings import MethodSettings, Optimized
from pipelines.randomness import PrivateRandomness
from pipelines.training import loop
from pipelines.training.checkpoint import Checkpoints
from pipelines.training.data.corpus import TrainingCorpus
from pipelines.training.data.records import Examples
from pipelines.training.loop import ExampleLosses, Segment, StepSettings, TrainingOutcome
from pipelines.training.scoring.evaluation import Evaluation

M = TypeVar("M", bound=MethodSettings)
NO_PRIVATE_STEPS = PrivatePlan(sample_rate=0.0, expected_batch_size=0.0, steps_per_epoch=0, num_steps=0)


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """What a method is told, besides the corpus. All of it is public.

    Attributes:
        epochs: passes over the records.
        public_batch_size: records in a plain minibatch.
        expected_batch_size: private records in an average private step.
        max_grad_norm: what one record's gradient is clipped to.
        public_learning_rate, private_learning_rate: of the two kinds of step.
        seed: of the order of minibatches, and of what else a method draws from public randomness.
        target_delta: that epsilon is stated at.
        variant: of the method, where it has variants.
        phase_one: what its first phase recorded, where it has one.
        own: what no other method need be told.
    """

    epochs: int
    public_batch_size: int
    expected_batch_size: int
    max_grad_norm: float
    public_learning_rate: float
    private_learning_rate: float
    seed: int
    target_delta: float = 1e-5
    variant: str | None = None
    phase_one: Mapping[str, Any] | None = None
    own: MethodSettings | None = None

    def of(self, model: type[M]) -> M:
        """``own``, which the method's description declares to be such settings."""
        assert isinstance(self.own, model)  # noqa: S101  # narrows the type
        return self.own

    def recipe(self, noise_multiplier: float) -> StepSettings:
        """How steps are made, once the noise is known."""
        return StepSettings(
            public_learning_rate=self.public_learning_rate,
            private_learning_rate=self.private_learning_rate,
            public_batch_size=self.public_batch_size,
            max_grad_norm=self.max_grad_norm,
            noise_multiplier=noise_multiplier,
            seed=self.seed,
            optimizer=self.own.optimizer if isinstance(self.own, Optimized) else "adamw",
        )

    def nonprivate_pass(self, num_records: int, *, ends_epoch: bool = False) -> Segment:
        """One pass of plain steps over so many records."""
        return Segment(kind="nonprivate", num_steps=self.recipe(0.0).num_nonprivate_batches(num_records), ends_epoch=ends_epoch)


@dataclass(frozen=True, kw_only=True)
class Account:
    """What ``events.json`` says of a training beside what all have in common (`pipelines.accounting.facts`).

    Attributes:
        event: what ran on private records, all of it.
        variant: of the method.
        phases: (name, rows, event) where the method reads private records in several forms.
        preconditions: what a claim asks for and this training saw to.
        light_noise_miss_rate: the m that light noise was chosen with: value, upper bound, confidence, and its ``basis``
            (`pipelines.accounting.facts.TrainingFacts.noise_basis`).
        public_order: of what an earlier phase read without noise; None where there was none.
    """

    event: Event
    variant: str | None = None
    phases: tuple[tuple[str, str, Event], ...] = ()
    preconditions: tuple[str, ...] = ()
    light_noise_miss_rate: Mapping[str, Any] | None = None
    public_order: str | None = None


@dataclass(frozen=True, kw_only=True)
class TrainingContext:
    """What the stage lends to a training: see `pipelines.training.loop.train`."""

    randomness: PrivateRandomness
    checkpoints: Checkpoints
    losses: ExampleLosses
    evaluate: Callable[[torch.nn.Module], Evaluation]
    microbatch_size: int
    progress: Callable[[int, int | None, str], None]


class PlannedTraining(Protocol):
    """A training that is planned and not yet run.

    Attributes:
        num_steps: private steps.
        sample_rate: probability with which a record enters one.
    """

    num_steps: int
    sample_rate: float

    def calibrate(self, target_epsilon: float, target_delta: float) -> float:
        """The least noise multiplier with which the private steps meet the target (replacement of one record)."""
        ...

    def account(self, noise_multiplier: float | None) -> Account:
        """What ran, for the accountant; ``noise_multiplier`` is None where there are no private steps."""
        ...

    def train(self, model: Any, noise_multiplier: float, hooks: TrainingContext) -> TrainingOutcome:
        """Trains ``model`` in place."""
        ...


@dataclass(frozen=True, kw_only=True)
class LoopTraining:
    """A training that is a programme of plain and private steps.

    Attributes:
        plain, noised: the records of either kind of step.
        programme: the steps.
        plan: of the private steps.
        settings: as given.
        describe: turns the event of the private steps into the account.
        before: what noisy steps cost before the first of these, for people to look at while it trains.
    """

    plain: Examples
    noised: Examples
    programme: Sequence[Segment]
    plan: PrivatePlan
    settings: TrainingSettings
    describe: Callable[[Event], Account] = field(default=lambda event: Account(event=event))
    before: Event = field(default_factory=NoEvent)

    @property
    def num_steps(self) -> int:
        """Private steps."""
        return self.plan.num_steps

    @property
    def sample_rate(self) -> float:
        """Probability with which a record enters a private step."""
        return self.plan.sample_rate

    def calibrate(self, target_epsilon: float, target_delta: float) -> float:
        """See `PlannedTraining.calibrate`."""
        return calibrate_noise_multiplier(
            target_epsilon=target_epsilon,
            target_delta=target_delta,
            sample_rate=self.plan.sample_rate,
            num_steps=self.plan.num_steps,
            relation="replace_one",
        )

    def event_after(self, num_steps: int, noise_multiplier: float) -> Event:
        """What the first private steps are, for the accountant."""
        return dp_sgd(noise_multiplier=noise_multiplier, sample_rate=self.plan.sample_rate, num_steps=num_steps)

    def account(self, noise_multiplier: float | None) -> Account:
        """See `PlannedTraining.account`."""
        if noise_multiplier is None:
            return self.describe(NoEvent())
        return self.describe(self.event_after(self.plan.num_steps, noise_multiplier))

    def train(self, model: Any, noise_multiplier: float, hooks: TrainingContext) -> TrainingOutcome:
        """See `PlannedTraining.train`."""
        return loop.train(
            model,
            self.nonprivate_examples,
            self.private_examples,
            self.programme,
            self.settings.recipe(noise_multiplier),
            self.plan,
            randomness=hooks.randomness,
            checkpoints=hooks.checkpoints,
            losses=hooks.losses,
            evaluate=hooks.evaluate,
            epsilon_so_far=lambda num_steps: epsilon_at_most(
                Composed(events=(self.before, self.event_after(num_steps, noise_multiplier))),
                self.settings.target_delta,
            ),
            microbatch_size=hooks.microbatch_size,
            progress=hooks.progress,
        )


def without_noise(corpus: TrainingCorpus, settings: TrainingSettings) -> LoopTraining:
    """Passes of AdamW over the plain records, some of which come from private rows: no bound on what they tell."""
    event: Event = NonPrivate() if corpus.num_nonprivate_with_private_text else NoEvent()
    return LoopTraining(
        nonprivate_examples=corpus.nonprivate_examples,
        private_examples=corpus.private_examples,
        programme=[settings.nonprivate_pass(len(corpus.nonprivate_examples), ends_epoch=True)] * settings.epochs,
        plan=NO_PRIVATE_STEPS,
        settings=settings,
        describe=lambda _: Account(event=event),
    )
