"""Interface between training methods and the train stage: a training that is planned, calibrated, accounted and run.

The module of a method has one function, ``prepare(corpus, settings)``. Most methods return a `LoopTraining`: a
programme of nonprivate and private steps for `pipelines.training.loop`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from pipelines.accounting.accountants import epsilon_at_most
from pipelines.accounting.calibration import calibrate_noise_multiplier
from pipelines.accounting.events import Composed, Event, NoEvent, NonPrivate, dp_sgd
from pipelines.dp.owners import Owners
from pipelines.dp.sampling import PrivatePlan, plan_private_steps
from pipelines.methods.settings import MethodSettings, Optimized
from pipelines.training import loop
from pipelines.training.data.corpus import TrainingCorpus
from pipelines.training.data.records import Examples
from pipelines.training.loop import StepSettings, TrainingContext, TrainingOutcome
from pipelines.training.programme import Segment

M = TypeVar("M", bound=MethodSettings)
NO_PRIVATE_STEPS = PrivatePlan(sample_rate=0.0, expected_batch_size=0.0, steps_per_epoch=0, num_steps=0)


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """Settings of a training, besides the corpus. All of them are public.

    Attributes:
        epochs: number of passes over the records.
        public_batch_size: number of records in a minibatch of a nonprivate step.
        expected_batch_size: expected number of private records in a private step.
        max_grad_norm: norm to which one record's gradient is clipped.
        public_learning_rate, private_learning_rate: step sizes of nonprivate and of private steps.
        seed: seed of the order of minibatches, and of everything else that a method draws from public randomness.
        target_delta: delta at which epsilon is stated.
        variant: variant of the method, if it has variants.
        phase_one: record of the first phase, if the method has one.
        own: settings that only this method has.
        num_states: number of states that a recurrent model passes on, for `sdpsgd_lstm`: 2 of an LSTM, 1 of a GRU.
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
    num_states: int = 2

    def of(self, model: type[M]) -> M:
        """Returns ``own``, typed as the settings class that the method's description declares."""
        assert isinstance(self.own, model)  # noqa: S101  # narrows the type
        return self.own

    def steps(self, noise_multiplier: float) -> StepSettings:
        """Returns the settings of the optimizer steps for a noise multiplier."""
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
        """Returns one pass of nonprivate steps over ``num_records`` records."""
        num_steps = self.steps(0.0).num_nonprivate_batches(num_records)
        return Segment(kind="nonprivate", num_steps=num_steps, ends_epoch=ends_epoch)


@dataclass(frozen=True, kw_only=True)
class Account:
    """Facts in ``events.json`` that only some trainings have (`pipelines.accounting.facts`).

    Attributes:
        event: privacy event of everything that ran on private records.
        variant: variant of the method.
        phases: (name, rows, event) of each phase, if the method reads private records in several forms.
        preconditions: preconditions of claims that this training met.
        light_noise_miss_rate: miss rate m that determined the light noise: value, upper bound, confidence and ``basis``
            (`pipelines.accounting.facts.TrainingFacts.noise_basis`).
        public_order: order of the records that an earlier phase read without noise. None if no phase did.
    """

    event: Event
    variant: str | None = None
    phases: tuple[tuple[str, str, Event], ...] = ()
    preconditions: tuple[str, ...] = ()
    light_noise_miss_rate: Mapping[str, Any] | None = None
    public_order: str | None = None


class PlannedTraining(Protocol):
    """A training that is planned and has not run.

    Attributes:
        num_steps: number of private steps.
        sample_rate: probability with which a record enters a private step.
    """

    num_steps: int
    sample_rate: float

    def calibrate(self, target_epsilon: float, target_delta: float) -> float:
        """Returns the least noise multiplier that meets the target (replacement of one record)."""
        ...

    def account(self, noise_multiplier: float | None) -> Account:
        """Returns the facts for the accountant. ``noise_multiplier`` is None if there are no private steps."""
        ...

    def train(self, model: Any, noise_multiplier: float, context: TrainingContext) -> TrainingOutcome:
        """Trains ``model`` in place."""
        ...


@dataclass(frozen=True, kw_only=True)
class LoopTraining:
    """A training that is a programme of nonprivate and private steps (a `PlannedTraining`).

    Attributes:
        nonprivate_examples, private_examples: records of the two kinds of step.
        programme: steps in their order.
        plan: sampling plan of the private steps.
        settings: settings of the training.
        describe: function that turns the event of the private steps into the account.
        before: event of noisy steps that ran before these. It counts in the epsilon that people see during training.
        owners: people of the private records, if private steps sample people. Then the plan counts people.
    """

    nonprivate_examples: Examples
    private_examples: Examples
    programme: Sequence[Segment]
    plan: PrivatePlan
    settings: TrainingSettings
    describe: Callable[[Event], Account] = field(default=lambda event: Account(event=event))
    before: Event = field(default_factory=NoEvent)
    owners: Owners | None = None

    @property
    def num_steps(self) -> int:
        """Number of private steps."""
        return self.plan.num_steps

    @property
    def sample_rate(self) -> float:
        """Probability with which a record enters a private step."""
        return self.plan.sample_rate

    def calibrate(self, target_epsilon: float, target_delta: float) -> float:
        """Returns the least noise multiplier that meets the target (replacement of one record)."""
        return calibrate_noise_multiplier(
            target_epsilon=target_epsilon,
            target_delta=target_delta,
            sample_rate=self.plan.sample_rate,
            num_steps=self.plan.num_steps,
            relation="replace_one",
        )

    def event_after(self, num_steps: int, noise_multiplier: float) -> Event:
        """Returns the privacy event of the first ``num_steps`` private steps."""
        return dp_sgd(noise_multiplier=noise_multiplier, sample_rate=self.plan.sample_rate, num_steps=num_steps)

    def account(self, noise_multiplier: float | None) -> Account:
        """Returns the facts for the accountant. ``noise_multiplier`` is None if there are no private steps."""
        if noise_multiplier is None:
            return self.describe(NoEvent())
        return self.describe(self.event_after(self.plan.num_steps, noise_multiplier))

    def train(self, model: Any, noise_multiplier: float, context: TrainingContext) -> TrainingOutcome:
        """Trains ``model`` in place (`pipelines.training.loop.train`)."""
        return loop.train(
            model,
            self.nonprivate_examples,
            self.private_examples,
            self.programme,
            self.settings.steps(noise_multiplier),
            self.plan,
            context,
            epsilon_so_far=lambda num_steps: epsilon_at_most(
                Composed(events=(self.before, self.event_after(num_steps, noise_multiplier))),
                self.settings.target_delta,
            ),
            owners=self.owners,
        )


def without_noise(corpus: TrainingCorpus, settings: TrainingSettings) -> LoopTraining:
    """Plans passes of AdamW without noise. If a record holds a private row, nothing bounds what the model reveals."""
    event: Event = NonPrivate() if corpus.num_private_without_noise else NoEvent()
    return LoopTraining(
        nonprivate_examples=corpus.nonprivate_examples,
        private_examples=corpus.private_examples,
        programme=[settings.nonprivate_pass(len(corpus.nonprivate_examples), ends_epoch=True)] * settings.epochs,
        plan=NO_PRIVATE_STEPS,
        settings=settings,
        describe=lambda _: Account(event=event),
    )


def with_noise(corpus: TrainingCorpus, settings: TrainingSettings, *before: Segment) -> LoopTraining:
    """Plans expected epochs of private steps on Poisson samples of records, or of people if the corpus has them.

    Args:
        corpus: corpus to train on.
        settings: settings of the training.
        before: other steps that come before the private ones in each epoch.
    """
    number = len(corpus.private_examples) if corpus.owners is None else corpus.owners.count
    plan = plan_private_steps(number, settings.expected_batch_size, settings.epochs)
    private = Segment(kind="private", num_steps=plan.steps_per_epoch, ends_epoch=True)
    return LoopTraining(
        nonprivate_examples=corpus.nonprivate_examples,
        private_examples=corpus.private_examples,
        programme=[*before, private] * settings.epochs,
        plan=plan,
        settings=settings,
        owners=corpus.owners,
    )
