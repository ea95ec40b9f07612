"""A model that is trained keeps nothing of its batches: batch norm, buffers and state of its own are refused."""

import itertools

import pytest
import torch
from private_loops import PrivateLoop, cross_entropies, network, rows
from torch import nn

from pipelines.dp.errors import IsolationError, NotFiniteError
from pipelines.dp.gradients import GradientEngine

NORMS = {
    "batch norm below everything": lambda: nn.Sequential(nn.BatchNorm1d(3, affine=False), network()),
    "frozen batch norm in the middle": lambda: network(nn.BatchNorm1d(4).requires_grad_(False)),
    "batch norm without statistics": lambda: network(nn.BatchNorm1d(4, affine=False, track_running_stats=False)),
    "synchronised batch norm": lambda: network(nn.SyncBatchNorm(4, affine=False)),
    "instance norm with statistics": lambda: network(
        nn.Unflatten(1, (2, 2)), nn.InstanceNorm1d(2, track_running_stats=True), nn.Flatten()
    ),
}


@pytest.mark.parametrize("kind", NORMS)
def test_norms_over_the_batch_are_refused_by_name(kind):
    """Guards clipping and the release: batch norm couples values, and its statistics are published un-noised."""
    with pytest.raises(IsolationError, match=r"layer '[\d.]+' \((Sync)?(Batch|Instance)Norm.*eval\(\)"):
        PrivateLoop(model=NORMS[kind]())
    model = NORMS[kind]().eval()  # and the loop calls train()
    if kind == "batch norm without statistics":
        with pytest.raises(IsolationError, match="eval"):
            PrivateLoop(model=model)
        return
    loop = PrivateLoop(lambda m, batch: cross_entropies(m.train(), batch), model=model)
    with pytest.raises(IsolationError, match="Norm"):
        loop.run()
    assert loop.took_nothing()


def test_batch_norm_in_eval_mode_and_instance_norm_without_statistics_train():
    for layer in (nn.BatchNorm1d(4).requires_grad_(False).eval(), nn.Identity()):
        assert PrivateLoop(model=network(layer)).run().engine.num_steps == 3
    model = network(nn.Unflatten(1, (2, 2)), nn.InstanceNorm1d(2), nn.Flatten())
    assert PrivateLoop(model=model).run().engine.num_steps == 3


class Remembering(nn.Module):
    """Keeps a mean of what it saw, and does nothing with it."""

    def __init__(self, how):
        super().__init__()
        self.how, self.calls = how, 0
        self.register_buffer("mean", torch.zeros(4))
        self.frozen = nn.Parameter(torch.zeros(4), requires_grad=False)

    def forward(self, x):
        self.calls += 1
        found = x.detach().mean(0)
        if self.how == "in place":
            self.mean.mul_(0.9).add_(0.1 * found)
        elif self.how == "another tensor":
            self.mean = 0.9 * self.mean + 0.1 * found
        elif self.how == "data":
            self.mean.data.copy_(found)
        elif self.how == "a frozen parameter":
            self.frozen.data.copy_(found)
        elif self.how == "a new buffer":
            self.register_buffer("late", found)
        elif self.how == "later" and self.calls > 20:
            self.mean.copy_(found)
        return x


@pytest.mark.parametrize("how", ["in place", "another tensor", "data", "a frozen parameter", "a new buffer", "later"])
def test_a_module_that_keeps_what_it_saw_is_refused(how):
    """Guards the release: buffers are saved with the model, and hold private values without noise."""
    loop = PrivateLoop(model=network(Remembering(how)))
    with pytest.raises(IsolationError, match=r"1\.(mean|frozen|late)"):
        loop.run(epochs=6)
    if how != "later":
        assert loop.took_nothing()


def test_the_engine_alone_traces_every_pair():
    """Guards the middle of a batch: each example, coupled to each other one through the graph."""
    for first, second in itertools.permutations(range(5), 2):
        engine = GradientEngine(network(), max_grad_norm=1.0)
        with engine.recording():
            losses = cross_entropies(engine.model, rows()[:5])
            weights = torch.eye(5)
            weights[first, second] = 1e-3
        with pytest.raises(IsolationError, match="another example"):
            engine.backward(weights @ losses)
        assert not any(s.any() for s in engine.take_sums())


def test_the_engine_alone_watches_buffers_too():
    model = network(Remembering("in place"))
    engine = GradientEngine(model, max_grad_norm=1.0)
    with engine.recording():
        losses = cross_entropies(model, rows()[:4])
    with pytest.raises(IsolationError, match=r"1\.mean"):
        engine.backward(losses)
    assert not any(s.any() for s in engine.take_sums())


def test_embeddings_that_renormalise_are_refused_when_frozen_too():
    """Guards the release: `max_norm` rewrites the rows of the tokens that were looked up."""
    model = nn.Sequential(nn.Embedding(5, 3, max_norm=1.0).requires_grad_(False), nn.Linear(3, 2))
    with pytest.raises(IsolationError, match="max_norm"):
        GradientEngine(model, max_grad_norm=1.0)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_batch_that_is_not_finite_counts_for_no_trace(value):
    """Gradients that are not finite show no coupling: it must be looked for in the next batch."""

    class Coupled(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x):
            h = self.layer(x)
            return h - h.mean(0)

    model, x = Coupled(), torch.randn(4, 3)
    engine = GradientEngine(model, max_grad_norm=1.0)
    for scale, error in ((value, NotFiniteError), (1.0, IsolationError)):
        with engine.recording(4):
            losses = model(x).square().sum(1) * scale
        with pytest.raises(error):
            engine.backward(losses)
    assert not any(total.any() for total in engine.take_sums())
