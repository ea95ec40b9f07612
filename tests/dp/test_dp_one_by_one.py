"""Parameters that are used in a way that no rule knows: one backward pass for each example, exact, with a warning."""

import copy
import warnings

import peft
import pytest
import torch
from engine_models import Mean, check, engine_sums, gpt2, seeded, smooth_losses
from oracles import dp_gradients
from private_loops import PrivateLoop, cross_entropies, network
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from pipelines.dp.errors import IsolationError, UnsupportedLayerError
from pipelines.dp.gradients import GradientEngine
from pipelines.dp.one_by_one import SlowGradientWarning
from pipelines.dp.uses import MemoryBudget

MODES = ["book_keeping", "two_pass"]
BUDGETS = [MemoryBudget(), MemoryBudget(working_bytes=1, kept_bytes=0)]


class Net(nn.Module):
    """Layers with rules around something else; ``how`` says what."""

    def __init__(self, how):
        super().__init__()
        self.how = how
        self.first, self.layer, self.last = nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 2)
        self.norm = nn.LayerNorm(4)
        self.table = nn.Embedding(6, 4)
        self.scale = nn.Parameter(torch.ones(3, 4))

    def forward(self, x):
        h = torch.tanh(self.first(x))
        return self.last(self.norm(getattr(self, self.how)(h)))

    def read_directly(self, h):
        return functional.linear(self.layer(h), self.layer.weight)

    def penalty(self, h):
        return h + self.layer.weight.square().sum() + self.layer(h)

    def table_of_the_batch(self, h):
        return self.layer(h) + self.table(torch.arange(h.shape[1]).expand(h.shape[1], -1)).mean(0)

    def positions(self, h):
        return self.layer(h) + self.table(torch.arange(h.shape[1]))

    def own_vector(self, h):
        return h * self.layer(self.table.weight[0])

    def packed(self, h):
        kept = h.detach().sum(-1) > h.detach().sum(-1).amin(dim=1, keepdim=True)  # drops one position of each
        return torch.zeros_like(h).masked_scatter(kept[..., None].expand_as(h), self.layer(h[kept]))

    def time_first(self, h):
        return self.layer(h.transpose(0, 1)).transpose(0, 1)

    def interleaved(self, h):
        rows = h.transpose(0, 1).reshape(-1, h.shape[2])
        return self.layer(rows).view(h.shape[1], h.shape[0], -1).transpose(0, 1)

    def in_checkpoint(self, h):
        return checkpoint(self.time_first, checkpoint(self.read_directly, h, use_reentrant=True), use_reentrant=False)

    def scaled(self, h):
        return self.layer(h) * self.scale.mean(0)


HOW = [
    "read_directly", "penalty", "table_of_the_batch", "positions", "own_vector", "packed", "time_first", "interleaved",
    "in_checkpoint",
]  # fmt: skip


def made(how, size=4, length=5):
    with seeded(3):
        return Net(how), torch.randn(size, length, 3)


def losses_of(model, batch):
    return smooth_losses(model, batch["x"])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("budget", [BUDGETS[0], pytest.param(BUDGETS[1], marks=pytest.mark.slow)])
@pytest.mark.parametrize("how", HOW)
@pytest.mark.filterwarnings("ignore::pipelines.dp.one_by_one.SlowGradientWarning")
def test_uses_without_a_rule_are_exact(how, budget, mode):
    model, x = made(how)
    model.scale.requires_grad_(False)
    check(model, losses_of, {"x": x}, mode=mode, budget=budget)


@pytest.mark.parametrize("clipping", ["automatic", "per_layer"])
def test_other_clippings_are_those_of_the_same_gradients(clipping):
    """``layer(x)`` twice is what a direct read computes, and goes by the rule."""
    model, x = made("read_directly")
    model.scale.requires_grad_(False)
    model.layer.bias.requires_grad_(False).zero_()
    slow, norms = engine_sums(model, losses_of, [{"x": x}], 0.3, clipping=clipping)
    model.read_directly = lambda h: model.layer(model.layer(h))
    fast, expected = engine_sums(model, losses_of, [{"x": x}], 0.3, clipping=clipping)
    assert norms == pytest.approx(expected, rel=1e-5)
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(slow, fast, strict=True))


def test_one_warning_names_the_parameters_and_the_cost():
    model, x = made("read_directly")
    model.scale.requires_grad_(False)
    engine = GradientEngine(model, max_grad_norm=1.0)

    def step():
        with engine.recording():
            losses = smooth_losses(model, x)
        engine.backward(losses)

    with pytest.warns(SlowGradientWarning, match=r"layer\.weight \(.*one backward pass.*now 4.*max_physical_batch"):
        step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step()


def test_a_layer_that_lost_its_rule_once_runs_without_it_from_then_on():
    """Guards batches in which a shared table fits the batch by accident: its rows are not the examples'."""
    model, _ = made("table_of_the_batch")
    model.scale.requires_grad_(False)
    engine = GradientEngine(model, max_grad_norm=1e-3)
    for size in (4, 5):  # with 5 examples the table of 5 positions has as many rows
        x = torch.randn(size, 5, 3)
        with engine.recording():
            losses = smooth_losses(model, x)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = engine.backward(losses)
        for example, norm in zip(x, found.norms, strict=True):
            model.zero_grad()
            engine.detach()
            smooth_losses(model, example[None]).sum().backward()
            whole = torch.stack([p.grad.norm() for p in model.parameters() if p.grad is not None]).norm()
            assert float(norm) == pytest.approx(float(whole), rel=1e-5)
        engine_again = GradientEngine(model, max_grad_norm=1e-3)
        engine_again._tape.slow, engine_again._tape.unruled = engine._tape.slow, engine._tape.unruled
        engine_again._slow, engine_again._unruled = engine._slow, engine._unruled
        engine_again._is_traced = engine_again._is_discovered = True
        engine = engine_again


def test_a_use_that_begins_later_is_refused():
    model, x = made("read_directly")
    model.scale.requires_grad_(False)
    model.how = "positions"
    model.table.requires_grad_(False)
    engine = GradientEngine(model, max_grad_norm=1.0)
    with engine.recording():
        losses = smooth_losses(model, x)
    engine.backward(losses)
    model.how = "read_directly"
    with engine.recording():
        losses = smooth_losses(model, x)
    with pytest.raises(UnsupportedLayerError, match=r"'layer\.weight'.*not in the first batches"):
        engine.backward(losses)


class Odd(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.how, self.weight, self.seen = how, nn.Parameter(torch.full((3,), 1.5)), []

    def forward(self, x):
        if self.how == "decision":
            return x * self.weight if x.sum() > 0 else x
        if self.how == "pair":
            return x * self.weight, x
        if self.how == "tokens":
            chosen = (x.sum(-1) > 0).nonzero()
            return x.index_put(tuple(chosen.T), x[tuple(chosen.T)] * self.weight)
        return x * self.weight + (x > 0).nonzero().sum() / 100


@pytest.mark.parametrize("how", ["pair", "tokens"])
@pytest.mark.filterwarnings("ignore::pipelines.dp.one_by_one.SlowGradientWarning")
def test_modules_that_torch_cannot_map_are_exact(how):
    with seeded(2):
        model, x = Mean(nn.Sequential(nn.Linear(3, 3), Odd(how))), torch.randn(4, 2, 3)
    check(model, losses_of, {"x": x})


@pytest.mark.parametrize("how", ["decision", "count"])
def test_modules_that_look_at_several_examples_are_refused(how):
    """Guards that the fallback does not weaken what was refused because torch could not map it."""
    with seeded(2):
        model, x = nn.Sequential(nn.Linear(3, 3), Odd(how)), torch.randn(4, 2, 3)
        x *= torch.tensor([1.0, -9.0, 9.0, -1.0])[:, None, None]
    engine = GradientEngine(model, max_grad_norm=1.0)
    with engine.recording(), pytest.raises(UnsupportedLayerError, match="each example alone"):
        smooth_losses(model, x)


@pytest.mark.filterwarnings("ignore::pipelines.dp.one_by_one.SlowGradientWarning")
def test_dora_is_exact():
    with seeded(5):
        model = peft.get_peft_model(
            gpt2(), peft.LoraConfig(r=2, target_modules=["c_attn"], use_dora=True, fan_in_fan_out=True)
        )
    model.get_input_embeddings().requires_grad_(True)
    ids = torch.randint(0, 19, (3, 5))

    def losses(net, batch):
        logits = net(input_ids=batch["ids"], use_cache=False).logits[:, :-1]
        return functional.cross_entropy(logits.transpose(1, 2), batch["ids"][:, 1:], reduction="none").mean(1)

    check(model, losses, {"ids": ids})


def test_they_train_in_a_private_loop_and_couplings_are_found():
    class Direct(nn.Module):
        def __init__(self, layer):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            return torch.tanh(x) @ self.layer[0].weight[:4, :1].expand(4, 4)

    model = network()
    model.insert(1, Direct([model[0]]))
    with pytest.warns(SlowGradientWarning):
        assert PrivateLoop(model=copy.deepcopy(model), limit=3).run().engine.num_steps == 3

    def coupled(net, batch):
        found = cross_entropies(net, batch)
        return found / found.detach().mean()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(IsolationError, match="other examples"):
            PrivateLoop(coupled, model=model, limit=3).run()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("is_frozen_at_first", [False, True])
@pytest.mark.parametrize("size", [1, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("how", ["read_directly", "time_first", "positions", "in_checkpoint"])
@pytest.mark.filterwarnings("ignore::pipelines.dp.one_by_one.SlowGradientWarning")
def test_slow_parameters_may_be_frozen_and_unfrozen(how, size, is_frozen_at_first, mode):
    model, x = made(how)
    model, x = model.double(), x.double()
    model.scale.requires_grad_(how == "in_checkpoint")  # the whole model is then a module without a rule
    engine = GradientEngine(model, max_grad_norm=0.3, mode=mode)
    for is_frozen in (is_frozen_at_first, not is_frozen_at_first, False, True, False):
        for module in (model.layer, model.table):
            module.requires_grad_(not is_frozen)
        for part in (x[:size], x[size:]):
            if not len(part):
                continue
            alone = dp_gradients.example_gradients(
                model, lambda net, at, given=part: losses_of(net, {"x": given[at : at + 1]})[0], len(part)
            )
            with engine.recording(len(part)):
                losses = losses_of(model, {"x": part})
            engine.backward(losses)
            expected = dp_gradients.clipped_sum(alone, 0.3)
            assert dp_gradients.relative_error(engine.take_sums(), expected) < 1e-10


def test_a_model_whose_layers_never_run_is_refused():
    model = nn.Sequential(nn.Linear(3, 2))
    engine = GradientEngine(model, max_grad_norm=1.0)
    with engine.recording(4):
        losses = functional.linear(torch.ones(4, 3), model[0].weight, model[0].bias).square().sum(1)
    with pytest.raises(UnsupportedLayerError, match=r"no layer of the model ran.*'0\.weight'.*Call at least one layer"):
        engine.backward(losses)
