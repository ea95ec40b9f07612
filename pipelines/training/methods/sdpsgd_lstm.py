"""Selective-DPSGD for an LSTM (Shi et al. 2022, "Selective Differential Privacy for Language Modeling", Algorithm 1).

Each sampled record is read span by span. On a public span the model takes an ordinary step of SGD; on a private span a
step of DP-SGD, after which hidden and cell state are clipped, noised and handed to the public span that follows.

Formal guarantees, for two corpora that differ in the private tokens of one record (F-neighbours, Definition 3):
    * private text reaches the weights through `release` alone: clipped gradient sums and clipped states, each with
      Gaussian noise of ``noise_multiplier`` times the clipping norm;
    * no gradient of a public span flows back into a private one: every state is a value without history where it
      enters the next span (back-propagation through time would carry private gradients around the noise);
    * a record takes part in at most ``plan.queries_per_step`` = K noisy queries a step (a gradient, a hidden and a
      cell state for each private span), and in at most ``plan.max_participations`` steps. Queries are counted for each
      record over the whole run, and a count that is not what the plan implies stops it before anything is published.

Accounting. K Gaussian queries on the same record, each chosen in view of the ones before, are one Gaussian query with
noise_multiplier / sqrt(K) (Dong, Roth & Su 2022, Corollary 3.3), and so are those of several steps together.

There is **no amplification by sampling**, unlike in the paper. A public span changes the weights without noise, so the
weights may show which records a step sampled, by their public tokens; what the sample hides is then no longer hidden.
Since a secret sample would buy nothing, samples are drawn up front from public randomness (each record on its own with
probability L/N, line 3): the number of steps in which a record takes part is then known exactly, and what is accounted
for is the largest. `event_as_published` gives the amplified figure, for comparison with the paper only.

The paper's code starts its count of queries anew in every batch and treats the spans of one batch as independent
samples; its published epsilons are too small for either reason.

Public: the settings, the samples, the text of public tokens, which part of each record is private (the number and the
order of spans), and, where a record is cut at the context length, the lengths of its private spans.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import numpy as np
import torch

from pipelines.accounting.calibration import calibrate_noise_multiplier
from pipelines.accounting.events import Event, Gaussian, NoEvent, SelfComposed, dp_sgd
from pipelines.errors import StageError
from pipelines.training.checkpoint import Checkpoints
from pipelines.training.corpus import TrainingCorpus
from pipelines.training.divergence import diverged
from pipelines.training.engine.errors import LossError
from pipelines.training.engine.gradients import GradientEngine
from pipelines.training.engine.language import token_losses
from pipelines.training.engine.noise import add_noise
from pipelines.training.engine.sampling import plan_private_steps, poisson_sample
from pipelines.training.evaluation import Evaluation
from pipelines.training.loop import Outcome as LoopOutcome
from pipelines.training.lstm_model import LSTMLanguageModel, State
from pipelines.training.methods.base import Account, Hooks, Settings
from pipelines.training.randomness import PrivateRandomness
from pipelines.training.records import IntArray, Records
from pipelines.training.spans import SpanBatch, SpannedRecord, collate_spans, spanned

QUERIES_PER_SPAN: Final = 3
"""A gradient, a hidden state, a cell state."""

_CHECKED_AT_ONCE: Final = 4_096

NOTES: Final = (
    "which tokens are private, and so how many private spans a record has and where, is public (selective privacy with "
    "the policies' finds as F); what the policies miss is trained on without noise",
    "where a record is longer than the context it is cut, so the lengths of its private spans are public there",
    "which records a step samples is public: epsilon takes no credit for sampling, because public spans are trained on "
    "without noise and may show who was sampled",
    "public and private pieces of a text are tokenised apart, with a vocabulary that saw public rows at most",
)
"""What a claim for this method rests on, beside what holds for every method."""

PRECONDITIONS: Final = (
    "states_noised",
    "states_detached",
    "private_spans_capped",
    "queries_counted",
    "samples_public",
)
"""What `train` sees to, by the names under which claims ask for it (`pipelines.accounting.methods`)."""


@dataclass(frozen=True, kw_only=True)
class SpanPlan:
    """What a run does to each record at most, fixed before it starts. All of it is public.

    Attributes:
        num_records: N.
        sample_rate: L/N, with which each record enters a step.
        steps_per_epoch, num_steps: steps.
        max_private_spans: private spans of a record at most.
        queries_per_step: K, noisy queries that a sampled record takes part in at most.
        max_participations: the most steps that any record is sampled in, as drawn.
        seed: of the samples.
    """

    num_records: int
    sample_rate: float
    steps_per_epoch: int
    num_steps: int
    max_private_spans: int
    queries_per_step: int
    max_participations: int
    seed: int


def plan(num_records: int, expected_batch_size: int, epochs: int, max_private_spans: int, seed: int) -> SpanPlan:
    """Draws the samples of the whole run, and counts in how many of them a record is at most.

    Args:
        num_records: N, the same in neighbouring corpora.
        expected_batch_size: L, records in an average step.
        epochs: steps are so many that each record is drawn this often on average.
        max_private_spans: see `spans.span_pairs`; each further one costs 3 queries.
        seed: the stage's seed; public.
    """
    steps = plan_private_steps(num_records, expected_batch_size, epochs)
    drawn = SpanPlan(
        num_records=num_records,
        sample_rate=steps.sample_rate,
        steps_per_epoch=steps.steps_per_epoch,
        num_steps=steps.num_steps,
        max_private_spans=max_private_spans,
        queries_per_step=QUERIES_PER_SPAN * max_private_spans,
        max_participations=0,
        seed=seed,
    )
    participations = np.zeros(num_records, dtype=np.int64)
    for step in range(drawn.num_steps):
        participations[sample(drawn, step)] += 1
    most = int(participations.max(initial=0))
    return SpanPlan(**{**asdict(drawn), "max_participations": most})


def sample(plan: SpanPlan, step: int) -> IntArray:
    """Line 3: the records of a step. The same plan gives the same samples, so that a resumed run keeps to its count."""
    digest = hashlib.sha256(f"span sample/{plan.seed}/{step}".encode()).digest()
    rng = np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "big")))
    return poisson_sample(plan.num_records, plan.sample_rate, rng)


def event(plan: SpanPlan, noise_multiplier: float) -> Event:
    """What the accountant has to know: the queries of the record that is sampled most often, without amplification."""
    if plan.max_participations == 0:
        return NoEvent()
    step = Gaussian(noise_multiplier=noise_multiplier / math.sqrt(plan.queries_per_step))
    return SelfComposed(count=plan.max_participations, event=step)


def event_as_published(*, sample_rate: float, num_steps: int, noise_multiplier: float, queries_per_step: int) -> Event:
    """The event if samples stayed secret, as in the paper, but with every query counted. **Not a bound** here.

    Poisson sampling hides whether a record takes part in a step; K queries in one sampled step are one query with
    noise / sqrt(K) on one sample, not K samples.
    """
    noise = noise_multiplier / math.sqrt(queries_per_step)
    return dp_sgd(noise_multiplier=noise, sample_rate=sample_rate, num_steps=num_steps)


def calibrate(plan: SpanPlan, target_epsilon: float, target_delta: float) -> float:
    """The least noise multiplier of a query with which `event` meets the target (replacement of one record)."""
    joint = calibrate_noise_multiplier(
        target_epsilon=target_epsilon, target_delta=target_delta, sample_rate=1.0, num_steps=plan.max_participations
    )
    return joint * math.sqrt(plan.queries_per_step)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What a run does. Letters are those of Algorithm 1.

    Attributes:
        public_learning_rate: eta of line 9.
        private_learning_rate: eta of line 19.
        max_grad_norm: C of line 15.
        max_state_norm: C of line 21, for hidden and cell state each; the paper takes the same C.
        noise_multiplier: sigma.
    """

    public_learning_rate: float
    private_learning_rate: float
    max_grad_norm: float
    max_state_norm: float
    noise_multiplier: float


@dataclass
class _Progress:
    step: int = 0
    public_loss_sum: float = 0.0
    private_loss_sum: float = 0.0
    num_public: int = 0
    num_private: int = 0
    curve: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a run did.

    Attributes:
        num_steps: steps that the weights went through.
        num_queries: noisy queries over all records and steps.
        most_queries: those that one record took part in, at most.
        curve: for each epoch, mean training losses and the held-out evaluation. Private.
        was_resumed: whether it went on from a checkpoint.
    """

    num_steps: int
    num_queries: int
    most_queries: int
    curve: list[dict[str, Any]]
    was_resumed: bool


def check_queries(num_queries: IntArray, records: Records, plan: SpanPlan) -> None:
    """Holds what a run counted against what its samples and spans imply, and both against what is accounted for.

    Args:
        num_queries: (N,) noisy queries that each record took part in, over the whole run.
        records: the records.
        plan: the samples.

    Raises:
        StageError: they differ, or a record took part in more than K queries times ``plan.max_participations``.
    """
    participations = np.zeros(plan.num_records, dtype=np.int64)
    for step in range(plan.num_steps):
        participations[sample(plan, step)] += 1
    expected = np.zeros_like(participations)
    for start in range(0, plan.num_records, _CHECKED_AT_ONCE):
        rows = np.arange(start, min(start + _CHECKED_AT_ONCE, plan.num_records))
        for record in spanned(records, rows, plan.max_private_spans):
            num_private = sum(pair.private_start < pair.stop for pair in record.pairs)
            num_followed = sum(pair.private_start < pair.stop for pair in record.pairs[:-1])
            expected[record.row] = participations[record.row] * (num_private + 2 * num_followed)
    accounted = plan.queries_per_step * plan.max_participations
    most = int(num_queries.max(initial=0))
    if not np.array_equal(num_queries, expected) or int(expected.max(initial=0)) > accounted:
        raise StageError(
            f"training counted {int(num_queries.sum())} noisy queries, {most} of one record. "
            f"Its samples imply {int(expected.sum())}, and {accounted} of one record are accounted for. Nothing is "
            "published; run train again"
        )


def release(values: torch.Tensor, standard_deviation: float, rng: np.random.Generator) -> torch.Tensor:
    """The only door through which private text gets out: ``values`` with Gaussian noise, without history."""
    noisy = values.detach().clone(memory_format=torch.contiguous_format)
    add_noise([noisy], standard_deviation, rng)
    return noisy


def clip_rows(values: torch.Tensor, max_norm: float) -> torch.Tensor:
    """Line 21: scales each row of (B, H) down to ``max_norm``; a shorter row stays as it is."""
    norms = torch.linalg.vector_norm(values.double(), dim=1, keepdim=True)
    factors: torch.Tensor = (max_norm / norms.clamp(min=max_norm)).to(values.dtype)
    return values * factors


def train(
    model: LSTMLanguageModel,
    records: Records,
    recipe: Recipe,
    plan: SpanPlan,
    *,
    randomness: PrivateRandomness,
    checkpoints: Checkpoints,
    evaluate: Callable[[torch.nn.Module], Evaluation],
    microbatch_size: int,
    progress: Callable[[int, int | None, str], None],
) -> Outcome:
    """Trains ``model`` in place.

    A killed run goes on from its last checkpoint, which lies between two steps, with the same samples and fresh noise.
    What was done after the checkpoint was seen by nobody and is not counted.

    Args:
        model: the model to train.
        records: original text with marks, in an order that depends on no private text.
        recipe: what to do.
        plan: the samples.
        randomness: the generator of each step's noise.
        checkpoints: where to keep state.
        evaluate: scores the model after each epoch.
        microbatch_size: records that are computed at once; no influence on the result.
        progress: told how many steps are done.

    Raises:
        StageError: the loss or a gradient is not a finite number, or a record took part in more queries than the plan
            accounts for.
    """
    engine = GradientEngine(model, max_grad_norm=recipe.max_grad_norm)
    try:
        run = _Run(model, engine, records, recipe, plan, randomness, microbatch_size)
        was_resumed = run.restore(checkpoints.load())
        if checkpoints.is_unusable:
            progress(0, None, "the checkpoint is damaged or of another run: training starts again")
        while run.at.step < plan.num_steps:
            run.step()
            if run.at.step % plan.steps_per_epoch == 0:
                run.end_epoch(evaluate(model))
                checkpoints.save(run.state())
            else:
                checkpoints.save_if_due(run.state)
            progress(run.at.step, plan.num_steps, f"epoch {(run.at.step - 1) // plan.steps_per_epoch + 1}")
    finally:
        engine.detach()
    check_queries(run.num_queries, records, plan)
    return Outcome(
        num_steps=run.at.step,
        num_queries=int(run.num_queries.sum()),
        most_queries=int(run.num_queries.max(initial=0)),
        curve=run.at.curve,
        was_resumed=was_resumed,
    )


class _Run:
    def __init__(
        self,
        model: LSTMLanguageModel,
        engine: GradientEngine,
        records: Records,
        recipe: Recipe,
        plan: SpanPlan,
        randomness: PrivateRandomness,
        microbatch_size: int,
    ) -> None:
        self.model, self.engine, self.records = model, engine, records
        self.recipe, self.plan, self.randomness = recipe, plan, randomness
        self.microbatch_size = microbatch_size
        self.parameters = engine.parameters
        self.num_queries = np.zeros(plan.num_records, dtype=np.int64)  # of each record, over the whole run
        self.at = _Progress()

    def state(self) -> dict[str, Any]:
        return {
            "model": self.model.state_dict(),
            "num_queries": torch.from_numpy(self.num_queries.copy()),
            "progress": asdict(self.at),
        }

    def restore(self, state: dict[str, Any] | None) -> bool:
        if state is None:
            return False
        self.model.load_state_dict(state["model"])
        self.num_queries = state["num_queries"].numpy().copy()
        self.at = _Progress(**state["progress"])
        return True

    def step(self) -> None:
        """Lines 3 to 24."""
        rng = self.randomness(self.at.step)
        rows = sample(self.plan, self.at.step)
        batch = spanned(self.records, rows, self.plan.max_private_spans)  # line 4
        state = self.model.zero_state(len(batch))  # line 5
        for i in range(max((len(record.pairs) for record in batch), default=0)):  # line 6
            having = [at for at, record in enumerate(batch) if i < len(record.pairs)]
            pairs = {at: batch[at].pairs[i] for at in having}
            self._regular_update(batch, {at: p[:2] for at, p in pairs.items() if p[0] < p[1]}, state)
            self._private_update(batch, {at: p[1:] for at, p in pairs.items() if p[1] < p[2]}, i, state, rng)
        self.at.step += 1

    def _regular_update(self, batch: list[SpannedRecord], spans: dict[int, tuple[int, int]], state: State) -> None:
        """Lines 7 to 9, on public spans; leaves the state after them, without history."""
        if not spans:
            return
        for parameter in self.parameters:
            parameter.grad = None
        for rows, part in self._microbatches(batch, spans):
            logits, ends = self.model(part.inputs, (state[0][rows], state[1][rows]), part.lengths)
            losses = (token_losses(logits, part.labels) * part.weights).sum(dim=1)
            self.at.public_loss_sum += self._finite(losses)
            (losses.sum() / len(spans)).backward()  # type: ignore[no-untyped-call]
            state[0][rows], state[1][rows] = ends[0].detach(), ends[1].detach()
        self.at.num_public += len(spans)
        self._descend(self.recipe.public_learning_rate)

    def _private_update(
        self,
        batch: list[SpannedRecord],
        spans: dict[int, tuple[int, int]],
        i: int,
        state: State,
        rng: np.random.Generator,
    ) -> None:
        """Lines 10 to 23, on private spans; leaves a released state where a public span follows."""
        if not spans:
            return
        recipe = self.recipe
        for rows, part in self._microbatches(batch, spans):
            start = (state[0][rows], state[1][rows])
            with self.engine.recording():
                logits, _ = self.model(part.inputs, start)
                losses = (token_losses(logits, part.labels) * part.weights).sum(dim=1)
            try:
                self.engine.backward(losses)  # lines 12 to 15: per-example gradients, clipped
            except LossError:
                raise diverged("a private span") from None
            self.at.private_loss_sum += self._finite(losses)
            with torch.no_grad():  # line 11, with the weights before the descent
                ends = self.model(part.inputs, start, part.lengths).state
                state[0][rows], state[1][rows] = ends
        self.at.num_private += len(spans)
        for parameter, total in zip(self.parameters, self.engine.take_sums(), strict=True):  # lines 16 and 17
            noisy = release(total, recipe.noise_multiplier * recipe.max_grad_norm, rng)
            # The number of spans is public here, as samples and spans are, so the paper's divisor may stay.
            parameter.grad = (noisy / len(spans)).to(parameter.dtype)
        self._descend(recipe.private_learning_rate)  # lines 18 and 19
        self.num_queries[[batch[at].row for at in spans]] += 1
        followed = [at for at in spans if i + 1 < len(batch[at].pairs)]
        if followed:  # lines 20 to 23
            deviation = recipe.noise_multiplier * recipe.max_state_norm
            for values in state:
                values[followed] = release(clip_rows(values[followed], recipe.max_state_norm), deviation, rng)
            self.num_queries[[batch[at].row for at in followed]] += 2

    def _microbatches(
        self, batch: list[SpannedRecord], spans: dict[int, tuple[int, int]]
    ) -> list[tuple[list[int], SpanBatch]]:
        order = sorted(spans, key=lambda at: spans[at][1] - spans[at][0])  # less padding; a sum has no order
        parts = [order[at : at + self.microbatch_size] for at in range(0, len(order), self.microbatch_size)]
        pad, like = self.records.control.pad, self.parameters[0]
        return [(rows, collate_spans([(batch[at], *spans[at]) for at in rows], pad, like)) for rows in parts]

    def _descend(self, learning_rate: float) -> None:
        with torch.no_grad():
            for parameter in self.parameters:
                if parameter.grad is not None:
                    parameter.add_(parameter.grad, alpha=-learning_rate)
                    parameter.grad = None

    def _finite(self, losses: torch.Tensor) -> float:
        value = float(losses.detach().sum())
        if not math.isfinite(value):
            raise diverged(f"step {self.at.step + 1}")
        return value

    def end_epoch(self, evaluation: Evaluation) -> None:
        at = self.at
        at.curve.append(
            {
                "epoch": len(at.curve) + 1,
                "public_loss": at.public_loss_sum / at.num_public if at.num_public else None,
                "private_loss": at.private_loss_sum / at.num_private if at.num_private else None,
                "evaluation": evaluation.as_json(),
            }
        )
        at.public_loss_sum = at.private_loss_sum = 0.0
        at.num_public = at.num_private = 0


@dataclass(frozen=True, kw_only=True)
class SpanTraining:
    """The training as the stage runs it (`pipelines.training.methods.base.Training`)."""

    records: Records
    plan: SpanPlan
    settings: Settings

    @property
    def num_steps(self) -> int:
        """Steps, each on one sample."""
        return self.plan.num_steps

    @property
    def sample_rate(self) -> float:
        """Probability with which a record enters a step."""
        return self.plan.sample_rate

    def calibrate(self, target_epsilon: float, target_delta: float) -> float:
        """See `calibrate`."""
        return calibrate(self.plan, target_epsilon, target_delta)

    def account(self, noise_multiplier: float | None) -> Account:
        """Every precondition of the method is this module's own doing; `check_queries` holds it to the last one."""
        return Account(
            event=NoEvent() if noise_multiplier is None else event(self.plan, noise_multiplier),
            preconditions=PRECONDITIONS,
            notes=NOTES,
        )

    def train(self, model: Any, noise_multiplier: float, hooks: Hooks) -> LoopOutcome:
        """See `train`."""
        recipe = Recipe(
            public_learning_rate=self.settings.public_learning_rate,
            private_learning_rate=self.settings.private_learning_rate,
            max_grad_norm=self.settings.max_grad_norm,
            max_state_norm=self.settings.max_state_norm,
            noise_multiplier=noise_multiplier,
        )
        outcome = train(
            model,
            self.records,
            recipe,
            self.plan,
            randomness=hooks.randomness,
            checkpoints=hooks.checkpoints,
            evaluate=hooks.evaluate,
            microbatch_size=hooks.microbatch_size,
            progress=hooks.progress,
        )
        return LoopOutcome(num_steps=outcome.num_steps, curve=outcome.curve, was_resumed=outcome.was_resumed)


def prepare(corpus: TrainingCorpus, settings: Settings) -> SpanTraining:
    """Draws the samples of the whole run."""
    drawn = plan(
        len(corpus.private),
        settings.expected_batch_size,
        settings.epochs,
        settings.max_private_spans,
        settings.seed,
    )
    return SpanTraining(records=corpus.private, plan=drawn, settings=settings)
