"""The parts of a DP-SGD step: how many, who is drawn, what each example may contribute, and the noise.

Formal guarantees (Abadi et al. 2016, Algorithm 1, with true Poisson sampling):
    * each record enters a step on its own with probability ``sample_rate``;
    * its contribution to the summed gradient has Euclidean norm at most ``max_grad_norm`` (1 + 1e-6) in float32;
    * Gaussian noise of standard deviation ``noise_multiplier * max_grad_norm`` is added to every coordinate, once a
      step, also when the sample is empty;
    * the sum is divided by the *expected* batch size, which does not depend on the sample.
Replacing a record moves the sum by up to twice the norm. The accountant's ``replace_one`` relation doubles the
sensitivity itself, so the noise here is in units of one norm.

Public versus private: the rate and the number of steps derive from the number of private records, which is equal in
neighbouring data sets where one record is *replaced* (design, section 5, "Shard"). Sample sizes, losses and norms are
private and reach nothing that is published.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from pipelines.errors import StageError
from pipelines.training.model import token_losses
from pipelines.training.records import IntArray, Records, collate


@dataclass(frozen=True, kw_only=True)
class PrivatePlan:
    """The private steps of a run, fixed before it starts.

    Attributes:
        sample_rate: probability with which each record enters a step.
        expected_batch_size: records in an average step, ``sample_rate * num_records``; divides the noisy sum.
        steps_per_epoch: steps in which ``num_records`` records are drawn on average (CRT, footnote 2).
        num_steps: steps of the whole run.
    """

    sample_rate: float
    expected_batch_size: float
    steps_per_epoch: int
    num_steps: int


def plan_private_steps(num_records: int, expected_batch_size: int, epochs: int) -> PrivatePlan:
    """Fixes rate and number of steps. No records, no steps; fewer records than the batch, all of them each step."""
    if num_records == 0:
        return PrivatePlan(sample_rate=0.0, expected_batch_size=0.0, steps_per_epoch=0, num_steps=0)
    rate = min(1.0, expected_batch_size / num_records)
    steps = max(1, round(1 / rate))
    return PrivatePlan(
        sample_rate=rate, expected_batch_size=rate * num_records, steps_per_epoch=steps, num_steps=steps * epochs
    )


def poisson_sample(num_records: int, sample_rate: float, rng: np.random.Generator) -> IntArray:
    """The numbers of the records that enter a step: each on its own with probability ``sample_rate``."""
    return np.flatnonzero(rng.random(num_records) < sample_rate)


@dataclass(frozen=True)
class ClippedSum:
    """The outcome of a private batch, before noise.

    Attributes:
        gradients: for each trainable parameter, the sum of the clipped per-example gradients.
        losses: (n,) the losses of the examples that have targets.
        norms: (n,) their gradient norms before clipping, float64.
    """

    gradients: list[torch.Tensor]
    losses: torch.Tensor
    norms: torch.Tensor


class PerExampleClipper:
    """Sums clipped per-example gradients, a microbatch at a time.

    The gradients of a microbatch are instantiated with ``torch.func.vmap``: memory is ``microbatch_size`` times the
    model's. Sharing one parameter between layers (tied embeddings) is exact, because each example's whole gradient is
    taken, not one layer's at a time.

    Edge cases: a zero gradient stays zero; an example without targets contributes exactly nothing and is not
    computed; a gradient that is not finite raises, and no update is made.
    """

    def __init__(self, model: torch.nn.Module, max_grad_norm: float, microbatch_size: int) -> None:
        self._model = model
        self._max_grad_norm = max_grad_norm
        self._microbatch_size = microbatch_size
        self._names = [name for name, p in model.named_parameters() if p.requires_grad]
        gradient = torch.func.grad_and_value(self._loss)
        self._gradients = torch.func.vmap(gradient, in_dims=(None, 0, 0, 0))

    def _loss(
        self, parameters: dict[str, torch.Tensor], inputs: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor
    ) -> torch.Tensor:
        # One example: inputs, labels, weights are (T,).
        output: Any = torch.func.functional_call(
            self._model, parameters, (), {"input_ids": inputs[None], "use_cache": False}
        )
        return (token_losses(output.logits[0], labels) * weights).sum()

    def __call__(self, records: Records, rows: IntArray) -> ClippedSum:
        """The clipped sum over the chosen records.

        Raises:
            StageError: the gradient of an example is not finite.
        """
        named = dict(self._model.named_parameters())
        parameters = {name: named[name].detach() for name in self._names}
        device, dtype = next(iter(parameters.values())).device, next(iter(parameters.values())).dtype
        total = [torch.zeros_like(parameters[name]) for name in self._names]
        losses: list[torch.Tensor] = []
        norms: list[torch.Tensor] = []
        rows = rows[records.num_targets[rows] > 0]
        rows = rows[np.argsort(records.ids.lengths[rows], kind="stable")]  # less padding; a sum has no order
        for start in range(0, len(rows), self._microbatch_size):
            batch = collate(records, rows[start : start + self._microbatch_size]).to(device, dtype)
            found, loss = self._gradients(parameters, batch.inputs, batch.labels, batch.weights)
            norm = self._add_clipped(total, [found[name] for name in self._names])
            losses.append(loss.detach())
            norms.append(norm)
        empty = torch.zeros(0, dtype=torch.float64)
        return ClippedSum(total, torch.cat(losses) if losses else empty, torch.cat(norms) if norms else empty)

    def _add_clipped(self, total: list[torch.Tensor], gradients: list[torch.Tensor]) -> torch.Tensor:
        # gradients: one (B, *shape) tensor for each parameter. Norms of tensors are joined in float64, so that the
        # bound holds to 1e-6 for any number of parameters.
        squares = [torch.linalg.vector_norm(g.flatten(1), dim=1).double() ** 2 for g in gradients]
        norms = torch.stack(squares).sum(dim=0).sqrt()  # (B,)
        if not bool(torch.isfinite(norms).all()):
            raise diverged("a private step")
        factors = (self._max_grad_norm / norms.clamp(min=self._max_grad_norm)).to(gradients[0].dtype)
        for into, gradient in zip(total, gradients, strict=True):
            into += (factors @ gradient.flatten(1)).view_as(into)
        return norms


def diverged(where: str) -> StageError:
    """The error for a loss or gradient that is not finite."""
    return StageError(
        f"training diverged: the loss or a gradient is not a finite number in {where}. Lower "
        "train.public_learning_rate or train.private_learning_rate, or take a smaller model, and run again."
    )


def add_noise(sums: Sequence[torch.Tensor], standard_deviation: float, rng: np.random.Generator) -> None:
    """Adds independent Gaussian noise to every coordinate, in place. Called exactly once a step."""
    for tensor in sums:
        noise = torch.from_numpy(rng.standard_normal(tuple(tensor.shape), dtype=np.float32))
        tensor.add_(noise.to(tensor.device, tensor.dtype), alpha=standard_deviation)
