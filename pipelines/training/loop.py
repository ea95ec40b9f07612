"""Training loop of most methods: steps without noise and private steps, in the order that a method plans.

A *nonprivate* step is AdamW (or SGD) on a minibatch, without noise. A *private* step is DP-AdamW (or DP-SGD) on a
Poisson sample: clip each record's gradient, sum, add noise once, divide by the expected batch size. With `Owners` the
sample is one of people, and a drawn person's records are clipped as one. A method plans the order of the steps
(`Segment`). This module does everything else, checkpoints included.

Several processes may take the steps together (`pipelines.dp.ranks`). Each process computes on its share of a minibatch,
or samples from its share of the private records, and gradients are summed before the one step that all processes take.
Every private record belongs to one process, so it enters a step with the planned rate for any number of processes.

Each kind of step has its own optimizer, so that the moments of one kind do not change the steps of the other: the large
moments of noisy gradients would slow the nonprivate steps. Both optimizers post-process what the accountant counts, and
so cost no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
import torch

from pipelines.dp.compositions import candidates
from pipelines.dp.errors import IsolationError, NotFiniteError
from pipelines.dp.gradients import GradientEngine
from pipelines.dp.isolation import PROBE_SIZE, check_again, check_isolation
from pipelines.dp.noisy_steps import noisy_step
from pipelines.dp.owners import Owners, OwnerSampler
from pipelines.dp.ranks import Ranks
from pipelines.dp.sampling import PrivatePlan, largest_batch, next_check, physical_batches, poisson_sample
from pipelines.errors import StageError
from pipelines.randomness import PrivateRandomness
from pipelines.training.checkpoint import Checkpoints, load_trained, trained_weights
from pipelines.training.data.records import ExampleBatch, Examples, IntArray
from pipelines.training.programme import Segment
from pipelines.training.scoring.curve import Curve, EpsilonSoFar
from pipelines.training.scoring.evaluation import Evaluation

ExampleLosses = Callable[[torch.nn.Module, ExampleBatch], torch.Tensor]
"""(B,) loss of each example."""


@dataclass(frozen=True, kw_only=True)
class StepSettings:
    """Settings of the optimizer steps.

    Attributes:
        public_learning_rate: step size of nonprivate steps.
        private_learning_rate: step size of private steps.
        public_batch_size: number of records in a minibatch of a nonprivate step.
        max_grad_norm: Euclidean norm to which one private record's gradient is clipped.
        noise_multiplier: noise standard deviation over ``max_grad_norm``.
        seed: public seed of the order of minibatches.
        optimizer: ``adamw``, or ``sgd`` without momentum, for both kinds of step.
    """

    public_learning_rate: float
    private_learning_rate: float
    public_batch_size: int
    max_grad_norm: float
    noise_multiplier: float
    seed: int
    optimizer: Literal["adamw", "sgd"] = "adamw"

    def num_nonprivate_batches(self, num_records: int) -> int:
        """Returns the number of minibatches in one pass over ``num_records`` records."""
        return math.ceil(num_records / self.public_batch_size)


@dataclass(frozen=True, kw_only=True)
class TrainingContext:
    """Services that the train stage gives to a training.

    Attributes:
        randomness: generator of each private step's sample and noise.
        checkpoints: file that keeps the state of an interrupted training.
        losses: loss of each example of a batch. It must depend on no other example of the batch.
        evaluate: function that scores the model after each epoch. No training stops early because of a score.
        microbatch_size: number of private examples that the model sees at once. The result does not depend on it.
        progress: callback that receives the number of finished steps.
    """

    randomness: PrivateRandomness
    checkpoints: Checkpoints
    losses: ExampleLosses
    evaluate: Callable[[torch.nn.Module], Evaluation]
    microbatch_size: int
    progress: Callable[[int, int | None, str], None]


@dataclass
class _Progress:
    """Position of a run: ``position`` steps into segment number ``segment``. Checkpoints store these names."""

    segment: int = 0
    position: int = 0
    num_plain_steps: int = 0  # nonprivate steps
    num_private_steps: int = 0


@dataclass(frozen=True, kw_only=True)
class TrainingOutcome:
    """Result of a training run.

    Attributes:
        num_steps: number of private steps that the weights went through.
        curve: rows of the learning curve, one per epoch. Private.
        was_resumed: true if the run continued from a checkpoint.
        num_comparisons: number of times that examples were compared (`pipelines.dp.isolation`). None if there were no
            examples to compare, or the method compares none.
    """

    num_steps: int
    curve: list[dict[str, Any]]
    was_resumed: bool
    num_comparisons: int | None = None


def train(
    model: torch.nn.Module,
    nonprivate_examples: Examples,
    private_examples: Examples,
    programme: Sequence[Segment],
    settings: StepSettings,
    plan: PrivatePlan,
    context: TrainingContext,
    *,
    epsilon_so_far: EpsilonSoFar,
    owners: Owners | None = None,
) -> TrainingOutcome:
    """Trains ``model`` in place.

    A killed run continues from its last checkpoint with fresh samples and fresh noise. The steps after that checkpoint
    are lost unseen: they entered neither a checkpoint that was used nor anything published. The released weights
    therefore went through exactly the programme's private steps. This argument needs the interruption to be independent
    of the lost noise (nobody looked at the lost weights and then stopped the run).

    Under several processes all of them get the same arguments, except for ``context.randomness``. The sums and the
    curve of the first process are those of all processes, and only the first process should write checkpoints.

    Before the first step of a process, the losses of small batches of private records are compared, which share some
    records and differ in the others (`pipelines.dp.isolation`). Batches of real size are compared before later steps
    and after the last step. No number from these comparisons enters a step. If they find a difference, the checkpoint
    is removed.

    Args:
        model: model to train.
        nonprivate_examples: records of nonprivate steps, in an order that the method's view vouches for.
        private_examples: records of private steps.
        programme: steps in their order, fixed beforehand.
        settings: settings of the steps.
        plan: sampling rate and expected batch size of private steps.
        context: services of the stage.
        epsilon_so_far: bound on epsilon after a number of private steps, for curve and progress. No decision uses it.
        owners: people of the private records, if private steps sample people; then the plan counts people.

    Raises:
        StageError: the loss or a gradient is not finite, the losses are not one per example, the programme and the plan
            have different numbers of private steps, or the processes disagree about the training.
        IsolationError: the loss or the gradient of an example depends on other examples of its batch, or the model
            keeps what it saw.
    """
    num_private = sum(s.num_steps for s in programme if s.kind == "private")
    if num_private != plan.num_steps:
        raise StageError(f"the programme has {num_private} private steps, and {plan.num_steps} are accounted for")
    run = _LoopRun(model, nonprivate_examples, private_examples, settings, plan, context, owners)
    was_resumed = run.restore(context.checkpoints.load(context.progress))
    run.join(programme)
    try:
        run.compare_examples()
        run.follow(programme, epsilon_so_far)
        run.compare_again()
    except IsolationError:
        context.checkpoints.discard()
        raise
    finally:
        if run.engine is not None:
            run.engine.detach()
    return TrainingOutcome(
        num_steps=run.at.num_private_steps,
        curve=run.curve.rows,
        was_resumed=was_resumed,
        num_comparisons=run.num_comparisons,
    )


class _LoopRun:
    def __init__(
        self,
        model: torch.nn.Module,
        nonprivate_examples: Examples,
        private_examples: Examples,
        settings: StepSettings,
        plan: PrivatePlan,
        context: TrainingContext,
        owners: Owners | None,
    ) -> None:
        self.model, self.nonprivate_examples, self.private_examples = model, nonprivate_examples, private_examples
        self.settings, self.plan, self.context = settings, plan, context
        # A model without a rule for each of its layers may still be trained if nothing is private.
        self.engine = GradientEngine(model, max_grad_norm=settings.max_grad_norm) if plan.num_steps else None
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.nonprivate_optimizer = _optimizer(settings, self.parameters, settings.public_learning_rate)
        self.private_optimizer = _optimizer(settings, self.parameters, settings.private_learning_rate)
        self.at, self.curve = _Progress(), Curve()
        self.ranks, self.device = Ranks.here(), self.parameters[0].device
        self.own_private_rows = self.ranks.share(np.arange(len(private_examples)))
        self.people = None if owners is None else OwnerSampler(owners, self.ranks)
        self.compared = self.own_private_rows[private_examples.num_targets[self.own_private_rows] > 0]
        self.num_comparisons = None if self.engine is None or not len(self.compared) else 0
        self.next_check = 0

    def join(self, programme: Sequence[Segment]) -> None:
        """Takes the first process's weights, and checks that all processes mean the same training."""
        # Each process calibrates the noise itself, and processors round its last digits differently.
        settings = replace(self.settings, noise_multiplier=float(f"{self.settings.noise_multiplier:.6g}"))
        facts = [repr(part) for part in (settings, self.plan, self.at, [asdict(s) for s in programme])]
        examples = (self.nonprivate_examples, self.private_examples)
        facts += [f"{len(part)} {int(part.num_targets.sum())}" for part in examples]
        facts += [] if self.people is None else [self.people.facts]
        self.ranks.check_agree("/".join(facts), self.device)
        self.ranks.follow_first(parameter.data for parameter in self.model.parameters())

    def compare_examples(self) -> None:
        """Checks on small batches that clipping an example's gradient bounds the influence of its record."""
        size = min(PROBE_SIZE, len(self.compared), self.context.microbatch_size)
        full_size = min(self.plan.expected_share(self.ranks), self.context.microbatch_size)
        self._compare(
            lambda engine, *how: check_isolation(engine, candidates(self.compared, 2 * size), size, full_size, *how)
        )

    def compare_again(self) -> None:
        """Repeats the check on batches of real size, because a dependence may begin later. Enters no step."""
        expected, most = self.plan.expected_batch_size / self.ranks.count, self.context.microbatch_size
        size = largest_batch(expected, len(self.compared), most)
        if size < 2:
            return
        rng = np.random.default_rng([self.settings.seed, self.at.num_private_steps, len(self.compared)])
        rows = rng.permutation(self.compared)[: size + size // 4].tolist()
        self._compare(lambda engine, *how: check_again(engine, rows, size, rng, *how))

    def _compare(self, check: Callable[..., Any]) -> None:
        if self.engine is None or self.num_comparisons is None:
            return
        at = self.at.num_private_steps
        try:
            check(
                self.engine,
                lambda chosen: self._collate(self.private_examples, np.asarray(chosen)),
                lambda batch: self.context.losses(self.model, batch),
            )
        except NotFiniteError:
            raise diverged(f"private step {at}" if at else "the model that training starts from") from None
        self.num_comparisons += 1
        self.next_check = next_check(at, self.settings.seed)

    def _collate(self, examples: Examples, rows: IntArray) -> ExampleBatch:
        return examples.collate(rows).to(self.device, self.parameters[0].dtype)

    def state(self) -> dict[str, Any]:
        return {
            "model": trained_weights(self.model),
            "public_optimizer": self.nonprivate_optimizer.state_dict(),
            "private_optimizer": self.private_optimizer.state_dict(),
            "progress": asdict(self.at),
            "curve": self.curve.as_state(),
        }

    def restore(self, state: dict[str, Any] | None) -> bool:
        if state is None:
            return False
        load_trained(self.model, state["model"])
        self.nonprivate_optimizer.load_state_dict(state["public_optimizer"])
        self.private_optimizer.load_state_dict(state["private_optimizer"])
        self.at, self.curve = _Progress(**state["progress"]), Curve(**state["curve"])
        return True

    def follow(self, programme: Sequence[Segment], epsilon_so_far: EpsilonSoFar) -> None:
        at, context = self.at, self.context
        total = sum(segment.num_steps for segment in programme)
        num_epochs = sum(segment.ends_epoch for segment in programme)
        while at.segment < len(programme):
            segment = programme[at.segment]
            while at.position < segment.num_steps:
                self._private_step() if segment.kind == "private" else self._nonprivate_step()
                at.position += 1
                context.checkpoints.save_if_due(self.state)
                done = at.num_plain_steps + at.num_private_steps
                context.progress(done, total, self.curve.words(num_epochs))
            at.segment, at.position = at.segment + 1, 0
            if segment.ends_epoch:
                epsilon = epsilon_so_far(at.num_private_steps) if at.num_private_steps else None
                done = at.num_plain_steps + at.num_private_steps
                self.curve.end_epoch(context.evaluate(self.model), done, at.num_private_steps, epsilon)
                context.checkpoints.save(self.state())
            else:
                context.checkpoints.save_if_due(self.state)

    def _nonprivate_step(self) -> None:
        at, size, num_records = self.at, self.settings.public_batch_size, len(self.nonprivate_examples)
        passes, batch_number = divmod(at.num_plain_steps, self.settings.num_nonprivate_batches(num_records))
        order: IntArray = np.random.default_rng([self.settings.seed, passes]).permutation(num_records)
        rows = order[batch_number * size : (batch_number + 1) * size]
        own, loss_sum = self.ranks.share(rows), 0.0
        if len(own):
            loss = self.context.losses(self.model, self._collate(self.nonprivate_examples, own)).sum()
            loss_sum = float(loss.detach())
            (loss / len(rows)).backward()  # type: ignore[no-untyped-call]
        (loss_sum,) = self.ranks.totals([loss_sum], self.device)
        if not math.isfinite(loss_sum):
            raise diverged(f"a nonprivate step of epoch {len(self.curve.rows) + 1}")
        if self.ranks.count > 1:
            for parameter in self.parameters:
                if parameter.grad is None:  # this process has no row, or no row that uses this parameter
                    parameter.grad = torch.zeros_like(parameter)
            self.ranks.add_up([p.grad for p in self.parameters if p.grad is not None])
        self.nonprivate_optimizer.step()
        self.nonprivate_optimizer.zero_grad(set_to_none=True)
        self.curve.add("public", loss_sum, len(rows))
        at.num_plain_steps += 1

    def _private_step(self) -> None:
        at, engine = self.at, self.engine
        assert engine is not None  # noqa: S101  # the plan has private steps, so `__init__` made one
        if at.num_private_steps >= self.next_check:
            self.compare_again()
        rng = self.context.randomness(at.num_private_steps)
        try:
            sums = self._sums_of_sample(engine, rng)
        except NotFiniteError:
            raise diverged("a private step") from None
        loss_sum, count = self.ranks.totals(sums, self.device)
        self.curve.add("private", loss_sum, int(count))
        noisy_step(
            self.private_optimizer,
            engine,
            noise_multiplier=self.settings.noise_multiplier,
            expected_batch_size=self.plan.expected_batch_size,
            rng=rng,
            ranks=self.ranks,
        )
        at.num_private_steps += 1

    def _sums_of_sample(self, engine: GradientEngine, rng: np.random.Generator) -> tuple[float, int]:
        """Adds the clipped gradients of a sample to the sums. Returns the sum of its losses, and their number."""
        examples, rate = self.private_examples, self.plan.sample_rate
        if self.people is not None:
            drawn = self.people.draw(rate, rng)
            if self.people.records_each > 1:
                return self._sums_of_people(engine, drawn)
            rows = np.concatenate([np.zeros(0, dtype=np.int64), *drawn])
        else:
            rows = self.own_private_rows[poisson_sample(len(self.own_private_rows), rate, rng)]
        rows = rows[examples.num_targets[rows] > 0]  # the gradients of other rows are zero
        rows = rows[np.argsort(examples.ids.lengths[rows], kind="stable")]  # less padding; a sum has no order
        loss_sum: torch.Tensor | float = 0.0  # a number would wait for a GPU after each batch
        for part in physical_batches(rows, self.context.microbatch_size):
            with engine.recording(len(part)):
                losses = self._losses(part)
            loss_sum = loss_sum + engine.backward(losses).losses.sum().double()
        return float(loss_sum), len(rows)

    def _sums_of_people(self, engine: GradientEngine, drawn: Sequence[IntArray]) -> tuple[float, int]:
        """Adds the gradient of each person's mean loss, clipped once."""
        parts = (physical_batches(own, self.context.microbatch_size) for own in drawn)
        means = [engine.add_together(map(self._losses, p), len(own)) for own, p in zip(drawn, parts, strict=True)]
        return sum(mean * len(own) for mean, own in zip(means, drawn, strict=True)), sum(map(len, drawn))

    def _losses(self, rows: IntArray) -> torch.Tensor:
        return self.context.losses(self.model, self._collate(self.private_examples, rows))


def _optimizer(
    settings: StepSettings, parameters: list[torch.nn.Parameter], learning_rate: float
) -> torch.optim.Optimizer:
    if settings.optimizer == "sgd":
        return torch.optim.SGD(parameters, lr=learning_rate)
    # No weight decay: it would shrink the embeddings of rare tokens, which few examples update.
    return torch.optim.AdamW(parameters, lr=learning_rate, weight_decay=0.0)


def diverged(where: str) -> StageError:
    """Returns the error for a loss or gradient that is not finite."""
    return StageError(
        f"training diverged: the loss or a gradient is not a finite number in {where}. Lower "
        "train.public_learning_rate or train.private_learning_rate, or take a smaller model, and run again."
    )
