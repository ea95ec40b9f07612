"""Gradients of equal numbers, whose roundings all point the same way: no share may exceed its bound by more than 1e-6.

Norms and sums of the same gradient are added up in other orders. Each could be off in its own direction.
"""

import math

import pytest
import torch
from engine_models import seeded
from torch import nn

from pipelines.dp.gradients import GradientEngine
from pipelines.dp.grams import dense_squares, gram_squares
from pipelines.dp.joining import joint_squares
from pipelines.dp.uses import MemoryBudget, OuterUse, RowsUse

MODES = ["book_keeping", "two_pass"]
SHAPES = [  # positions, outputs and inputs, with what a share could be above its bound before, in a millionth
    (1, 768, 768),  # 5.4
    (8, 768, 768),  # 5.4
    (8, 8_000, 64),  # 55
    (17, 8_000, 64),
    (64, 768, 768),  # 1.8
    (128, 768, 1_024),
    (384, 64, 64),  # 4.8, in two passes
    (512, 128, 128),
    (1_024, 64, 64),  # 1.1
]


def excesses(shape, mode, size, dtype=torch.float32, count=16):
    """Returns by how much shares of one example exceed the bound, for several pairs of equal numbers."""
    length, outputs, inputs = shape
    model, found = nn.Linear(inputs, outputs, bias=False).to(dtype), []
    engine = GradientEngine(model, max_grad_norm=1.0, mode=mode)
    with seeded(1):
        pairs = (torch.rand(count, 2) + 0.5).to(dtype)
    for value, gradient in pairs:
        scales = torch.zeros(size, dtype=dtype)
        scales[size // 2] = gradient
        with engine.recording(size):
            losses = model(value.expand(size, length, inputs).contiguous()).sum((1, 2)) * scales
        engine.backward(losses)
        (total,) = engine.take_sums()
        found.append(math.sqrt(math.fsum(total.double().square().sum(0).tolist())) - 1)
    return found


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_share_of_equal_numbers_stays_within_its_bound(shape, size, mode):
    found = excesses(shape, mode, size)
    assert max(found) <= 1e-6
    assert min(found) >= -2.1e-5


@pytest.mark.parametrize("mode", MODES)
def test_a_share_of_equal_numbers_in_float64_stays_within_its_bound(mode):
    for shape in ((8, 8_000, 64), (384, 64, 64)):
        assert max(excesses(shape, mode, 1, torch.float64, 4)) <= 1e-13


@pytest.mark.parametrize(
    ("length", "width", "bound"),
    [(1, 384, 1e-8), (8, 768, 1e-8), (16, 50_257, 1e-8), (17, 50_257, 5e-6), (64, 768, 3e-6), (128, 4_096, 3e-6)],
)
def test_gram_norms_of_equal_numbers(length, width, bound):
    """The bounds say what is left for `clipping._SLACK` to absorb."""
    with seeded(1):
        values = torch.rand(8, 1, 1) + 0.5
    rows, columns = values.expand(8, length, width).contiguous(), values.expand(8, length, 24).contiguous()
    exact = dense_squares(torch.bmm(rows[:, :, :48].double().transpose(1, 2), columns.double())) * width / 48
    squares, terms, _ = gram_squares(rows, columns)
    assert ((squares / exact).sqrt() - 1).abs().max() <= bound
    assert torch.allclose(terms * length, squares, rtol=1e-5)


def test_the_cross_term_of_a_short_example_has_no_chain_of_equal_numbers():
    ids, values = torch.zeros(1, 8, dtype=torch.int64), torch.full((1, 8, 8_192), 0.53)
    head, embedding = OuterUse(torch.full((1, 8, 3), -0.7), values), RowsUse(ids, values, 3)
    exact = dense_squares(
        head.instantiate(0, 1, dtype=torch.float64) + embedding.instantiate(0, 1, dtype=torch.float64)
    )
    found = joint_squares([head, embedding], 3 * 8_192, MemoryBudget()).norms
    assert float((found / exact).sqrt() - 1) == pytest.approx(0, abs=1e-6)
