"""What runs on a GPU's tensor cores, on a CPU: the same code with products of widened numbers."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from engine_models import Mean, compare, gpt2, seeded, smooth_losses
from oracles import dp_gradients
from scipy import stats
from torch import nn

from pipelines.dp import head, noise, tensor_cores
from pipelines.dp.gradients import GradientEngine
from pipelines.dp.language import causal_lm_losses
from pipelines.dp.uses import MemoryBudget

BUDGETS = [MemoryBudget(working_bytes=1, kept_bytes=0), MemoryBudget(working_bytes=40_000, kept_bytes=20_000)]


def is_bfloat16(values):
    return values.dtype == torch.bfloat16


@pytest.fixture
def reduced(patch):
    """Takes bfloat16 on a CPU as on a GPU, at any length."""
    patch(tensor_cores, "takes", is_bfloat16)
    patch.constant(tensor_cores, "LEAST_LENGTH", 1)


def token_batch(size=5, length=9, vocab=61):
    with seeded(3):
        ids = torch.randint(0, vocab, (size, length))
    labels = ids.roll(-1, 1)
    labels[1, 4:] = -100
    labels[2] = -100
    return {"ids": ids, "labels": labels, "weight": torch.linspace(0.5, 2, size)}


@pytest.mark.parametrize("mode", ["book_keeping", "two_pass"])
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("tied", [True, False])
def test_a_language_model_is_exact(reduced, patch, tied, budget, mode):
    patch(head, "takes", is_bfloat16)
    with seeded(0):  # with some models, bfloat16 rounds as much as a wrong bound changes
        model = gpt2(vocab=61, width=16, tied=tied)
    found = compare(
        model, losses_of, token_batch(), dtype=torch.float32, autocast=torch.bfloat16, budget=budget, mode=mode,
    )  # fmt: skip
    assert found.is_exact
    assert found.wrong_bound_error > found.tolerance


def losses_of(model, batch):
    return causal_lm_losses(model, batch["ids"], batch["labels"])


def weighted(model, batch):
    """Losses whose gradients differ between examples."""
    return losses_of(model, batch) * batch["weight"]


@pytest.mark.parametrize("tied", [True, False])
def test_losses_of_unequal_weight_are_exact(reduced, patch, tied):
    patch(head, "takes", is_bfloat16)
    model = gpt2(vocab=61, width=16, tied=tied)
    given = {"dtype": torch.float32, "autocast": torch.bfloat16, "budget": BUDGETS[1]}
    assert compare(model, weighted, token_batch(), **given).is_exact


@pytest.mark.parametrize("frozen", [True, False])
def test_ordinary_training_through_the_head(patch, frozen):
    patch(head, "takes", is_bfloat16)
    model = gpt2(vocab=61, width=16, tied=False)
    model.lm_head.requires_grad_(not frozen)
    batch = token_batch()
    for losses in (losses_of, weighted):
        found = []
        for dtype in (torch.bfloat16, torch.float32):
            model.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
                losses(model, batch).mean().backward()
            found.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))
        assert (found[0] - found[1]).norm() < 0.05 * found[1].norm()


@pytest.mark.parametrize("mode", ["book_keeping", "two_pass"])
def test_the_norm_is_that_of_the_values_that_are_added(reduced, patch, mode):
    """Even if a product rounds differently for another number of examples, here much more than any processor does."""

    def wide_bmm(left, right, out=None):
        return torch.bmm(left.float(), right.float(), out=out).mul_(1 + 1e-3 * len(left))

    patch(tensor_cores, "wide_bmm", wide_bmm)
    patch.constant(tensor_cores, "_GROUP_BYTES", 4 * 8 * 6 * 2)
    with seeded(1):
        model = Mean(nn.Linear(8, 6))
        x = torch.randn(6, 5, 8)
    engine = GradientEngine(model, max_grad_norm=1e-3, mode=mode)
    with engine.recording(), torch.autocast("cpu", dtype=torch.bfloat16):
        losses = smooth_losses(model, x) * torch.tensor([1.0, 0, 0, 0, 0, 0])
    engine.backward(losses)
    share = torch.cat([total.flatten() for total in engine.take_sums()]).norm()
    assert dp_gradients.limit(1e-3) * (1 - 1e-5) < share <= 1e-3 * (1 + 1e-6)


def drawn(tensors, seed=5):
    noise._add_on_device(tensors, 1.0, torch.tensor([seed, seed + 1]).numpy().astype("uint64"))
    return tensors


def test_two_devices_draw_different_noise(patch):
    keys = []
    patch(noise, "_add_on_device", lambda tensors, deviation, key: keys.append((len(tensors), tuple(key))))
    patch(torch, "_foreach_div_", lambda tensors, divisor: None)
    tensors = [SimpleNamespace(device=torch.device("cuda", number)) for number in (0, 1, 0)]
    noise.add_noise(tensors, 1.0, np.random.default_rng(0), 2.0)
    assert [count for count, _ in keys] == [2, 1]
    assert keys[0][1] != keys[1][1]


def test_noise_of_a_device_is_normal_and_independent_between_tensors_and_draws(patch):
    patch.constant(noise, "_DRAW", 40_000)
    kinds = [torch.float32, torch.float32, torch.float64, torch.float32]
    tensors = drawn([torch.zeros(200, 100, dtype=kind) for kind in kinds])
    flat = [tensor.double().flatten() for tensor in tensors]
    for values in flat:
        assert stats.kstest(values.numpy(), "norm").pvalue > 1e-4
    assert stats.kstest(torch.cat(flat).numpy() * 1.05, "norm").pvalue < 1e-4  # a wrong deviation is seen
    correlations = torch.corrcoef(torch.stack(flat)) - torch.eye(4)
    assert correlations.abs().max() < 5 / 20_000**0.5
    assert not torch.equal(drawn([torch.zeros(8)], 5)[0], drawn([torch.zeros(8)], 6)[0])
