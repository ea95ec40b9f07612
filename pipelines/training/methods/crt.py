"""CRT: confidentially redacted training (Zhao, Li & Wang 2022, Algorithm 1, lines 5 to 8).

Each epoch is one pass of AdamW over the public records, then an expected epoch of DP-AdamW over the redacted private
records. A minibatch is wholly public or wholly private (appendix A.5, item 6). The two phases keep an optimizer each,
so that the large moments of noisy gradients do not slow the public pass, nor the reverse; both are post-processing
of what the accountant counts, and cost no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch

from pipelines.training.checkpoint import Checkpoints
from pipelines.training.divergence import diverged
from pipelines.training.engine.errors import LossError
from pipelines.training.engine.gradients import GradientEngine
from pipelines.training.engine.optimizer import noisy_step
from pipelines.training.engine.sampling import PrivatePlan, physical_batches, plan_private_steps, poisson_sample
from pipelines.training.evaluation import Evaluation
from pipelines.training.model import example_losses
from pipelines.training.randomness import PrivateRandomness
from pipelines.training.records import IntArray, Records, collate


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What a CRT run does.

    Attributes:
        epochs: passes over public and private records.
        public_learning_rate: of AdamW on public minibatches.
        private_learning_rate: of AdamW on noisy private sums.
        public_batch_size: records in a public minibatch.
        max_grad_norm: Euclidean norm that one private record's gradient is clipped to.
        noise_multiplier: noise standard deviation over ``max_grad_norm``.
        seed: of the order of public minibatches; public.
    """

    epochs: int
    public_learning_rate: float
    private_learning_rate: float
    public_batch_size: int
    max_grad_norm: float
    noise_multiplier: float
    seed: int


@dataclass
class _Progress:
    """Where a run is. ``position`` counts minibatches or steps done in the phase."""

    epoch: int = 0
    phase: str = "public"
    position: int = 0
    num_private_steps: int = 0
    public_loss_sum: float = 0.0
    private_loss_sum: float = 0.0
    num_public: int = 0
    num_private: int = 0
    curve: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a run did.

    Attributes:
        num_steps: private steps that the released weights went through.
        curve: for each epoch, mean training losses and the held-out evaluation. Private.
        was_resumed: whether it went on from a checkpoint.
    """

    num_steps: int
    curve: list[dict[str, Any]]
    was_resumed: bool


def plan(num_private_records: int, expected_batch_size: int, epochs: int) -> PrivatePlan:
    """The private steps of the whole run."""
    return plan_private_steps(num_private_records, expected_batch_size, epochs)


def event(private_plan: PrivatePlan, noise_multiplier: float | None) -> dict[str, Any]:
    """What the accountant has to know: the mechanism that touched private records, as JSON values."""
    if private_plan.num_steps == 0 or noise_multiplier is None:
        return {"type": "none"}
    gaussian = {"type": "gaussian", "noise_multiplier": noise_multiplier}
    step = {"type": "poisson_sampled", "sample_rate": private_plan.sample_rate, "event": gaussian}
    return {"type": "self_composed", "count": private_plan.num_steps, "event": step}


def train(
    model: torch.nn.Module,
    public: Records,
    private: Records,
    recipe: Recipe,
    private_plan: PrivatePlan,
    *,
    randomness: PrivateRandomness,
    checkpoints: Checkpoints,
    evaluate: Callable[[torch.nn.Module], Evaluation],
    microbatch_size: int,
    progress: Callable[[int, int | None, str], None],
) -> Outcome:
    """Trains ``model`` in place.

    A run that was killed goes on from its last checkpoint with fresh samples and fresh noise. Steps that were done
    after that checkpoint are lost unseen: they entered neither a checkpoint that was used nor anything published, so
    the released weights went through exactly ``private_plan.num_steps`` noisy steps. This needs the interruption to
    be independent of the lost noise (nobody looked at the lost weights and then pulled the plug).

    Args:
        model: the model to train.
        public: public records in the order of their content hash.
        private: private records.
        recipe: what to do.
        private_plan: rate and number of private steps, fixed beforehand.
        randomness: the generator of each private step.
        checkpoints: where to keep state.
        evaluate: scores the model after each epoch.
        microbatch_size: private examples that the model sees at once; no influence on the result.
        progress: told how many minibatches are done.

    Raises:
        StageError: the loss or a gradient is not a finite number.
    """
    run = _Run(model, public, private, recipe, private_plan, randomness, microbatch_size)
    was_resumed = run.restore(checkpoints.load())
    if checkpoints.is_unusable:
        progress(0, None, "the checkpoint is damaged or of another run: training starts again")
    try:
        run.follow(checkpoints, evaluate, progress)
    finally:
        run.engine.detach()
    return Outcome(num_steps=run.at.num_private_steps, curve=run.at.curve, was_resumed=was_resumed)


class _Run:
    def __init__(
        self,
        model: torch.nn.Module,
        public: Records,
        private: Records,
        recipe: Recipe,
        private_plan: PrivatePlan,
        randomness: PrivateRandomness,
        microbatch_size: int,
    ) -> None:
        self.model = model
        self.public = public
        self.private = private
        self.recipe = recipe
        self.plan = private_plan
        self.randomness = randomness
        self.engine = GradientEngine(model, max_grad_norm=recipe.max_grad_norm)
        self.microbatch_size = microbatch_size
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.public_optimizer = _adamw(self.parameters, recipe.public_learning_rate)
        self.private_optimizer = _adamw(self.parameters, recipe.private_learning_rate)
        self.num_public_batches = math.ceil(len(public) / recipe.public_batch_size)
        self.at = _Progress()

    def state(self) -> dict[str, Any]:
        return {
            "model": self.model.state_dict(),
            "public_optimizer": self.public_optimizer.state_dict(),
            "private_optimizer": self.private_optimizer.state_dict(),
            "progress": asdict(self.at),
        }

    def restore(self, state: dict[str, Any] | None) -> bool:
        if state is None:
            return False
        self.model.load_state_dict(state["model"])
        self.public_optimizer.load_state_dict(state["public_optimizer"])
        self.private_optimizer.load_state_dict(state["private_optimizer"])
        self.at = _Progress(**state["progress"])
        return True

    def follow(
        self,
        checkpoints: Checkpoints,
        evaluate: Callable[[torch.nn.Module], Evaluation],
        progress: Callable[[int, int | None, str], None],
    ) -> None:
        at = self.at
        per_epoch = self.num_public_batches + self.plan.steps_per_epoch
        total = per_epoch * self.recipe.epochs

        def done() -> int:
            before = 0 if at.phase == "public" else self.num_public_batches
            return at.epoch * per_epoch + before + at.position

        while at.epoch < self.recipe.epochs:
            message = f"epoch {at.epoch + 1} of {self.recipe.epochs}"
            if at.phase == "public":
                order = self._public_order(at.epoch)
                while at.position < self.num_public_batches:
                    self._public_batch(order)
                    checkpoints.save_if_due(self.state)
                    progress(done(), total, message)
                at.phase, at.position = "private", 0
                checkpoints.save(self.state())
            while at.position < self.plan.steps_per_epoch:
                self._private_step()
                checkpoints.save_if_due(self.state)
                progress(done(), total, message)
            self._end_epoch(evaluate(self.model))
            checkpoints.save(self.state())

    def _public_order(self, epoch: int) -> IntArray:
        return np.random.default_rng([self.recipe.seed, epoch]).permutation(len(self.public))

    def _public_batch(self, order: IntArray) -> None:
        at, size = self.at, self.recipe.public_batch_size
        rows = order[at.position * size : (at.position + 1) * size]
        first = self.parameters[0]
        losses = example_losses(self.model, collate(self.public, rows).to(first.device, first.dtype))
        loss = losses.mean()
        value = float(loss.detach())
        if not math.isfinite(value):
            raise diverged(f"the public pass of epoch {at.epoch + 1}")
        loss.backward()  # type: ignore[no-untyped-call]
        self.public_optimizer.step()
        self.public_optimizer.zero_grad(set_to_none=True)
        at.public_loss_sum += value * len(rows)
        at.num_public += len(rows)
        at.position += 1

    def _private_step(self) -> None:
        at = self.at
        rng = self.randomness(at.num_private_steps)
        rows = poisson_sample(len(self.private), self.plan.sample_rate, rng)
        rows = rows[self.private.num_targets[rows] > 0]  # the others' gradients are zero
        rows = rows[np.argsort(self.private.ids.lengths[rows], kind="stable")]  # less padding; a sum has no order
        first = self.parameters[0]
        for part in physical_batches(rows, self.microbatch_size):
            batch = collate(self.private, part).to(first.device, first.dtype)
            with self.engine.recording(len(part)):
                losses = example_losses(self.model, batch)
            try:
                self.engine.backward(losses)
            except LossError:
                raise diverged("a private step") from None
            at.private_loss_sum += float(losses.detach().sum())
            at.num_private += len(part)
        noisy_step(
            self.private_optimizer,
            self.engine,
            noise_multiplier=self.recipe.noise_multiplier,
            expected_batch_size=self.plan.expected_batch_size,
            rng=rng,
        )
        at.position += 1
        at.num_private_steps += 1

    def _end_epoch(self, evaluation: Evaluation) -> None:
        at = self.at
        at.curve.append(
            {
                "epoch": at.epoch + 1,
                "public_loss": at.public_loss_sum / at.num_public if at.num_public else None,
                "private_loss": at.private_loss_sum / at.num_private if at.num_private else None,
                "evaluation": evaluation.as_json(),
            }
        )
        at.epoch, at.phase, at.position = at.epoch + 1, "public", 0
        at.public_loss_sum = at.private_loss_sum = 0.0
        at.num_public = at.num_private = 0


def _adamw(parameters: list[torch.nn.Parameter], learning_rate: float) -> torch.optim.AdamW:
    # No weight decay: a decay on embeddings of rare tokens forgets what few examples taught.
    return torch.optim.AdamW(parameters, lr=learning_rate, weight_decay=0.0)
