"""Convolutions, GroupNorm, GRU, attention, bare parameters, and modules without a rule, one example at a time."""

import pytest
import torch
from engine_layers import Attention, rough
from engine_models import SMALL_BUDGETS, Mean, check, seeded, smooth_losses
from hypothesis import given, settings
from hypothesis import strategies as st
from private_loops import PrivateLoop
from torch import nn

from pipelines.dp.attach import site_of
from pipelines.dp.errors import UnsupportedLayerError
from pipelines.dp.gradients import GradientEngine
from pipelines.dp.parameters import ExampleParameter

budgets = st.sampled_from(SMALL_BUDGETS)
modes = st.sampled_from(["book_keeping", "two_pass"])


def losses_of(model, batch):
    return smooth_losses(model, batch["x"])


@settings(max_examples=20, deadline=None)
@given(data=st.data(), axes=st.sampled_from([1, 2, 2, 3]), seed=st.integers(0, 99), budget=budgets, mode=modes)
def test_convolutions_are_exact(data, axes, seed, budget, mode):
    draw = data.draw
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    each = st.tuples(*[st.integers(1, 3)] * axes)
    stride = draw(each)
    options = {
        "kernel_size": draw(each), "stride": stride, "dilation": draw(each), "groups": groups,
        "bias": draw(st.booleans()), "padding_mode": draw(st.sampled_from(["zeros", "reflect", "circular"])),
        "padding": draw(st.tuples(*[st.integers(0, 2)] * axes) | st.sampled_from(["valid", "same"])),
    }  # fmt: skip
    if options["padding"] == "same":
        options["stride"] = 1
    with seeded(seed):
        kind = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[axes - 1]
        # A layer before it, so that the gradient of its input matters.
        first = kind(2, groups * draw(st.integers(1, 2)), 1)
        layer = kind(first.out_channels, groups * draw(st.integers(1, 2)), **options)
        x = torch.randn(draw(st.integers(1, 4)), 2, *[draw(st.integers(7, 8)) for _ in range(axes)])
    model = rough(Mean(nn.Sequential(first, nn.Tanh(), layer)))
    check(model, losses_of, {"x": x}, budget=budget, mode=mode)


@settings(max_examples=6, deadline=None)
@given(
    size=st.integers(1, 4), groups=st.integers(1, 3), each=st.integers(1, 2), places=st.integers(2, 5),
    affine=st.booleans(), seed=st.integers(0, 99), mode=modes,
)  # fmt: skip
def test_group_norm_is_exact(size, groups, each, places, affine, seed, mode):
    with seeded(seed):
        first = nn.Conv1d(2, groups * each, 1)
        model = rough(Mean(nn.Sequential(first, nn.GroupNorm(groups, groups * each, affine=affine))))
        x = torch.randn(size, 2, places)
    check(model, losses_of, {"x": x}, mode=mode)


@settings(max_examples=6, deadline=None)
@given(
    size=st.integers(1, 4), length=st.integers(1, 6), layers=st.integers(1, 2), both=st.booleans(), bias=st.booleans(),
    seed=st.integers(0, 99), budget=budgets, mode=modes,
)  # fmt: skip
def test_gru_is_exact(size, length, layers, both, bias, seed, budget, mode):
    with seeded(seed):
        gru = nn.GRU(3, 2, layers, bidirectional=both, bias=bias, batch_first=True)
        model = rough(Mean(nn.Sequential(nn.Linear(3, 3), gru)))
        x = torch.randn(size, length, 3)
    check(model, losses_of, {"x": x}, budget=budget, mode=mode)


@settings(max_examples=12, deadline=None)
@given(
    source=st.sampled_from(["self", "other", "widths"]), size=st.integers(1, 3), length=st.integers(2, 5),
    bias=st.booleans(), add_bias_kv=st.booleans(), add_zero_attn=st.booleans(), need=st.booleans(),
    mask=st.sampled_from([None, "flags", "numbers", "each"]), padding=st.booleans(), seed=st.integers(0, 99),
    mode=modes,
)  # fmt: skip
def test_attention_is_exact(source, size, length, mask, padding, need, seed, mode, **options):
    with seeded(seed):
        model = rough(Attention(source, **options))
        model.need_weights = need
        x = torch.randn(size, length, 4)
        keys = length - 1 if source == "self" else length
        hidden = torch.zeros(size, keys, dtype=torch.bool)
        hidden[:, -1] = padding and keys > 1
        if mask == "flags":
            model.mask = torch.triu(torch.ones(length - 1, keys, dtype=torch.bool), 1)
        elif mask == "numbers":
            model.mask = torch.randn(length - 1, keys).double()

    def losses(net, batch):
        if mask == "each":  # one for each example and head
            net.mask = torch.full((2 * len(batch["x"]), length - 1, keys), 0.3, dtype=torch.float64)
        return smooth_losses(lambda x: net(x, batch["hidden"]), batch["x"])

    check(model, losses, {"x": x, "hidden": hidden}, mode=mode)


def test_attention_computes_what_torch_does():
    for source in ("self", "other", "widths"):
        for need in (True, False):
            with seeded(1):
                model = Attention(source, add_bias_kv=True, add_zero_attn=True)
                x = torch.randn(3, 5, 4)
            model.need_weights = need
            hidden = torch.zeros(3, 4 if source == "self" else 5, dtype=torch.bool)
            hidden[1, 2:] = True
            expected = model(x, hidden)
            engine = GradientEngine(model, max_grad_norm=1.0)
            with engine.recording():
                found = model(x, hidden)
            engine.detach()
            torch.testing.assert_close(found, expected)


class Picture(nn.Module):
    """Patches, a class token, learnt positions, an encoder of torch: a small vision transformer."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(1, 4, 2, 2)
        self.token = ExampleParameter(torch.randn(1, 4))
        self.positions = ExampleParameter(torch.randn(5, 4))
        layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token(x), x], dim=1) + self.positions(x)
        return self.head(self.encoder(x)[:, 0])


@pytest.mark.parametrize("mode", ["book_keeping", "two_pass"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_vision_transformer_is_exact(mode, dtype):
    with seeded(3):
        model, x = rough(Picture()), torch.randn(4, 1, 4, 4)
    check(model, losses_of, {"x": x}, mode=mode, dtype=dtype)


class Bare(nn.Module):
    """Parameters of its own beside layers: no rule, so the whole module is run example by example."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.positions = nn.Parameter(torch.randn(6, 4))
        self.scale = nn.Parameter(torch.tensor(0.7))
        self.last = nn.Linear(4, 4)
        self.last.weight = nn.Parameter(torch.randn(4, 4))

    def forward(self, x, double=False):
        x = torch.tanh(self.first(x)) + self.positions[: x.shape[1]] * (2 if double else 1)
        return self.last(self.last(x) * self.scale)


@pytest.mark.parametrize("mode", ["book_keeping", "two_pass"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_bare_parameters_are_exact(mode, dtype):
    with seeded(3):
        model = nn.Sequential(nn.Linear(2, 3), Bare(), nn.Linear(4, 2))
        x = torch.randn(4, 5, 2)
    check(model, losses_of, {"x": x}, mode=mode, dtype=dtype)
    model[1].first.requires_grad_(False)
    check(model, losses_of, {"x": x}, mode=mode)


def test_bare_parameters_that_are_shared_with_layers_outside_are_exact():
    with seeded(3):
        model = nn.Sequential(nn.Linear(3, 3), Bare(), nn.Linear(4, 4), nn.PReLU(4))
        model[2].weight = model[1].last.weight
        x = torch.randn(4, 4, 3)  # PReLU has its channels on the second axis
    check(model, losses_of, {"x": x})


class Mixing(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x):
        return x * self.weight + x.mean(dim=0)


def test_modules_that_mix_examples_are_refused():
    with seeded(2):
        mixing = Mixing()
        model = nn.Sequential(nn.Linear(3, 3), mixing)
        x = torch.randn(4, 2, 3)
    engine = GradientEngine(model, max_grad_norm=1.0)
    assert site_of(mixing) is not None
    with engine.recording(), pytest.raises(UnsupportedLayerError, match="outputs are not those"):
        smooth_losses(model, x)
    assert not any(total.any() for total in engine.take_sums())


@pytest.mark.filterwarnings("ignore::pipelines.dp.one_by_one.SlowGradientWarning")
def test_the_layers_of_a_module_with_many_parameters_keep_their_rules(patch):
    patch.constant("pipelines.dp.attach", "MOST_PARAMETERS", 10)
    with seeded(3):
        model = nn.Sequential(nn.Linear(2, 3), Bare(), nn.Linear(4, 2))
        x = torch.randn(4, 5, 2)
    check(model, losses_of, {"x": x})
    engine = GradientEngine(model, max_grad_norm=1.0)
    with engine.recording():
        losses = losses_of(model, {"x": x.double()})
    engine.backward(losses)
    assert set(engine._slow) == {model[1].positions, model[1].scale}


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.positions = ExampleParameter(torch.zeros(2, 4))

    def forward(self, x):
        return x * self.scale


def test_they_train_in_a_private_loop():
    """What is compared before the first step sees them all: norms, and gradients along a direction."""
    with seeded(1):
        layers = [
            nn.Unflatten(1, (1, 3)), nn.Conv1d(1, 4, 2), nn.GroupNorm(2, 4), nn.Tanh(), Scaled(),
            nn.MultiheadAttention(2, 1, batch_first=True), nn.GRU(2, 2, batch_first=True), nn.Flatten(),
            nn.Linear(8, 2),
        ]  # fmt: skip

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(layers)

        def forward(self, x):
            for layer in self.layers:
                x = layer(x, x, x) if isinstance(layer, nn.MultiheadAttention) else layer(x)
                x = x[0] if isinstance(x, tuple) else x
            return x

    loop = PrivateLoop(model=Model(), limit=3)
    before = [p.detach().clone() for p in loop.model.parameters()]
    loop.run()
    assert loop.engine.num_steps == 3
    moved = [not torch.equal(p, b) for p, b in zip(loop.model.parameters(), before, strict=True)]
    assert all(moved)  # noise alone moves those that the loss does not depend on
