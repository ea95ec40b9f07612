"""The two kinds of step that most methods are made of, and the loop that walks through a method's programme of them.

A *plain* step is AdamW (or SGD) on a minibatch, without noise. A *noised* step is DP-AdamW (or DP-SGD) on a Poisson
sample: clip each record's gradient, add up, add noise once, divide by the expected batch size. A method says which
steps come in which order (`Segment`); everything else, checkpoints included, is here.

Several processes may take the steps together (`pipelines.dp.ranks`): each computes on its share of a
minibatch, or samples from its share of the private records, and gradients are added up before the one step that all
take. A private record is one process's own, so it enters a step with the planned rate, however many there are.

The two kinds keep an optimizer each, so that the large moments of noisy gradients do not slow the plain steps, nor the
reverse; both are post-processing of what the accountant counts, and cost no privacy.
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
from pipelines.dp.optimizer import noisy_step
from pipelines.dp.ranks import Ranks
from pipelines.dp.sampling import PrivatePlan, largest_batch, next_check, physical_batches, poisson_sample
from pipelines.errors import StageError
from pipelines.randomness import PrivateRandomness
from pipelines.training.checkpoint import Checkpoints, load_trained, trained_weights
from pipelines.training.data.records import ExampleBatch, Examples, IntArray
from pipelines.training.divergence import diverged
from pipelines.training.scoring.curve import Curve, EpsilonSoFar
from pipelines.training.scoring.evaluation import Evaluation

ExampleLosses = Callable[[torch.nn.Module, ExampleBatch], torch.Tensor]
"""(B,) the loss of each example."""


@dataclass(frozen=True, kw_only=True)
class Segment:
    """Steps of one kind in a row.

    Attributes:
        kind: of the steps.
        num_steps: how many.
        ends_epoch: whether the model is evaluated, and always saved, after them.
    """

    kind: Literal["nonprivate", "private"]
    num_steps: int
    ends_epoch: bool = False


@dataclass(frozen=True, kw_only=True)
class StepSettings:
    """How steps are made.

    Attributes:
        public_learning_rate: step size on plain minibatches.
        private_learning_rate: step size on noisy private sums.
        public_batch_size: records in a plain minibatch.
        max_grad_norm: Euclidean norm that one private record's gradient is clipped to.
        noise_multiplier: noise standard deviation over ``max_grad_norm``.
        seed: of the order of plain minibatches; public.
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
        """Minibatches of a pass over so many records."""
        return math.ceil(num_records / self.public_batch_size)


@dataclass
class _Progress:
    """Where a run is: ``position`` steps into segment number ``segment``."""

    segment: int = 0
    position: int = 0
    num_plain_steps: int = 0
    num_private_steps: int = 0


@dataclass(frozen=True, kw_only=True)
class TrainingOutcome:
    """What a run did.

    Attributes:
        num_steps: private steps that the weights went through.
        curve: the rows of the learning curve, one an epoch. Private.
        was_resumed: whether it went on from a checkpoint.
        num_comparisons: how often examples were compared (`pipelines.dp.isolation`); None where there was none to
            compare, or the method compares none.
    """

    num_steps: int
    curve: list[dict[str, Any]]
    was_resumed: bool
    num_comparisons: int | None = None


def train(
    model: torch.nn.Module,
    plain: Examples,
    noised: Examples,
    programme: Sequence[Segment],
    recipe: StepSettings,
    plan: PrivatePlan,
    *,
    randomness: PrivateRandomness,
    checkpoints: Checkpoints,
    losses: ExampleLosses,
    evaluate: Callable[[torch.nn.Module], Evaluation],
    epsilon_so_far: EpsilonSoFar,
    microbatch_size: int,
    progress: Callable[[int, int | None, str], None],
) -> TrainingOutcome:
    """Trains ``model`` in place.

    A run that was killed goes on from its last checkpoint with fresh samples and fresh noise. Steps that were done
    after that checkpoint are lost unseen: they entered neither a checkpoint that was used nor anything published, so
    the released weights went through exactly the programme's private steps. This needs the interruption to be
    independent of the lost noise (nobody looked at the lost weights and then pulled the plug).

    Args:
        model: the model to train.
        plain: the records of plain steps, in an order that the method's view vouches for.
        noised: the records of private steps.
        programme: which steps, in which order; fixed beforehand.
        recipe: how steps are made.
        plan: rate and expected batch size of private steps.
        randomness: the generator of each private step.
        checkpoints: where to keep state.
        losses: the loss of each example of a batch, which depends on no other example.
        evaluate: scores the model after each epoch. Nothing stops early by it.
        epsilon_so_far: of so many private steps, for curve and progress; no decision rests on it.
        microbatch_size: private examples that the model sees at once; no influence on the result.
        progress: told how many steps are done.

    Under several processes all of them are given the same, but for ``randomness``; the first one's sums and curve are
    those of all, and only the first should write checkpoints.

    Before the first step of a process, ``losses`` is compared on small batches of private records that share some and
    differ in the others (`pipelines.dp.isolation`), and on batches of real size before later steps and after the last.
    Nothing of it enters a step. Where a difference is found, the checkpoint is removed.

    Raises:
        StageError: the loss or a gradient is not a finite number, the programme's private steps are not those of the
            plan, or the processes are not about to do the same; not one loss for each example.
        IsolationError: the loss or the gradient of an example depends on others of its batch, or the model keeps
            what it saw.
    """
    num_private = sum(s.num_steps for s in programme if s.kind == "private")
    if num_private != plan.num_steps:
        raise StageError(f"the programme has {num_private} private steps, and {plan.num_steps} are accounted for")
    run = _LoopRun(model, plain, noised, recipe, plan, randomness, losses, microbatch_size)
    was_resumed = run.restore(checkpoints.load(progress))
    run.join(programme)
    try:
        run.compare_examples()
        run.follow(programme, checkpoints, evaluate, epsilon_so_far, progress)
        run.compare_again()
    except IsolationError:
        checkpoints.discard()
        raise
    finally:
        if run.engine is not None:
            run.engine.detach()
    num_steps, num_comparisons = run.at.num_private_steps, run.num_comparisons
    return TrainingOutcome(
        num_steps=num_steps, curve=run.curve.rows, was_resumed=was_resumed, num_comparisons=num_comparisons
    )


class _LoopRun:
    def __init__(
        self,
        model: torch.nn.Module,
        plain: Examples,
        noised: Examples,
        recipe: StepSettings,
        plan: PrivatePlan,
        randomness: PrivateRandomness,
        losses: ExampleLosses,
        microbatch_size: int,
    ) -> None:
        self.model, self.nonprivate_examples, self.private_examples = model, plain, noised
        self.recipe, self.plan, self.randomness = recipe, plan, randomness
        self.losses, self.microbatch_size = losses, microbatch_size
        # A model without a rule for each of its layers may still be trained where nothing is private.
        self.engine = GradientEngine(model, max_grad_norm=recipe.max_grad_norm) if plan.num_steps else None
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.nonprivate_optimizer = _optimizer(recipe, self.parameters, recipe.public_learning_rate)
        self.private_optimizer = _optimizer(recipe, self.parameters, recipe.private_learning_rate)
        self.num_nonprivate_batches = recipe.num_nonprivate_batches(len(plain))
        self.at, self.curve = _Progress(), Curve()
        self.ranks, self.device = Ranks.here(), self.parameters[0].device
        self.own_private_rows = self.ranks.share(np.arange(len(noised)))
        self.compared = self.own_private_rows[noised.num_targets[self.own_private_rows] > 0]
        self.num_comparisons = None if self.engine is None or not len(self.compared) else 0
        self.next_check = 0

    def join(self, programme: Sequence[Segment]) -> None:
        """Starts where the first process starts, and sees to it that all mean the same training."""
        # The noise is calibrated by each process, and processors round its last digits in other ways.
        recipe = replace(self.recipe, noise_multiplier=float(f"{self.recipe.noise_multiplier:.6g}"))
        facts = [repr(part) for part in (recipe, self.plan, self.at, [asdict(s) for s in programme])]
        facts += [f"{len(part)} {int(part.num_targets.sum())}" for part in (self.nonprivate_examples, self.private_examples)]
        self.ranks.check_agree("/".join(facts), self.device)
        self.ranks.follow_first(parameter.data for parameter in self.model.parameters())

    def compare_examples(self) -> None:
        """Sees to it that clipping an example's gradient bounds what its record does."""
        size = min(PROBE_SIZE, len(self.compared), self.microbatch_size)
        full_size = min(self.plan.expected_share(self.ranks), self.microbatch_size)
        self._compare(
            lambda engine, *how: check_isolation(engine, candidates(self.compared, 2 * size), size, full_size, *how)
        )

    def compare_again(self) -> None:
        """Does so with batches of real size, for what may have begun since. No number drawn here enters a step."""
        size = largest_batch(self.plan.expected_batch_size / self.ranks.count, len(self.compared), self.microbatch_size)
        if size < 2:
            return
        rng = np.random.default_rng([self.recipe.seed, self.at.num_private_steps, len(self.compared)])
        rows = rng.permutation(self.compared)[: size + size // 4].tolist()
        self._compare(lambda engine, *how: check_again(engine, rows, size, rng, *how))

    def _compare(self, check: Callable[..., Any]) -> None:
        if self.engine is None or self.num_comparisons is None:
            return
        try:
            check(
                self.engine,
                lambda chosen: self._collate(np.asarray(chosen)),
                lambda batch: self.losses(self.model, batch),
            )
        except NotFiniteError:
            at = self.at.num_private_steps
            raise diverged(f"private step {at}" if at else "the model that training starts from") from None
        self.num_comparisons += 1
        self.next_check = next_check(self.at.num_private_steps, self.recipe.seed)

    def _collate(self, rows: IntArray) -> ExampleBatch:
        return self.private_examples.collate(rows).to(self.device, self.parameters[0].dtype)

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

    def follow(
        self,
        programme: Sequence[Segment],
        checkpoints: Checkpoints,
        evaluate: Callable[[torch.nn.Module], Evaluation],
        epsilon_so_far: EpsilonSoFar,
        progress: Callable[[int, int | None, str], None],
    ) -> None:
        at = self.at
        total = sum(segment.num_steps for segment in programme)
        num_epochs = sum(segment.ends_epoch for segment in programme)
        while at.segment < len(programme):
            segment = programme[at.segment]
            while at.position < segment.num_steps:
                self._private_step() if segment.kind == "private" else self._nonprivate_step()
                at.position += 1
                checkpoints.save_if_due(self.state)
                done = at.num_plain_steps + at.num_private_steps
                progress(done, total, self.curve.words(num_epochs))
            at.segment, at.position = at.segment + 1, 0
            if segment.ends_epoch:
                epsilon = epsilon_so_far(at.num_private_steps) if at.num_private_steps else None
                done = at.num_plain_steps + at.num_private_steps
                self.curve.end_epoch(evaluate(self.model), done, at.num_private_steps, epsilon)
                checkpoints.save(self.state())
            else:
                checkpoints.save_if_due(self.state)

    def _nonprivate_step(self) -> None:
        at, size = self.at, self.recipe.public_batch_size
        passes, batch_number = divmod(at.num_plain_steps, self.num_nonprivate_batches)
        order: IntArray = np.random.default_rng([self.recipe.seed, passes]).permutation(len(self.nonprivate_examples))
        rows = order[batch_number * size : (batch_number + 1) * size]
        own, loss_sum = self.ranks.share(rows), 0.0
        if len(own):
            batch = self.nonprivate_examples.collate(own).to(self.device, self.parameters[0].dtype)
            loss = self.losses(self.model, batch).sum()
            loss_sum = float(loss.detach())
            (loss / len(rows)).backward()  # type: ignore[no-untyped-call]
        (loss_sum,) = self.ranks.totals([loss_sum], self.device)
        if not math.isfinite(loss_sum):
            raise diverged(f"a plain step of epoch {len(self.curve.rows) + 1}")
        if self.ranks.count > 1:
            for parameter in self.parameters:
                if parameter.grad is None:  # no row of its own, or none that this parameter takes part in
                    parameter.grad = torch.zeros_like(parameter)
            self.ranks.add_up([p.grad for p in self.parameters if p.grad is not None])
        self.nonprivate_optimizer.step()
        self.nonprivate_optimizer.zero_grad(set_to_none=True)
        self.curve.add("public", loss_sum, len(rows))
        at.num_plain_steps += 1

    def _private_step(self) -> None:
        at, engine = self.at, self.engine
        assert engine is not None  # noqa: S101  # there are private steps, so it was made
        if at.num_private_steps >= self.next_check:
            self.compare_again()
        rng = self.randomness(at.num_private_steps)
        rows = self.own_private_rows[poisson_sample(len(self.own_private_rows), self.plan.sample_rate, rng)]
        rows = rows[self.private_examples.num_targets[rows] > 0]  # the others' gradients are zero
        rows = rows[np.argsort(self.private_examples.ids.lengths[rows], kind="stable")]  # less padding; a sum has no order
        loss_sum = 0.0
        for part in physical_batches(rows, self.microbatch_size):
            with engine.recording(len(part)):
                losses = self.losses(self.model, self._collate(part))
            try:
                engine.backward(losses)
            except NotFiniteError:
                raise diverged("a private step") from None
            loss_sum += float(losses.detach().sum())
        loss_sum, count = self.ranks.totals([loss_sum, len(rows)], self.device)
        self.curve.add("private", loss_sum, int(count))
        noisy_step(
            self.private_optimizer,
            engine,
            noise_multiplier=self.recipe.noise_multiplier,
            expected_batch_size=self.plan.expected_batch_size,
            rng=rng,
            ranks=self.ranks,
        )
        at.num_private_steps += 1


def _optimizer(
    recipe: StepSettings, parameters: list[torch.nn.Parameter], learning_rate: float
) -> torch.optim.Optimizer:
    if recipe.optimizer == "sgd":
        return torch.optim.SGD(parameters, lr=learning_rate)
    # No weight decay: a decay on embeddings of rare tokens forgets what few examples taught.
    return torch.optim.AdamW(parameters, lr=learning_rate, weight_decay=0.0)
