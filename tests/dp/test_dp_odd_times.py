"""Programs that freeze parameters, fail, or go on at odd times: no example's share may exceed the bound."""

import contextlib

import pytest
import torch
from engine_models import engine_sums
from oracles import dp_gradients
from torch import nn

from pipelines.dp.errors import IsolationError, NotFiniteError, UnsupportedLayerError
from pipelines.dp.gradients import GradientEngine
from pipelines.dp.grams import dense_squares
from pipelines.dp.head import fused_losses
from pipelines.dp.uses import MemoryBudget

MODES = ["book_keeping", "two_pass"]
CLIPPINGS = ["flat", "automatic", "per_layer"]


class Net(nn.Module):
    """Two layers around a program; the weight of ``read`` is read directly."""

    def __init__(self, program=lambda h: h):
        super().__init__()
        self.first, self.read, self.last = nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 2)
        self.program = program

    def forward(self, x):
        h = self.program(self.first(x))
        return self.last(nn.functional.linear(h, self.read.weight) if self.read.weight.requires_grad else h)


def losses_of(engine, model, x, scale=1e3):
    with engine.recording(len(x)):
        return model(x).square().sum(1) * scale


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("clipping", CLIPPINGS)
@pytest.mark.parametrize("name", ["weight", "bias"])
@pytest.mark.parametrize("is_frozen_first", [True, False])
def test_a_fused_head_may_be_unfrozen_or_frozen_before_the_backward_pass(name, is_frozen_first, clipping, mode):
    torch.manual_seed(3)
    head, ids = nn.Linear(6, 11).double(), torch.randint(0, 11, (1, 5))
    hidden = 100 * torch.randn(1, 5, 6, dtype=torch.float64)
    engine = GradientEngine(nn.Sequential(head), max_grad_norm=0.001, mode=mode, clipping=clipping)
    parameter = getattr(head, name).requires_grad_(not is_frozen_first)
    with engine.recording(1):
        losses = fused_losses(hidden, head, ids)
    parameter.requires_grad_(is_frozen_first)
    engine.backward(losses)
    assert dp_gradients.norm(engine.take_sums()) <= 0.001 * (1 + 1e-12)


class Scaled(nn.Linear):
    """A module without a rule."""

    def __init__(self):
        super().__init__(3, 3)
        self.scale = nn.Parameter(torch.ones(3))

    def forward(self, x):
        return super().forward(x) * self.scale


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["weight", "scale"])
@pytest.mark.parametrize("is_frozen_first", [True, False])
def test_a_module_without_a_rule_may_be_unfrozen_or_frozen_before_the_backward_pass(name, is_frozen_first, mode):
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(3, 3), Scaled())
    engine, parameter = GradientEngine(model, max_grad_norm=0.001, mode=mode), getattr(model[1], name)
    for _ in range(2):
        parameter.requires_grad_(not is_frozen_first)
        losses = losses_of(engine, model, torch.randn(1, 3))
        parameter.requires_grad_(is_frozen_first)
        engine.backward(losses)
        assert dp_gradients.norm(engine.take_sums()) <= 0.001 * (1 + 1e-6)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("parity", [0, 1])
@pytest.mark.parametrize("layer", ["first", "read"])
@pytest.mark.parametrize("budget", [None, MemoryBudget(kept_bytes=0)])
@pytest.mark.filterwarnings("ignore::pipelines.dp.one_by_one.SlowGradientWarning")
def test_a_hook_that_freezes_in_a_backward_pass_is_refused_by_name(budget, layer, parity, mode):
    calls = []

    def frozen_each_other_time(gradient):
        calls.append(gradient)
        if len(calls) > 6:
            getattr(model, layer).weight.requires_grad_(len(calls) % 2 == parity)

    model = Net(lambda h: h.register_hook(frozen_each_other_time) and h)
    model.read.weight.requires_grad_(layer == "read")
    engine, x = GradientEngine(model, max_grad_norm=0.1, mode=mode, budget=budget), torch.randn(2, 3)

    def go_on():
        for _ in range(9):
            engine.backward(losses_of(engine, model, x))
            assert dp_gradients.norm(engine.take_sums()) <= 0.2 * (1 + 1e-6)
            getattr(model, layer).weight.requires_grad_(True)

    with pytest.raises(UnsupportedLayerError, match=rf"'{layer}.weight' was frozen or unfrozen during a backward pass"):
        go_on()
    assert not any(total.any() for total in engine.take_sums())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("at", [1, 2])
def test_a_batch_that_failed_in_the_middle_may_come_again(at, mode):
    """In two passes, the later layers were added already when the second pass fails."""
    calls = []

    def failing(gradient):
        calls.append(gradient)
        if len(calls) == at:
            raise KeyError("of the program")

    model, x = Net(lambda h: h.register_hook(failing) and h), torch.randn(1, 3)
    model.read.requires_grad_(False)
    engine = GradientEngine(model, max_grad_norm=0.1, mode=mode)
    calls += [None] * 9
    engine.backward(losses_of(engine, model, x))
    engine.take_sums()
    for _ in range(3):
        losses = losses_of(engine, model, x)
        calls.clear()
        with contextlib.suppress(KeyError):  # one pass is enough for the mode that keeps books
            engine.backward(losses)
            engine.take_sums()
    calls += [None] * 9
    engine.backward(losses_of(engine, model, x))
    assert dp_gradients.norm(engine.take_sums()) <= 0.1 * (1 + 1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_gradients_that_are_not_finite_count_for_no_trace(mode):
    model, x = Net(lambda h: h - h.mean(0)), torch.randn(4, 3)
    model.read.requires_grad_(False)
    engine = GradientEngine(model, max_grad_norm=1.0, mode=mode)
    for scale, error in ((0.0, NotFiniteError), (1.0, IsolationError)):
        losses = losses_of(engine, model, x, scale).sqrt()  # finite; the root of 0 has no finite gradient
        with pytest.raises(error):
            engine.backward(losses)
    assert not any(total.any() for total in engine.take_sums())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("make", [lambda: nn.Linear(3, 2), lambda: nn.LayerNorm(3), lambda: nn.Linear(3, 2).double()])
def test_per_layer_clipping_of_layers_whose_gradients_are_kept_whole(make, mode):
    torch.manual_seed(3)
    model = nn.Sequential(make())
    batch = {"x": torch.randn(4, 3, dtype=next(model.parameters()).dtype)}
    alone = dp_gradients.example_gradients(model, lambda net, at: net(batch["x"][at]).square().sum(), 4)
    sums, _ = engine_sums(
        model, lambda net, given: net(given["x"]).square().sum(1), [batch], 0.3, clipping="per_layer", mode=mode
    )
    for at, total in enumerate(sums):
        bound = dp_gradients.limit(0.3 / len(sums) ** 0.5, total.dtype)
        expected = dp_gradients.clipped_sum([[gradients[at]] for gradients in alone], bound)
        assert dp_gradients.relative_error([total], expected) < 1e-5


@pytest.mark.parametrize("length", [1, 768, 769, 1023, 1024, 50_257, 300_001])
@pytest.mark.parametrize("shape", [(2,), (2, 3)])
def test_norms_of_equal_numbers_are_exact_however_many(length, shape):
    """Their squares round in one direction, and a norm that is too small lets a share exceed its bound."""
    for value in (1 / 3, 0.37, 0.53):
        gradients = torch.full((*shape, length), value)
        expected = gradients.double().square().flatten(1).sum(1)
        assert ((dense_squares(gradients) / expected).sqrt() - 1).abs().max() < 7e-7


def test_a_large_bias_of_equal_gradients_stays_within_its_bound():
    model = nn.Linear(2, 50_257)
    sums, _ = engine_sums(model, lambda net, x: net(x["x"]).sum(1) * 0.37, [{"x": torch.zeros(1, 2)}], 0.1)
    assert dp_gradients.norm(sums) <= 0.1 * (1 + 1e-6)


@pytest.mark.parametrize("margin", [8, 14, 25])
@pytest.mark.parametrize("tied", [False, True])
def test_a_head_that_is_computed_again_has_the_gradients_of_its_norms(tied, margin):
    """Guards examples that the model is sure of: 1 less their probability has few digits left, and other ones again."""
    for seed in range(10):
        torch.manual_seed(seed)
        table, head, ids = nn.Embedding(11, 6), nn.Linear(6, 11, bias=False), torch.randint(0, 11, (1, 3))
        if tied:
            table.weight = head.weight
        weight = nn.init.normal_(head.weight).detach()[ids]
        hidden = weight * margin / weight.square().sum(2, keepdim=True)

        def losses(net, x, hidden=hidden, ids=ids):
            seen = (net[0](ids[x]) * hidden[x]).sum((1, 2))
            return 1e12 * fused_losses(hidden[x], net[1], ids[x]) + 1e5 * seen

        for kept_bytes in (0, 2**20):
            sums, _ = engine_sums(
                nn.Sequential(table, head),
                losses,
                [[0]],
                0.001,
                budget=MemoryBudget(working_bytes=1, kept_bytes=kept_bytes),
            )
            assert dp_gradients.norm(sums) <= 0.001 * (1 + 1e-6)
