"""What one example does to a sum in float32: terms that cancel, terms that underflow, uses that cancel each other."""

import pytest
import torch
from engine_models import Mean, TinyLM, compare, gpt2, seeded, smooth_losses
from oracles import dp_gradients
from torch import nn

from pipelines.dp import gradients
from pipelines.dp.cancellation import cancelling
from pipelines.dp.gradients import GradientEngine
from pipelines.dp.head import fused_losses
from pipelines.dp.language import causal_lm_losses
from pipelines.dp.products import full_products
from pipelines.dp.uses import MemoryBudget

MODES = ["book_keeping", "two_pass"]
BUDGETS = [MemoryBudget(), MemoryBudget(working_bytes=1, kept_bytes=0)]


def sums_of(model, losses_of, places, max_grad_norm=1.0, **settings):
    """The clipped sum over the examples at these places, as one vector in float64, and what the engine says of them."""
    engine = GradientEngine(model, max_grad_norm=max_grad_norm, **settings)
    try:
        with engine.recording(len(places)):
            losses = losses_of(model, places)
        found = engine.backward(losses)
        return torch.cat([total.double().flatten() for total in engine.take_sums()]), found
    finally:
        engine.detach()


def moved(model, losses_of, size, **settings):
    """How far the last of ``size`` examples moves the sum: beside a batch of equal size, which kernels round alike."""
    last = torch.arange(size) == size - 1
    whole, _ = sums_of(model, losses_of, list(range(size)), **settings)
    rest, _ = sums_of(model, lambda net, at: losses_of(net, at) * ~last[at], list(range(size)), **settings)
    return float((whole - rest).norm())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize(("length", "width"), [(2, 64), (64, 8), (8, 256)])
def test_an_example_whose_terms_cancel_moves_nothing(length, width, mode, budget):
    """Guards the bound C: an example of norm 0 wiped out what all others had added, 255 C."""
    size = 64
    model = nn.Linear(width, width, bias=False)
    nn.init.zeros_(model.weight)
    for large in (1e4, 1e6, 1e8, 1e12):
        targets = torch.full((size, length, width), 5.0)
        targets[-1, 0::2], targets[-1, 1::2] = large, -large

        def losses(net, places, targets=targets):
            return (net(torch.ones(len(places), length, width)) - targets[places]).square().mean((1, 2))

        assert moved(model, losses, size, mode=mode, budget=budget) <= 1e-6


def given_terms(inputs, outputs):
    """Losses of a linear layer whose gradient is the sum of outputs times inputs over positions."""
    return lambda net, places: (net(inputs[places]) * outputs[places]).sum((1, 2))


def nearly_cancelling(length, width, share):
    """Terms of magnitude 1, of which about ``share`` is left: half of the positions take back what the others give."""
    signs = torch.ones(length, 1)
    signs[length // 2 :] = -1
    inputs = torch.randn(width).expand(length, width) * (1 + share * torch.randn(length, 1))
    outputs = signs * torch.randn(width)
    return inputs, outputs / (inputs.norm(dim=1) * outputs.norm(dim=1)).sum()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("length", "width"),
    [(2, 64), (128, 256), (128, 100), pytest.param(512, 400, marks=pytest.mark.slow)],  # from 128, 100 on without Grams
)
def test_no_example_moves_a_sum_by_more_than_the_bound(length, width, mode):
    """Guards C (1 + 1e-4) on both sides of the limit on magnitudes, and the factors of examples added in float64."""
    with seeded(length):
        inputs, outputs = torch.randn(8, length, width), torch.randn(8, length, width) / length
        model = nn.Linear(width, width, bias=False)
        rest, _ = sums_of(model, given_terms(inputs, outputs), list(range(7)), mode=mode)
        for share in (1e-1, 1e-2, 1e-3, 1e-6):
            own, given = nearly_cancelling(length, width, share)
            for magnitude in (1.0, 100.0, 127.0, 1e4, 1e8):
                inputs[-1], outputs[-1] = own, given * magnitude
                whole, _ = sums_of(model, given_terms(inputs, outputs), list(range(8)), mode=mode)
                assert float((whole - rest).norm()) <= 1 + 1e-4


@pytest.mark.parametrize("mode", MODES)
def test_an_example_that_is_added_in_float64_is_exact(mode):
    """Guards utility: what is left where terms cancel is clipped and added as any other gradient."""
    with seeded(3):
        inputs, outputs = torch.randn(5, 6, 40), torch.randn(5, 6, 40)
        for at, (share, magnitude) in enumerate([(1e-5, 1e6), (1e-5, 1e3), (1e-3, 1e7)]):
            inputs[at], outputs[at] = nearly_cancelling(6, 40, share)
            outputs[at] *= magnitude
        model = nn.Linear(40, 40, bias=False)
    exact = torch.einsum("btr,btc->brc", outputs.double(), inputs.double())
    norms, limit = exact.norm(dim=(1, 2)), dp_gradients.limit(1)
    for budget in BUDGETS:
        found, clipped = sums_of(model, given_terms(inputs, outputs), list(range(5)), mode=mode, budget=budget)
        expected = (exact * (limit / norms.clamp(min=limit))[:, None, None]).sum(0).flatten()
        assert float((found - expected).norm() / expected.norm()) < 1e-5
        assert torch.allclose(clipped.norms, norms, rtol=1e-5)
        assert torch.equal(clipped.factors < 1, norms > 1)


class Opposite(nn.Module):
    """One layer, used twice with opposite signs: each use has a bias and a weight gradient, and their sum is 0."""

    def __init__(self):
        super().__init__()
        self.embedding, self.layer, self.norm = nn.Embedding(9, 16), nn.Linear(16, 16), nn.LayerNorm(16)
        nn.init.zeros_(self.layer.weight)

    def losses(self, ids, large):
        hidden = self.embedding(ids)
        first, second = self.layer(hidden), self.layer(hidden)
        usual = (self.norm(hidden) + first - 5).square().mean((1, 2))
        signs = torch.tensor([1.0, -1.0]).repeat(ids.shape[1] // 2)[:, None]
        repeated = (hidden * signs).sum((1, 2))  # ids that stand twice in a row: their rows cancel
        return usual * (large == 0) + large * ((first - second).sum((1, 2)) + repeated)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("large", [2.0**17, 2.0**33])
def test_uses_and_tokens_that_cancel_each_other_move_nothing(mode, large):
    """Guards shared layers, biases and embeddings: in two passes each use is added by itself.

    The bound is 2**-89 of the clipping norm. It follows from three facts, whatever the order in which kernels add:
        * hidden states are multiples of 1/8 below 4, and ``large`` is a power of two. So each term of the last example
          is a multiple of large / 8 below 4 large, that is below 2**5 such multiples. There are at most 16 terms in an
          entry (8 positions, 2 uses), so every partial sum is below 2**9 multiples: exact in float32 and float64. The
          last example adds exactly 0.
        * both batches have 32 examples, so the same kernels round the sum of the other 31 in the same way.
        * the last example of the other batch has the scale 2**-100, so its terms are below 2**-98. They change no
          float32 sum above 2**-73. In entries to which the other examples add exactly 0, they leave at most 16 terms
          each: over the model's 448 numbers a norm below 16 * sqrt(448) * 2**-98 < 2**-89.
    """
    with seeded(2):
        model = Opposite()
        ids = torch.randint(0, 9, (32, 4)).repeat_interleave(2, dim=1)
    with torch.no_grad():
        model.embedding.weight.mul_(8).round_().div_(8).clamp_(-3.875, 3.875)

    def summed(scale):
        scales = torch.zeros(32)
        scales[-1] = scale
        return sums_of(model, lambda net, at: net.losses(ids[at], scales[at]), list(range(32)), mode=mode)[0]

    assert float((summed(large) - summed(2.0**-100)).norm()) <= 2.0**-89


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("budget", BUDGETS)
def test_a_fused_head_bounds_terms_that_cancel(mode, tied, budget):
    """Guards the head, which holds hidden states in place of logits, and its embedding."""
    with seeded(2):
        model = TinyLM(tied=tied)
        hidden = torch.randn(24, 1, 6).expand(24, 4, 6).contiguous()
        labels = torch.randint(0, 11, (24, 1)).expand(24, 4)
    weights = torch.full((24, 4), 0.25)
    weights[-1] = torch.tensor([1e9, -1e9, 1e9, -1e9])
    for parameter in model.lstm.parameters():
        parameter.requires_grad_(False)

    def losses(net, at):
        zero = 0 * net.embedding(labels[at]).sum((1, 2))
        return fused_losses(hidden[at], net.head, labels[at], weights[at]) + zero

    assert moved(model, losses, 24, mode=mode, budget=budget) <= 1 + 1e-6


@pytest.mark.parametrize("mode", MODES)
def test_products_that_underflow_are_no_norm_of_zero(mode):
    """Guards squares below 1e-38: inputs of 1e15 and gradients of 1e-23 had norm 0 and moved a sum by 1,400 C."""
    model = nn.Linear(512, 512, bias=False)
    inputs = torch.full((3, 64, 512), 1e15 / 512**0.5)
    found, clipped = sums_of(
        model, lambda net, at: (net(inputs[at]) * 1e-23).sum((1, 2)), [0, 1, 2], max_grad_norm=1e-8, mode=mode
    )
    assert float(found.norm()) <= 3e-8 * (1 + 1e-6)
    assert float(clipped.norms.min()) > 1e-5


@pytest.mark.parametrize("mode", MODES)
def test_ordinary_examples_stay_in_the_sum_of_the_batch(mode, patch):
    """Guards speed: an example that is added in float64 costs an instantiated gradient."""
    found = []

    def watched(*arguments):
        found.append(cancelling(*arguments))
        return found[-1]

    patch(gradients, "cancelling", watched)
    with seeded(1):
        model, ids = gpt2(vocab=40, width=32, positions=64), torch.randint(0, 40, (6, 64))
    for bound in (1e-6, 0.1, 100.0):
        sums_of(model, lambda net, at: causal_lm_losses(net, ids[at], ids[at]), list(range(6)), bound, mode=mode)
    assert len(found) == 3
    assert not torch.stack(found).any()


def test_magnitudes_that_are_not_finite_need_float64():
    """Guards magnitudes that overflowed: nothing is known of their terms."""
    magnitudes = torch.tensor([1.0, float("inf"), float("nan"), 129.0])
    assert cancelling(magnitudes, 1.0, torch.float32).tolist() == [False, True, True, True]


@pytest.mark.parametrize("mode", MODES)
def test_products_of_reduced_precision_that_the_process_asked_for_are_not_the_engines(mode):
    """Guards C (1 + 1e-6): with factors rounded to bfloat16 a share was 1e-4 above C, on CPUs and GPUs that can."""
    with seeded(1):
        model = Mean(nn.Sequential(nn.Linear(64, 300), nn.Tanh(), nn.Linear(300, 128)))
        x = torch.randn(4, 90, 64)
    torch.set_float32_matmul_precision("medium")
    try:
        found = compare(model, lambda net, b: smooth_losses(net, b["x"]), {"x": x}, dtype=torch.float32, mode=mode)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")
    assert found.is_exact


@pytest.mark.parametrize("precision", ["highest", "high", "medium"])
def test_precision_is_full_inside_and_as_it_was_outside(precision):
    def state():
        return torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32

    torch.set_float32_matmul_precision(precision)
    try:
        before = state()
        with full_products():
            assert state() == ("highest", False)
        assert state() == before
    finally:
        torch.set_float32_matmul_precision("highest")
