"""Rules of other packages: believed as far as they agree with autograd, and refused otherwise."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from pipelines.dp import attach, rules
from pipelines.dp.errors import UnsupportedLayerError
from pipelines.dp.gradients import GradientEngine
from pipelines.dp.rules import LayerRule
from pipelines.dp.uses import DenseUse


class Scale(nn.Module):
    """A layer that the engine does not know."""

    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size))

    def forward(self, x):
        return x * self.weight


class Wrong(torch.autograd.Function):
    """A rule with a fault that ``how`` names."""

    @staticmethod
    def forward(ctx, site, how, x, weight):
        ctx.site, ctx.how = site, how
        ctx.save_for_backward(x, weight)
        return x * weight + (0.01 if how == "output" else 0)

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        site, how = ctx.site, ctx.how
        site.tape.check_examples(site.name, gradient)
        given = x * gradient
        if how == "halved":
            given = given / 2
        if how == "mixed":
            given = given.mean(dim=0, keepdim=True).expand_as(given)
        if how == "shifted":
            given = given.roll(1, dims=0)
        summed = given.sum(dim=1)
        if how == "norms":
            site.tape.add(site.name, weight, Small(summed))
        elif how != "nothing":
            site.tape.add(site.name, site.parameter("weight"), DenseUse(summed))
        return None, None, gradient * weight * (2 if how == "inputs" else 1), gradient if how == "caught" else None


class Small(DenseUse):
    """A use whose norms are not those of what it adds up."""

    def squares(self, budget):
        found = super().squares(budget)
        return replace(found, norms=found.norms / 100)


def rule(how):
    def apply(site, x):
        if how != "not entered":
            site.enter(x)
        return Wrong.apply(site, how, x, site.module.weight)

    return apply


def clipped(patch, how, dtype=torch.float64, **options):
    offered = LayerRule(layer=rules.layer_name(Scale(1)), rule=rule(how))
    patch(attach, "installed_rules", lambda: {offered.layer: replace(offered, rule=rules._checked(offered))})
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(3, 4), Scale(4), nn.Linear(4, 2)).to(dtype)
    x = torch.randn(6, 5, 3, dtype=dtype)
    engine = GradientEngine(model, max_grad_norm=0.1, **options)
    with engine.recording(6):
        losses = model(x).square().mean(dim=(1, 2))
    found = engine.backward(losses)
    sums = engine.take_sums()
    engine.detach()
    return model, x, found, sums


@pytest.mark.parametrize("mode", ["book_keeping", "two_pass"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_sound_rule_is_exact(patch, dtype, mode):
    model, x, found, sums = clipped(patch, "right", dtype, mode=mode)
    expected = [torch.zeros_like(p) for p in model.parameters()]
    for example, norm in zip(x, found.norms, strict=True):
        gradients = torch.autograd.grad(model(example[None]).square().mean(), list(model.parameters()))
        whole = torch.cat([g.flatten() for g in gradients]).norm()
        assert float(norm) == pytest.approx(float(whole), rel=1e-5)
        for total, gradient in zip(expected, gradients, strict=True):
            total += gradient * min(1.0, 0.1 / float(whole))
    for ours, theirs in zip(sums, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
    assert attach.foreign_rules(model) == (rules.layer_name(model[1]),)


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("halved", "gradients of parameters"),
        ("mixed", "gradients of parameters"),
        ("shifted", "gradients of parameters"),
        ("norms", "norms"),
        ("nothing", "no gradient of a trainable parameter"),
        ("inputs", "gradients of inputs"),
        ("output", "outputs"),
        ("caught", "did not catch"),
        ("not entered", "site.enter"),
    ],
)
def test_a_faulty_rule_is_refused(patch, how, why):
    with pytest.raises(UnsupportedLayerError, match=why):
        clipped(patch, how)


def test_without_a_rule_the_layer_is_run_example_by_example():
    model = nn.Sequential(Scale(3))
    GradientEngine(model, max_grad_norm=1.0).detach()
    assert attach.foreign_rules(model) == ()
