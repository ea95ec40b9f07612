"""The noisy step of DP-SGD: noise on the clipped sums, and the step of any optimizer of torch on what results."""

from __future__ import annotations

import numpy as np
import torch

from pipelines.dp.clipping import AdaptiveClipping
from pipelines.dp.gradients import GradientEngine
from pipelines.dp.noise import add_noise
from pipelines.dp.ranks import ALONE, Ranks


def noisy_step(
    optimizer: torch.optim.Optimizer,
    engine: GradientEngine,
    *,
    noise_multiplier: float,
    expected_batch_size: float,
    rng: np.random.Generator,
    ranks: Ranks = ALONE,
    adaptive: AdaptiveClipping | None = None,
) -> None:
    """Takes a step on the engine's sums: adds noise, divides by the expected batch size, and runs the optimizer's step.

    Formal guarantees (Abadi et al. 2016, Algorithm 1): Gaussian noise of standard deviation
    ``noise_multiplier * max_grad_norm`` is added to every coordinate exactly once, whatever was added up, and the
    divisor does not depend on the sample. Weight decay, momentum and moments are post-processing.

    Args:
        optimizer: optimizer of the engine's trainable parameters.
        engine: engine whose sums are taken, and added up over all processes.
        noise_multiplier: noise standard deviation over the engine's max_grad_norm.
        expected_batch_size: number of records in an average step, over all processes.
        rng: generator of the noise. Of several processes only the first draws: one draw in total.
        ranks: processes whose sums belong to one step.
        adaptive: settings of an adaptive clipping norm; None: a fixed norm.
    """
    count = torch.tensor([0.0 if adaptive is None else engine.num_within], dtype=torch.float64)
    sums = engine.take_sums()
    if adaptive is not None:
        if ranks.is_first:
            add_noise([count], adaptive.noise_on_count(expected_batch_size) if noise_multiplier else 0.0, rng)
        (total_count,) = ranks.totals(count.tolist(), sums[0].device)
        noise_multiplier = adaptive.noise_on_gradients(noise_multiplier, expected_batch_size)
    deviation = noise_multiplier * engine.max_grad_norm
    if adaptive is not None:
        engine.max_grad_norm = adaptive.next_norm(engine.max_grad_norm, total_count, expected_batch_size)
    if ranks.is_first:
        add_noise(sums, deviation, rng, expected_batch_size)
    else:
        for total in sums:
            total.div_(expected_batch_size)
    ranks.add_up(sums)
    parameters = engine.parameters
    for parameter, total in zip(parameters, sums, strict=True):
        parameter.grad = total.to(parameter.dtype)
    optimizer.step()
    for parameter in parameters:
        parameter.grad = None
