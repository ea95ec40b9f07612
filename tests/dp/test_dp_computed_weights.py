"""Weights that are computed from other parameters: refused by name, since no gradient would reach those."""

import pytest
import torch
from private_loops import PrivateLoop, network
from torch import nn
from torch.nn.utils import parametrize, prune

from pipelines.dp.errors import UnsupportedLayerError
from pipelines.dp.gradients import GradientEngine


class Half(nn.Module):
    def forward(self, weight):
        return weight / 2


def cut_out(layer):
    """A weight that shadows the parameter of the same name."""
    layer.register_forward_pre_hook(lambda module, _: module.__dict__.update(weight=module._parameters["weight"] * 2))
    return layer


def computed(layer):
    """A weight that a hook computes from a parameter of another name."""
    layer.raw = nn.Parameter(layer.weight.detach().clone())
    del layer.weight
    layer.weight = layer.raw.detach() * 2
    layer.register_forward_pre_hook(lambda module, _: setattr(module, "weight", module.raw * 2))
    return layer


COMPUTED = {
    "weight norm": lambda: nn.utils.weight_norm(nn.Linear(4, 4)),
    "spectral norm": lambda: nn.utils.spectral_norm(nn.Linear(4, 4)),
    "pruned": lambda: prune.random_unstructured(nn.Linear(4, 4), "weight", 0.5),
    "computed by a hook": lambda: computed(nn.Linear(4, 4)),
    "parametrised weight norm": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)),
    "parametrised spectral norm": lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)),
    "parametrised by hand": lambda: _parametrised(nn.Linear(4, 4, bias=False)),
    "a parameter of its own": lambda: _with_parameter(nn.Linear(4, 4)),
}


def _parametrised(layer):
    parametrize.register_parametrization(layer, "weight", Half())
    return layer


def _with_parameter(layer):
    layer.scale = nn.Parameter(torch.ones(4))
    return layer


@pytest.mark.parametrize("kind", COMPUTED)
def test_computed_weights_are_refused_by_name(kind):
    """Guards exactness: the parameters behind a computed weight got no gradient and stayed as they were, silently."""
    with pytest.raises(UnsupportedLayerError, match=r"1\.(weight|parametrizations|raw|scale)"):
        PrivateLoop(model=network(COMPUTED[kind]()))


@pytest.mark.parametrize("kind", ["weight norm", "parametrised weight norm", "parametrised by hand", "pruned"])
def test_frozen_computed_weights_train_around(kind):
    assert PrivateLoop(model=network(COMPUTED[kind]().requires_grad_(False))).run().engine.num_steps == 3


def test_weight_norm_of_a_recurrent_layer_is_refused():
    model = nn.utils.weight_norm(nn.LSTM(3, 3, batch_first=True), "weight_hh_l0")
    with pytest.raises(UnsupportedLayerError, match="weight_hh_l0_g"):
        GradientEngine(model, max_grad_norm=1.0)


def test_a_weight_that_shadows_its_parameter_is_refused():
    loop = PrivateLoop(model=network(cut_out(nn.Linear(4, 4))))
    with pytest.raises(UnsupportedLayerError, match=r"'1'.*'weight'.*hook computes"):
        loop.run()
    assert loop.took_nothing()


def test_functional_calls_with_computed_weights_are_refused():
    """Guards exactness: gradients for computed weights went to the parameters, as if they were those."""

    def losses(model, batch):
        halved = {name: value / 2 for name, value in model.named_parameters()}
        out = torch.func.functional_call(model, halved, (batch[0],))
        return nn.functional.cross_entropy(out, batch[1], reduction="none")

    loop = PrivateLoop(losses)
    with pytest.raises(UnsupportedLayerError, match="functional_call"):
        loop.run()
    assert loop.took_nothing()
