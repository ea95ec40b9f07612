"""What cannot be trained privately is named, with a line of code that mends it."""

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune, weight_norm

import reticent.dp
from pipelines.dp.errors import IsolationError, UnsupportedLayerError
from pipelines.dp.gradients import GradientEngine
from reticent.dp import find_problems

LAYERS = {
    "batch norm": (lambda: nn.BatchNorm2d(48), "torch.nn.GroupNorm(16, 48)"),
    "batch norm without weights": (lambda: nn.BatchNorm1d(5, affine=False), "torch.nn.GroupNorm(1, 5, affine=False)"),
    "synchronised batch norm": (lambda: nn.SyncBatchNorm(64), "torch.nn.GroupNorm(32, 64)"),
    "instance norm": (
        lambda: nn.InstanceNorm2d(4, affine=True, track_running_stats=True),
        "torch.nn.InstanceNorm2d(4, affine=True)",
    ),
    "lstm": (lambda: nn.LSTM(3, 4, 2, proj_size=2), "torch.nn.LSTM(3, 4, num_layers=2, batch_first=True)"),
    "gru": (lambda: nn.GRU(3, 4, bidirectional=True), "torch.nn.GRU(3, 4, bidirectional=True, batch_first=True)"),
    "rnn": (lambda: nn.RNN(3, 4, bias=False), "torch.nn.GRU(3, 4, bias=False, batch_first=True)"),
    "attention": (lambda: nn.MultiheadAttention(4, 2), "torch.nn.MultiheadAttention(4, 2, batch_first=True)"),
    "embedding": (lambda: nn.Embedding(9, 4, 0, max_norm=1.0), "torch.nn.Embedding(9, 4, padding_idx=0)"),
    "bag": (lambda: nn.EmbeddingBag(9, 4), "torch.nn.Embedding(9, 4)"),
    "parameters": (lambda: nn.ParameterList([torch.ones(3)]), None),
    "parametrized": (lambda: parametrizations.weight_norm(nn.Linear(3, 3)), None),
    "weight norm": (lambda: weight_norm(nn.Linear(3, 3)), "remove_weight_norm"),
    "spectral norm": (lambda: nn.utils.spectral_norm(nn.Linear(3, 3)), "remove_spectral_norm"),
    "pruned": (lambda: prune.l1_unstructured(nn.Linear(3, 3), "weight", 1), "prune.remove"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LAYERS)
def test_the_line_that_is_given_mends_the_model(name):
    build, line = LAYERS[name]
    model = nn.Sequential(nn.Linear(2, 2), nn.ModuleDict({"odd": build()}))
    problems = find_problems(model)
    assert problems
    (problem,) = {p.change: p for p in problems}.values()
    assert problem.name.startswith("1.odd")
    assert "model[1].odd" in problem.change
    assert str(problem).endswith(problem.change)
    assert line is None or line in problem.change
    with pytest.raises((UnsupportedLayerError, IsolationError)) as refused:
        GradientEngine(model, max_grad_norm=1.0)
    assert problem.change in str(refused.value)
    exec(problem.change, {"model": model, "torch": torch, "reticent": reticent, "parameters": [torch.ones(3)]})
    assert find_problems(model) == []
    GradientEngine(model, max_grad_norm=1.0).detach()


def test_a_sound_model_has_no_problem():
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(4, 2))
    assert find_problems(model) == []
    assert not parametrize.is_parametrized(model)


def test_a_lazy_model_runs_a_batch_first():
    model = nn.Sequential(nn.LazyLinear(3))
    (problem,) = find_problems(model)
    exec(problem.change, {"model": model, "batch": torch.ones(2, 4)})
    assert find_problems(model) == []


def test_all_problems_come_at_once():
    model = nn.Sequential(nn.BatchNorm2d(4), nn.RNN(2, 2), nn.InstanceNorm1d(3, track_running_stats=True))
    assert [p.kind for p in find_problems(model)] == ["RNN", "BatchNorm2d", "InstanceNorm1d"]
