"""Programs whose backward pass does not repeat the forward pass, or that run a layer in two ways."""

from __future__ import annotations

import pytest
import torch
from engine_models import seeded
from oracles import dp_gradients
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from pipelines.dp import head
from pipelines.dp.errors import UnsupportedLayerError
from pipelines.dp.gradients import GradientEngine
from pipelines.dp.head import fused_losses
from pipelines.dp.one_by_one import SlowGradientWarning

MODES = ["book_keeping", "two_pass"]
pytestmark = pytest.mark.filterwarnings("ignore::pipelines.dp.one_by_one.SlowGradientWarning")
ONLY_FIRST = torch.tensor([1.0, 0, 0, 0])


def rows(*shape):
    with seeded(1):
        return torch.randn(*shape)


def first_share(engine, model, losses):
    """The norm of what the first example adds, whose loss is the only one that is not zero."""
    with engine.recording(4):
        found = losses(model)
    engine.backward(found * ONLY_FIRST)
    return float(torch.cat([total.flatten() for total in engine.take_sums()]).norm())


class WithPositions(nn.Module):
    """A head beside positions that all examples share, whose table is slow."""

    def __init__(self, *, tied):
        super().__init__()
        self.embedding, self.positions, self.head = (
            nn.Embedding(11, 8),
            nn.Embedding(6, 8),
            nn.Linear(8, 11, bias=False),
        )
        if tied:
            self.head.weight = self.embedding.weight

    def forward(self, ids):
        hidden = torch.tanh(self.embedding(ids) + self.positions(torch.arange(ids.shape[1])))
        return fused_losses(hidden[:, :-1], self.head, ids[:, 1:])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tied", [True, False])
def test_a_reduced_head_beside_a_slow_parameter(patch, tied, mode):
    """Guards the head's use, which the backward passes of single examples overwrote: all but the last fell out."""
    found = []
    for is_reduced in (False, True):
        if is_reduced:
            patch(head, "takes", lambda values: values.dtype == torch.bfloat16)
        with seeded(0):
            model, ids = WithPositions(tied=tied), torch.randint(0, 11, (4, 6))
        engine = GradientEngine(model, max_grad_norm=0.1, mode=mode)
        with engine.recording(), torch.autocast("cpu", dtype=torch.bfloat16):
            losses = model(ids)
        with pytest.warns(SlowGradientWarning, match="positions"):
            engine.backward(losses)
        found.append(torch.cat([total.flatten() for total in engine.take_sums()]))
    assert (found[0] - found[1]).norm() < 0.01 * found[0].norm()


class OwnBias(nn.Module):
    """Adds its bias after the activation, so that ``linear`` is called without it."""

    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.eye(3)), nn.Parameter(torch.ones(3))

    def forward(self, x):
        return torch.relu(functional.linear(x, self.weight)) + self.bias, x


class Wrapped(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)[0]


def test_a_rule_does_not_add_a_bias_that_the_module_adds_elsewhere():
    model, x = Wrapped(OwnBias()), torch.zeros(4, 2, 3)
    engine = GradientEngine(model, max_grad_norm=1.0)
    with engine.recording(4):
        out = model(x)
    assert torch.equal(out, model(x))
    expected = [dp_gradients.norm(g) for g in dp_gradients.example_gradients(model, squares_of(x), 4)]
    assert torch.allclose(engine.backward(out.square().sum((1, 2))).norms, torch.tensor(expected, dtype=torch.float64))


def squares_of(x):
    return lambda model, index: model(x[index : index + 1]).square().sum()


class LaterRows(nn.Module):
    """From the second batch on, a layer sees other rows inside a checkpoint, and only a detached value is used."""

    def __init__(self):
        super().__init__()
        self.first, self.layer, self.is_odd = nn.Linear(3, 4), nn.Linear(4, 4), False

    def part(self, hidden):
        return hidden * (1 + self.layer(hidden[:3]).detach().mean()) if self.is_odd else hidden * 1

    def forward(self, x):
        return checkpoint(self.part, self.layer(torch.tanh(self.first(x))), use_reentrant=True)


@pytest.mark.parametrize("mode", MODES)
def test_a_layer_that_turns_slow_in_the_backward_pass_is_refused(mode):
    with seeded(0):
        model = LaterRows()
    engine, x = GradientEngine(model, max_grad_norm=0.01, mode=mode), rows(4, 3)
    assert first_share(engine, model, lambda net: net(x).square().sum(1)) <= 0.01 * (1 + 1e-6)
    model.is_odd = True
    for _ in range(2):
        with pytest.raises(UnsupportedLayerError, match=r"backward pass|outside the layer"):
            first_share(engine, model, lambda net: net(x).square().sum(1))
        assert not any(total.any() for total in engine.take_sums())


class Redrawn(nn.Module):
    """A checkpoint that draws another mask of dropout when it runs again."""

    def __init__(self, *, shared):
        super().__init__()
        self.first, self.layer = nn.Linear(3, 4), nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.ones(4)) if shared else None

    def forward(self, x):
        hidden = torch.tanh(self.first(x)) * (1 if self.scale is None else self.scale)
        return checkpoint(
            lambda h: functional.dropout(self.layer(h), 0.5), hidden, use_reentrant=False, preserve_rng_state=False
        )


@pytest.mark.parametrize(("mode", "shared"), [("two_pass", False), ("book_keeping", True)])
def test_a_backward_pass_that_draws_anew_is_not_repeated(mode, shared):
    with seeded(0):
        model = Redrawn(shared=shared)
    engine = GradientEngine(model, max_grad_norm=0.01, mode=mode)
    with pytest.raises(UnsupportedLayerError, match=r"preserve_rng_state=True"):
        first_share(engine, model, lambda net: net(rows(4, 3)).square().sum(1))
    alone = GradientEngine(nn.Sequential(nn.Linear(3, 4)), max_grad_norm=0.01)
    assert first_share(alone, alone.model, lambda net: net(rows(4, 3)).square().sum(1)) <= 0.01 * (1 + 1e-6)


class SharedRow(nn.Module):
    """A layer inside a checkpoint, and once more on one row that all examples share."""

    def __init__(self):
        super().__init__()
        self.first, self.square, self.out = nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        hidden = checkpoint(lambda h: torch.tanh(self.square(h)), torch.tanh(self.first(x)), use_reentrant=False)
        return self.out(hidden + self.square(torch.ones(1, 4)))


@pytest.mark.parametrize("mode", MODES)
def test_a_checkpoint_runs_a_layer_again_as_it_ran_before(mode):
    with seeded(0):
        model = SharedRow()
    x = rows(4, 3)
    expected = torch.tensor([dp_gradients.norm(g) for g in dp_gradients.example_gradients(model, squares_of(x), 4)])
    engine = GradientEngine(model, max_grad_norm=1e6, mode=mode)
    for _ in range(2):
        with engine.recording(4):
            losses = model(x).square().sum(1)
        assert torch.allclose(engine.backward(losses).norms.float(), expected.float(), rtol=1e-5)
        engine.take_sums()


class TimeMajor(nn.Module):
    """Flattens positions before examples, in a branch that first runs in the second batch."""

    def __init__(self):
        super().__init__()
        self.first, self.layer, self.is_odd = nn.Linear(3, 4), nn.Linear(4, 4), False

    def forward(self, x):
        hidden = torch.tanh(self.first(x))
        if not self.is_odd:
            return hidden + 0 * self.layer(hidden)
        turned = hidden.transpose(0, 1).reshape(-1, 4)
        return hidden + self.layer(turned).view(x.shape[1], x.shape[0], 4).transpose(0, 1)


@pytest.mark.parametrize("mode", MODES)
def test_positions_before_examples_are_no_rows_of_examples_even_if_there_are_as_many(mode):
    with seeded(0):
        model = TimeMajor()
    engine, x = GradientEngine(model, max_grad_norm=0.01, mode=mode), rows(4, 4, 3)
    for model.is_odd in (False, True):
        assert first_share(engine, model, lambda net: net(x).square().sum((1, 2))) <= 0.01 * (1 + 1e-6)


class Branched(nn.Module):
    """A layer that couples examples, and does not run in the first batch."""

    def __init__(self):
        super().__init__()
        self.first, self.late, self.is_odd = nn.Linear(3, 4), nn.Linear(4, 4), False

    def forward(self, x):
        hidden = torch.tanh(self.first(x))
        return hidden + self.late(hidden.roll(1, 0)) if self.is_odd else hidden


def test_a_layer_that_first_runs_later_is_traced_then():
    with seeded(0):
        model = Branched()
    engine, x = GradientEngine(model, max_grad_norm=0.01), rows(4, 3)
    first_share(engine, model, lambda net: net(x).square().sum(1))
    model.is_odd = True
    with pytest.raises(Exception, match="depends on another example"):
        first_share(engine, model, lambda net: net(x).square().sum(1))


class ByFrequency(nn.Embedding):
    def forward(self, ids):
        return functional.embedding(ids, self.weight, scale_grad_by_freq=True)


def test_a_lookup_with_options_is_not_run_by_the_rule():
    with seeded(0):
        model = nn.Sequential(ByFrequency(5, 3), nn.Linear(3, 2))
    ids = torch.tensor([[1, 1, 1], [2, 3, 4]])
    engine = GradientEngine(model, max_grad_norm=1.0)
    with engine.recording(2):
        losses = model(ids).square().sum((1, 2))
    expected = [
        dp_gradients.norm(g)
        for g in dp_gradients.example_gradients(model, lambda net, i: net(ids[i : i + 1]).square().sum(), 2)
    ]
    assert torch.allclose(engine.backward(losses).norms.float(), torch.tensor(expected).float(), rtol=1e-5)
