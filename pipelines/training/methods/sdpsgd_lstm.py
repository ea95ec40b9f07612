"""Selective-DPSGD (Shi et al. 2022, "Selective Differential Privacy for Language Modeling", Algorithm 1).

The model is an LSTM, as in the paper's experiments, or a GRU. It reads each sampled record span by span. On a public
span it takes an ordinary step of SGD, and on a private span a step of DP-SGD. Then its states (hidden state, and the
cell state of an LSTM) are clipped, noised and passed to the public span that follows.

Formal guarantees, for two corpora that differ in the private tokens of one record (F-neighbours, Definition 3):
    * Private text reaches the weights through `release` alone: clipped gradient sums and clipped states, each with
      Gaussian noise of ``noise_multiplier`` times the clipping norm.
    * No gradient of a public span flows back into a private one: every state that enters the next span is a value
      without history (back-propagation through time would carry private gradients around the noise).
    * A record takes part in at most ``plan.queries_per_step`` = K noisy queries a step (a gradient and each
      state for each private span), and in at most ``plan.max_participations`` steps. Queries are counted for each
      record over the whole run. If a count differs from what the plan implies, the run stops before it publishes.

`pipelines.training.data.span_plan` fixes the samples and the accounting beforehand.

Public: the settings, the samples, the text of public tokens, which part of each record is private (the number and the
order of spans), and, if a record is cut at the context length, the lengths of its private spans.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

from pipelines.accounting.accountants import epsilon_at_most
from pipelines.accounting.events import Composed, Event, NoEvent, NonPrivate
from pipelines.dp.errors import NotFiniteError
from pipelines.dp.gradients import GradientEngine
from pipelines.dp.language import token_losses
from pipelines.dp.noise import add_noise
from pipelines.errors import ConfigError
from pipelines.methods.sdpsgd_lstm import SpanSettings
from pipelines.training.checkpoint import load_trained, trained_weights
from pipelines.training.data.corpus import TrainingCorpus
from pipelines.training.data.records import Records
from pipelines.training.data.span_plan import SpanPlan, calibrate, check_queries, event, plan, sample
from pipelines.training.data.spans import SpanBatch, SpannedRecord, collate_spans, spanned
from pipelines.training.loop import TrainingContext, TrainingOutcome, diverged
from pipelines.training.methods.base import Account, TrainingSettings
from pipelines.training.models.recurrent import RecurrentLanguageModel, State
from pipelines.training.scoring.curve import Curve, EpsilonSoFar

PRECONDITIONS: Final = ("states_noised", "states_detached", "private_spans_capped", "queries_counted", "samples_public")
"""Preconditions of claims that `train` meets, by their names in `pipelines.methods`."""


@dataclass(frozen=True, kw_only=True)
class SpanStepSettings:
    """Settings of the steps, with the symbols of Algorithm 1.

    Attributes:
        public_learning_rate: step size eta of line 9.
        private_learning_rate: step size eta of line 19.
        max_grad_norm: clipping norm C of line 15.
        max_state_norm: clipping norm C of line 21, for each state. The paper uses the same C.
        noise_multiplier: noise multiplier sigma.
    """

    public_learning_rate: float
    private_learning_rate: float
    max_grad_norm: float
    max_state_norm: float
    noise_multiplier: float


@dataclass(frozen=True, kw_only=True)
class SpanOutcome(TrainingOutcome):
    """Result of a run, with its numbers of noisy queries.

    Attributes:
        num_queries: number of noisy queries over all records and steps.
        most_queries: largest number of queries that one record took part in.
    """

    num_queries: int
    most_queries: int


def release(values: torch.Tensor, standard_deviation: float, rng: np.random.Generator) -> torch.Tensor:
    """Returns ``values`` with Gaussian noise and without history. Private text gets out through this function alone."""
    noisy = values.detach().clone(memory_format=torch.contiguous_format)
    add_noise([noisy], standard_deviation, rng)
    return noisy


def clip_rows(values: torch.Tensor, max_norm: float) -> torch.Tensor:
    """Scales each row of (B, H) down to ``max_norm`` (line 21). A shorter row stays as it is."""
    norms = torch.linalg.vector_norm(values.double(), dim=1, keepdim=True)
    factors: torch.Tensor = (max_norm / norms.clamp(min=max_norm)).to(values.dtype)
    return values * factors


def train(
    model: RecurrentLanguageModel,
    records: Records,
    settings: SpanStepSettings,
    plan: SpanPlan,
    context: TrainingContext,
    *,
    epsilon_so_far: EpsilonSoFar,
) -> SpanOutcome:
    """Trains ``model`` in place.

    A killed run continues from its last checkpoint, which lies between two steps, with the same samples and fresh
    noise. Nobody saw the steps after the checkpoint, so they are not counted.

    Args:
        model: model to train.
        records: original text with marks, in an order that depends on no private text.
        settings: settings of the steps.
        plan: samples of the steps.
        context: services of the stage.
        epsilon_so_far: bound on epsilon after a number of steps, for curve and progress. No decision uses it.

    Raises:
        StageError: the loss or a gradient is not finite, or a record took part in more queries than the plan accounts
            for.
        ConfigError: the plan is that of a model with another number of states.
    """
    if len(model.zero_state(1)) != plan.num_states:
        raise ConfigError(
            f"the plan accounts for {plan.num_states} states after a span, and the model has another number"
        )
    engine, checkpoints = GradientEngine(model, max_grad_norm=settings.max_grad_norm), context.checkpoints
    try:
        run = _SpanRun(model, engine, records, settings, plan, context)
        was_resumed = run.restore(checkpoints.load(context.progress))
        while run.num_steps < plan.num_steps:
            run.step()
            if run.num_steps % plan.steps_per_epoch == 0:
                epsilon = epsilon_so_far(run.num_steps)
                run.curve.end_epoch(context.evaluate(model), run.num_steps, run.num_steps, epsilon)
                checkpoints.save(run.state())
            else:
                checkpoints.save_if_due(run.state)
            context.progress(run.num_steps, plan.num_steps, run.curve.words(plan.num_epochs))
    finally:
        engine.detach()
    check_queries(run.num_queries, records, plan)
    return SpanOutcome(
        num_steps=run.num_steps,
        num_queries=int(run.num_queries.sum()),
        most_queries=int(run.num_queries.max(initial=0)),
        curve=run.curve.rows,
        was_resumed=was_resumed,
    )


class _SpanRun:
    def __init__(
        self,
        model: RecurrentLanguageModel,
        engine: GradientEngine,
        records: Records,
        settings: SpanStepSettings,
        plan: SpanPlan,
        context: TrainingContext,
    ) -> None:
        self.model, self.engine, self.records = model, engine, records
        self.settings, self.plan, self.context = settings, plan, context
        self.parameters = engine.parameters
        self.num_queries = np.zeros(plan.num_records, dtype=np.int64)  # of each record, over the whole run
        self.num_steps, self.curve = 0, Curve()

    def state(self) -> dict[str, Any]:
        return {
            "model": trained_weights(self.model),
            "num_queries": torch.from_numpy(self.num_queries.copy()),
            "num_steps": self.num_steps,
            "curve": self.curve.as_state(),
        }

    def restore(self, state: dict[str, Any] | None) -> bool:
        if state is None:
            return False
        load_trained(self.model, state["model"])
        self.num_queries = state["num_queries"].numpy().copy()
        self.num_steps, self.curve = state["num_steps"], Curve(**state["curve"])
        return True

    def step(self) -> None:
        """Takes one step on a sample (lines 3 to 24)."""
        rng = self.context.randomness(self.num_steps)
        rows = sample(self.plan, self.num_steps)
        batch = spanned(self.records, rows, self.plan.max_private_spans)  # line 4
        state = self.model.zero_state(len(batch))  # line 5
        for i in range(max((len(record.pairs) for record in batch), default=0)):  # line 6
            having = [at for at, record in enumerate(batch) if i < len(record.pairs)]
            pairs = {at: batch[at].pairs[i] for at in having}
            self._regular_update(batch, {at: p[:2] for at, p in pairs.items() if p[0] < p[1]}, state)
            self._private_update(batch, {at: p[1:] for at, p in pairs.items() if p[1] < p[2]}, i, state, rng)
        self.num_steps += 1

    def _regular_update(self, batch: list[SpannedRecord], spans: dict[int, tuple[int, int]], state: State) -> None:
        """Takes a step on public spans (lines 7 to 9). Leaves the state after them, without history."""
        if not spans:
            return
        for parameter in self.parameters:
            parameter.grad = None
        for rows, part in self._microbatches(batch, spans):
            logits, ends = self.model(part.inputs, tuple(values[rows] for values in state), part.lengths)
            losses = (token_losses(logits, part.labels) * part.weights).sum(dim=1)
            self.curve.add("public", self._finite(losses), len(rows))
            (losses.sum() / len(spans)).backward()  # type: ignore[no-untyped-call]
            for values, end in zip(state, ends, strict=True):
                values[rows] = end.detach()
        self._descend(self.settings.public_learning_rate)

    def _private_update(
        self,
        batch: list[SpannedRecord],
        spans: dict[int, tuple[int, int]],
        i: int,
        state: State,
        rng: np.random.Generator,
    ) -> None:
        """Takes a step on private spans (lines 10 to 23). Leaves a released state if a public span follows."""
        if not spans:
            return
        settings = self.settings
        for rows, part in self._microbatches(batch, spans):
            start = tuple(values[rows] for values in state)
            with self.engine.recording(len(rows)):
                logits, _ = self.model(part.inputs, start)
                losses = (token_losses(logits, part.labels) * part.weights).sum(dim=1)
            try:
                self.engine.backward(losses)  # lines 12 to 15: per-example gradients, clipped
            except NotFiniteError:
                raise diverged("a private span") from None
            self.curve.add("private", self._finite(losses), len(rows))
            with torch.no_grad():  # line 11, with the weights before the descent
                for values, end in zip(state, self.model(part.inputs, start, part.lengths).state, strict=True):
                    values[rows] = end
        for parameter, total in zip(self.parameters, self.engine.take_sums(), strict=True):  # lines 16 and 17
            noisy = release(total, settings.noise_multiplier * settings.max_grad_norm, rng)
            # Samples and spans are public here, and so is the number of spans: the paper's divisor may stay.
            parameter.grad = (noisy / len(spans)).to(parameter.dtype)
        self._descend(settings.private_learning_rate)  # lines 18 and 19
        self.num_queries[[batch[at].row for at in spans]] += 1
        followed = [at for at in spans if i + 1 < len(batch[at].pairs)]
        if followed:  # lines 20 to 23
            deviation = settings.noise_multiplier * settings.max_state_norm
            for values in state:
                values[followed] = release(clip_rows(values[followed], settings.max_state_norm), deviation, rng)
            self.num_queries[[batch[at].row for at in followed]] += len(state)

    def _microbatches(
        self, batch: list[SpannedRecord], spans: dict[int, tuple[int, int]]
    ) -> list[tuple[list[int], SpanBatch]]:
        order = sorted(spans, key=lambda at: spans[at][1] - spans[at][0])  # less padding; a sum has no order
        size = self.context.microbatch_size
        parts = [order[at : at + size] for at in range(0, len(order), size)]
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
            raise diverged(f"step {self.num_steps + 1}")
        return value


@dataclass(frozen=True, kw_only=True)
class SpanTraining:
    """A training that is planned and has not run (`pipelines.training.methods.base.PlannedTraining`)."""

    records: Records
    plan: SpanPlan
    settings: TrainingSettings

    @property
    def num_steps(self) -> int:
        """Number of steps, each on one sample."""
        return self.plan.num_steps

    @property
    def sample_rate(self) -> float:
        """Probability with which a record enters a step."""
        return self.plan.sample_rate

    def calibrate(self, target_epsilon: float, target_delta: float) -> float:
        """Returns the least noise multiplier of a query that meets the target (`span_plan.calibrate`)."""
        return calibrate(self.plan, target_epsilon, target_delta)

    def account(self, noise_multiplier: float | None) -> Account:
        """Returns the facts for the accountant. All preconditions are met here (`check_queries` checks the counts)."""
        private = NoEvent() if noise_multiplier is None else event(self.plan, noise_multiplier)
        phases: list[tuple[str, str, Event]] = [("private spans", "original", private)]
        if noise_multiplier is not None:
            # Text that the policies do not mask is trained on without noise: a secret that they miss has no bound.
            phases.append(("public spans", "redacted", NonPrivate()))
        return Account(
            event=Composed(events=tuple(of_phase for _, _, of_phase in phases)),
            phases=tuple(phases),
            preconditions=PRECONDITIONS,
        )

    def train(self, model: Any, noise_multiplier: float, context: TrainingContext) -> SpanOutcome:
        """Trains ``model`` in place (`train`)."""
        steps = SpanStepSettings(
            public_learning_rate=self.settings.public_learning_rate,
            private_learning_rate=self.settings.private_learning_rate,
            max_grad_norm=self.settings.max_grad_norm,
            max_state_norm=self.settings.of(SpanSettings).max_state_norm,
            noise_multiplier=noise_multiplier,
        )
        return train(
            model,
            self.records,
            steps,
            self.plan,
            context,
            epsilon_so_far=lambda num_steps: epsilon_at_most(
                event(self.plan, noise_multiplier, num_steps // self.plan.steps_per_epoch), self.settings.target_delta
            ),
        )


def prepare(corpus: TrainingCorpus, settings: TrainingSettings) -> SpanTraining:
    """Draws the samples of the whole run."""
    drawn = plan(
        len(corpus.private_examples),
        settings.expected_batch_size,
        settings.epochs,
        settings.of(SpanSettings).max_private_spans,
        settings.seed,
        num_states=settings.num_states,
    )
    assert isinstance(corpus.private_examples, Records)  # noqa: S101  # the settings refuse every other task
    return SpanTraining(records=corpus.private_examples, plan=drawn, settings=settings)
