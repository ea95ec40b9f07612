"""Programs that try to get a wrong sum accepted. Each is either exact or refused, and the count of wrong ones is 0.

A program runs as in training: examples are compared, a batch is clipped, the program may change, examples are compared
again, and another batch is clipped. What is accepted is compared with one example at a time, each alone in its batch.
"""

import copy

import numpy as np
import pytest
import torch
from engine_models import Backward, seeded
from oracles import dp_gradients
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from torch.utils.data import default_collate

from pipelines.dp.errors import IsolationError, LossError, UnsupportedLayerError
from pipelines.dp.gradients import GradientEngine
from pipelines.dp.isolation import check_again, check_isolation

THRESHOLD = 0.7  # some of the batches have an example above it
LENGTH = 5  # positions; one of the batches that are clipped has as many examples


class Net(nn.Module):
    """Layers around a program, which is a function of the net and of hidden states (B, T, 4)."""

    def __init__(self, program):
        super().__init__()
        self.program, self.is_late, self.kept, self.calls = program, False, None, 0
        self.first, self.mid, self.other, self.last = (nn.Linear(a, b) for a, b in ((3, 4), (4, 4), (4, 4), (4, 2)))
        self.norm, self.table, self.batch_norm = nn.LayerNorm(4), nn.Embedding(9, 4), nn.Identity()
        self.experts = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])

    def forward(self, x):
        return self.last(self.program(self, torch.tanh(self.first(x))))


def hooked(h, change):
    h.register_hook(change)
    return h


def rows_of(net, h, layer="mid"):
    return getattr(net, layer)(h.reshape(-1, 4)).view(h.shape)


def by_time(net, h):
    """Rows of one position of all examples stand together."""
    return net.other(h.transpose(0, 1).reshape(-1, 4)).view(h.shape[1], -1, 4).transpose(0, 1)


def mixed_attention(net, h):
    return functional.scaled_dot_product_attention(h.mT, h.mT, h.mT).mT + centred(net, h)


def detached(net, h):
    return h - h.detach().mean(0)


def taken_for_examples(net, h):
    return rows_of(net, h.transpose(0, 1).contiguous()).reshape(h.shape)


def packed(net, h, mixes=False):
    lengths = 1 + (h.detach()[:, 0, 0] > 0).long() + 2 * (h.detach()[:, 0, 1] > 0).long()
    is_kept = torch.arange(h.shape[1]) < lengths[:, None]
    tokens = net.norm(net.mid(h[is_kept]))
    if mixes:
        tokens = tokens + tokens.cumsum(0)
    return torch.zeros_like(h).masked_scatter(is_kept[..., None].expand_as(h), tokens)


def permuted(net, h, restores=True):
    order = torch.arange(len(h)).roll(1)
    out = net.mid(h[order])
    return out[order.argsort()] if restores else out


def stateful(net, h):
    before, net.kept = net.kept, h.detach().mean()
    return h if before is None else h * (1 + before)


def routed(net, h):
    flat = h.reshape(-1, 4)
    chosen = flat.detach()[:, 0] > 0
    out = torch.zeros_like(flat)
    for expert, is_mine in zip(net.experts, (chosen, ~chosen), strict=True):
        index = is_mine.nonzero()[:, 0]
        out = out.index_add(0, index, expert(flat[index]))
    return out.view(h.shape)


def written(net, h):
    with torch.no_grad():
        net.mid.weight.data.mul_(1 + 0.01 * h.mean())
    return net.mid(h)


def halved(net, h):
    return torch.func.functional_call(net.mid, {n: p / 2 for n, p in net.mid.named_parameters()}, (h,))


def shadowed(net, h):
    net.mid.__dict__["weight"] = net.mid._parameters["weight"] * 2
    try:
        return net.mid(h)
    finally:
        del net.mid.__dict__["weight"]


def overwritten(net, h):
    out = net.mid(h)
    h.mul_(2)
    return out + h


def in_checkpoint(change, **how):
    return lambda net, h: checkpoint(lambda value: change(net, net.mid(value)), h, use_reentrant=how["reentrant"])


def late(change):
    """What begins after the first batch."""
    return lambda net, h: change(net, net.mid(h)) if net.is_late else net.mid(h)


def centred(net, h):
    return h - h.mean(0)


def by_row(h):
    return torch.arange(1, len(h) + 1, dtype=h.dtype)[:, None, None]


PROGRAMS = {
    # couplings in the graph, and through values alone
    "mean of the batch": centred,
    "detached mean": lambda net, h: h - h.detach().mean(0),
    "number of the mean": lambda net, h: h * (1 + h.mean().item()),
    "numpy": lambda net, h: h * float(np.abs(h.detach().numpy()).mean()),
    "deviation of the batch": lambda net, h: h / h.detach().std(0),
    "largest": lambda net, h: h / h.detach().abs().amax(),
    "functional batch norm": lambda net, h: functional.batch_norm(h.transpose(1, 2), None, None, training=True).mT,
    "running sum": lambda net, h: h.cumsum(0),
    "reversed running sum": lambda net, h: h.flip(0).cumsum(0),
    "neighbour": lambda net, h: h + h.roll(1, 0),
    "detached neighbour": lambda net, h: h + 0.1 * h.detach().roll(1, 0),
    "softmax over the batch": lambda net, h: h * h.softmax(0),
    "ranks": lambda net, h: h * h.detach().argsort(0).argsort(0),
    "count": lambda net, h: h / (h > 0).sum(),
    "decision": lambda net, h: h * 2 if bool((h.detach()[:, 0, 0] > THRESHOLD).any()) else h,
    "number of examples": lambda net, h: h / len(h),
    "row numbers": lambda net, h: h * by_row(h),
    "first row": lambda net, h: torch.cat([2 * h[:1], h[1:]]),
    "state between batches": stateful,
    "similarities of examples": lambda net, h: torch.einsum("atd,btd,btd->atd", h, h, h),
    "attention over the batch": mixed_attention,
    # couplings in the backward pass alone
    "gradient by the norm of the batch": lambda net, h: Backward.apply(h, lambda g: g / g.norm()),
    "gradient of the neighbour": lambda net, h: Backward.apply(h, lambda g: g.roll(1, 0)),
    "gradient by row": lambda net, h: Backward.apply(h, lambda g: g * by_row(g)),
    "hook by the norm of the batch": lambda net, h: hooked(net.mid(h), lambda g: g / g.norm()),
    "hook of the mean": lambda net, h: hooked(net.mid(h), lambda g: g - g.mean(0)),
    # rows, orders and shapes
    "rows": rows_of,
    "rows, then an activation": lambda net, h: net.other(torch.relu(net.norm(h.reshape(-1, 4)))).view(h.shape),
    "rows of a transposed copy, restored": by_time,
    "rows of a transposed copy, taken for examples": taken_for_examples,
    "rows in reverse": lambda net, h: net.mid(h.reshape(-1, 4).flip(0)).flip(0).view(h.shape),
    "rows in reverse, not restored": lambda net, h: net.mid(h.reshape(-1, 4).flip(0)).view(h.shape),
    "rows rolled by one": lambda net, h: net.mid(h.reshape(-1, 4).roll(1, 0)).view(h.shape),
    "rows of detached states": lambda net, h: h + by_time(net, h.detach()),
    "time first": lambda net, h: net.mid(h.transpose(0, 1)).transpose(0, 1),
    "time first, taken for examples": lambda net, h: h + net.mid(h.transpose(0, 1)).reshape(h.shape),
    "permutation, restored": permuted,
    "permutation, not restored": lambda net, h: permuted(net, h, restores=False),
    "packed": packed,
    "packed, mixing": lambda net, h: packed(net, h, mixes=True),
    "experts by token": routed,
    "half of the batch": lambda net, h: torch.cat([net.mid(h[: len(h) // 2]), net.other(h[len(h) // 2 :])]),
    "example by example": lambda net, h: torch.cat([net.mid(part) for part in h.split(1)]),
    "one table for the batch": lambda net, h: h + net.table(torch.arange(LENGTH).expand(LENGTH, LENGTH)).mean(0),
    "positions without examples": lambda net, h: h + net.table(torch.arange(LENGTH)),
    # weights
    "shared module": lambda net, h: net.mid(torch.tanh(net.mid(h))),
    "weight read": lambda net, h: functional.linear(h, net.mid.weight),
    "weight read, and its layer": lambda net, h: functional.linear(net.mid(h), net.mid.weight),
    "view of a weight": lambda net, h: h @ net.mid.weight.t()[:, :4].reshape(4, 4),
    "part of a weight": lambda net, h: net.mid(h) * net.mid.weight[0],
    "weight of the first layer": lambda net, h: h + net.first.weight.mean() * net.norm(h),
    "penalty": lambda net, h: h + net.mid.weight.square().sum(),
    "penalty by the mean of the batch": lambda net, h: h + net.mid.weight.square().sum() * h.detach().mean(),
    "weight changed": written,
    "weight halved by a functional call": halved,
    "weight shadowed": shadowed,
    "states changed in place": lambda net, h: net.mid(h).relu_().mul_(2),
    "input changed in place": overwritten,
    "output written over": lambda net, h: net.mid(h).index_fill_(1, torch.tensor([0]), 0.0),
    # checkpoints
    "checkpoint": in_checkpoint(lambda net, h: h, reentrant=False),
    "checkpoint of the other kind": in_checkpoint(lambda net, h: h, reentrant=True),
    "checkpoint with a mean": in_checkpoint(centred, reentrant=False),
    "checkpoint of the other kind with a detached mean": in_checkpoint(detached, reentrant=True),
    "checkpoint of transposed rows": in_checkpoint(by_time, reentrant=True),
    # what begins late
    "late mean": late(centred),
    "late detached mean": late(lambda net, h: h - h.detach().mean(0)),
    "late permutation": late(permuted),
    "late neighbour": late(lambda net, h: h.roll(1, 0)),
    "late rows": late(lambda net, h: rows_of(net, h, "other")),
    "late transposed rows": late(by_time),
    "late packing": late(packed),
    "late time first": late(lambda net, h: net.other(h.transpose(0, 1)).transpose(0, 1)),
    "late weight read": late(lambda net, h: functional.linear(h, net.other.weight)),
    "late gradient by the norm": late(lambda net, h: Backward.apply(h, lambda g: g / g.norm())),
    "late weight changed": late(written),
    "larger batches": lambda net, h: h - h.detach().mean(0) if len(h) > 10 else h,
}  # fmt: skip


def aliased(net):
    net.other.weight = net.mid.weight


def normalised(net):
    net.batch_norm = nn.BatchNorm1d(LENGTH).double()


def same_storage(net):
    net.other.weight = nn.Parameter(net.mid.weight.data.view(4, 4))


def tied(net):
    net.last.weight = nn.Parameter(torch.randn(9, 4, dtype=torch.float64))
    net.last.bias = None
    net.table.weight = net.last.weight


CHANGES = {
    "aliased weight": (aliased, lambda net, h: net.other(torch.tanh(net.mid(h)))),
    "aliased weight, read": (aliased, lambda net, h: functional.linear(net.mid(h), net.other.weight)),
    "weights in one storage": (same_storage, lambda net, h: net.other(torch.tanh(net.mid(h)))),
    "tied head and a shared table": (tied, lambda net, h: h + net.table(torch.arange(LENGTH))),
    "batch norm": (normalised, lambda net, h: net.batch_norm(h)),
    "forward hook": (
        lambda net: net.mid.register_forward_hook(lambda module, args, out: out - out.detach().mean(0)),
        lambda net, h: net.mid(h),
    ),
    "backward hook": (
        lambda net: net.mid.register_full_backward_hook(lambda module, into, out: (into[0] / into[0].norm(),)),
        lambda net, h: net.mid(h),
    ),
    "frozen layers before rows in time": (
        lambda net: net.first.requires_grad_(False),
        by_time,
    ),
    "frozen layers before rows": (lambda net: net.first.requires_grad_(False), rows_of),
}  # fmt: skip

LOSSES = {
    "detached mean of losses": lambda found: found / found.detach().mean(),
    "losses by their number": lambda found: found / len(found),
    "sorted losses": lambda found: found.sort().values,
    "losses of two": lambda found: found + found.flip(0),
    "balance of the batch": lambda found: found + found.var(),
    "contrast with the next": lambda found: found * found.detach().roll(1),
    "a mean": lambda found: found.mean(),
    "more losses than examples": lambda found: found.repeat(2),
    "the first half": lambda found: found * (torch.arange(len(found)) < 4),
}


def losses_of(net, x, change=None):
    out = net(x)
    weights = torch.linspace(-1, 1, out[0].numel(), dtype=out.dtype).view(out.shape[1:])
    found = (torch.tanh(out) * weights + 0.1 * out**2).flatten(1).sum(1)
    return found if change is None else change(found)


def outcome(program, prepare=None, change=None):
    """Runs a program. Returns "exact", "refused", or "wrong" if an accepted sum is not that of single examples."""
    with seeded(3):
        net = Net(program).double()
        items = list(torch.randn(64, LENGTH, 3, dtype=torch.float64))
    try:
        if prepare is not None:
            prepare(net)
        engine = GradientEngine(net, max_grad_norm=0.5)

        def run(x):
            return losses_of(net, x, change)

        check_isolation(engine, items, 8, 16, default_collate, run)
        is_exact = [_is_exact(engine, net, run, torch.stack(items[:size])) for size in (8, LENGTH, 16)]
        net.is_late = True
        check_again(engine, items, 16, np.random.default_rng(0), default_collate, run)
        is_exact += [_is_exact(engine, net, run, torch.stack(items[size : 2 * size])) for size in (6, LENGTH, 16)]
    except (IsolationError, UnsupportedLayerError, LossError, RuntimeError) as error:
        if isinstance(error, RuntimeError):
            assert "inplace" in str(error), error
        return "refused"
    return "exact" if all(is_exact) else "wrong"


def _is_exact(engine, net, run, x):
    alone = copy.deepcopy(net)
    for module in alone.modules():  # of the engine's
        module.__dict__.pop("forward", None)

    def loss(_, index):
        found = losses_of(alone, x[index : index + 1])
        return found[0]

    expected = dp_gradients.clipped_sum(dp_gradients.example_gradients(alone, loss, len(x)), 0.5)
    with engine.recording(len(x)):
        losses = run(x)
    engine.backward(losses)
    return dp_gradients.relative_error(engine.take_sums(), expected) < 1e-9


SOUND = {
    "rows", "rows, then an activation", "rows of a transposed copy, restored", "rows in reverse", "time first",
    "packed",    "rows of detached states", "experts by token", "example by example", "positions without examples",
    "shared module", "weight read", "weight read, and its layer", "view of a weight", "part of a weight",
    "weight of the first layer", "penalty", "output written over", "checkpoint",
    "checkpoint of the other kind", "late rows", "aliased weight", "aliased weight, read", "weights in one storage",
    "tied head and a shared table", "frozen layers before rows in time", "frozen layers before rows",
    "one table for the batch", "checkpoint of transposed rows", "late transposed rows", "late packing",
    "late time first",
}  # fmt: skip
"""Programs whose examples are independent, and that the engine trains. Others that are sound may be refused."""

ALL = {
    **{name: (program, None, None) for name, program in PROGRAMS.items()},
    **{name: (program, prepare, None) for name, (prepare, program) in CHANGES.items()},
    **{name: (lambda net, h: net.mid(h), None, change) for name, change in LOSSES.items()},
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_no_wrong_sum_is_accepted():
    found = {name: outcome(*program) for name, program in ALL.items()}
    assert len(found) >= 80
    assert [name for name, what in found.items() if what == "wrong"] == []
    assert {name for name, what in found.items() if what == "exact"} == SOUND
