"""An example's loss and gradient depend on that example only: couplings of every kind are found; the rest trains."""

import copy
import random

import numpy as np
import pytest
import torch
from engine_models import Backward, TinyLM, fused, gpt2, per_token, seeded
from hypothesis import given
from hypothesis import strategies as st
from private_loops import PrivateLoop, Texts, by_targets, cross_entropies, network, padded, rows, weights
from support import REPOSITORY
from torch import nn
from torch.utils.data import DataLoader

from pipelines.dp import privacy
from pipelines.dp.compositions import separating_sets
from pipelines.dp.errors import IsolationError
from pipelines.dp.language import causal_lm_losses


@given(count=st.integers(0, 300))
def test_every_ordered_pair_is_separated(count):
    """Guards "every example": for each i and each other j some set holds i and not j."""
    sets = separating_sets(count)
    assert sets.shape[1] == count
    apart = (sets[:, :, None] & ~sets[:, None, :]).any(dim=0)
    assert bool((apart | torch.eye(count, dtype=torch.bool)).all())
    assert len(sets) <= 11


class Coupled(nn.Module):
    """A network whose examples may be coupled; ``kind`` says how."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.body = network()
        self.seen = None

    def forward(self, x):
        return self.couple(x, self.body(x))

    def couple(self, x, out):
        kind = self.kind
        if kind == "none":
            return out
        if kind == "mean":
            return out - out.mean(0)
        if kind == "detached mean":
            return out / out.detach().abs().mean(0)
        if kind == "number of the batch's mean":
            return out / (1 + abs(out.mean().item()))
        if kind == "count":
            return out / (x > 0).sum()
        if kind == "decision":
            return out if (x > 1).any() else out * 2
        if kind == "largest":
            return out / x.abs().amax()
        if kind == "neighbour":
            return out + 0.1 * out.roll(1, 0).detach()
        if kind == "one pair, by gradient":
            scale = torch.zeros(len(out), len(out))
            if len(out) > 3:
                scale[2, 3] = 0.1
            return out + scale @ out
        if kind == "one pair, by value":
            if len(out) <= 3:
                return out
            return torch.cat([out[:2], out[2:3] * out[3:4].detach().sigmoid(), out[3:]])
        if kind == "numpy":
            return out * float(np.abs(x.numpy()).mean())
        if kind == "state":
            before, self.seen = self.seen, out.detach().mean(0)
            return out if before is None else out - before
        if kind == "gradient scaled by the batch's norm":
            return Backward.apply(out, lambda g: g / g.norm())
        raise AssertionError(kind)


class _Turned(torch.autograd.Function):
    """Neither losses nor norms tell: the direction of every gradient depends on who else is there."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        angle = x.mean()
        turn = torch.stack([torch.stack([angle.cos(), -angle.sin()]), torch.stack([angle.sin(), angle.cos()])])
        return gradient @ turn


COUPLINGS = [
    "mean", "detached mean", "number of the batch's mean", "count", "decision", "largest", "neighbour",
    "one pair, by gradient", "one pair, by value", "numpy", "state", "gradient scaled by the batch's norm",
]  # fmt: skip


@pytest.mark.parametrize("kind", COUPLINGS)
@pytest.mark.parametrize("mode", ["book_keeping", pytest.param("two_pass", marks=pytest.mark.slow)])
def test_examples_that_are_coupled_are_found(kind, mode):
    """Guards clipping: a coupled example's clipped gradient moves with every other record (28 C were measured)."""
    loop = PrivateLoop(model=Coupled(kind), mode=mode)
    with pytest.raises(IsolationError):
        loop.run()
    assert loop.took_nothing()
    assert loop.engine.num_steps == 0


@pytest.mark.parametrize("mode", ["book_keeping", "two_pass"])
def test_a_direction_that_depends_on_others_is_found(mode):
    """Guards what neither losses nor norms tell: by it, one record moves each of the others' shares by up to 2 C."""
    layer = nn.Identity()
    layer.forward = _Turned.apply
    loop = PrivateLoop(model=nn.Sequential(nn.Linear(3, 2), layer), mode=mode)
    with pytest.raises(IsolationError, match="other examples"):
        loop.run()
    assert loop.took_nothing()


def test_without_coupling_the_same_network_trains():
    assert PrivateLoop(model=Coupled("none")).run().engine.num_steps == 3


LOSSES = {
    "detached mean": lambda losses, batch: losses / losses.detach().mean(),
    "number": lambda losses, batch: losses / losses.mean().item(),
    "records of a class": lambda losses, batch: losses / batch[1].sum().clamp(min=1),
    "softmax weights": lambda losses, batch: losses * losses.detach().softmax(0),
    "added, without gradient": lambda losses, batch: losses + losses.detach().mean(),
    "number of examples": lambda losses, batch: losses / len(losses),
    "ranks": lambda losses, batch: losses * losses.detach().argsort().argsort(),
    "one pair": lambda losses, batch: losses * torch.where(torch.arange(len(losses)) == 5, losses[4:5].detach(), 1.0),
}


@pytest.mark.parametrize("kind", LOSSES)
def test_losses_that_are_coupled_in_the_loop_are_found(kind):
    """Guards what stands between the model and `backward`: normalisation over the batch, weights, ranks."""
    loop = PrivateLoop(lambda model, batch: LOSSES[kind](cross_entropies(model, batch), batch))
    with pytest.raises(IsolationError, match="other examples"):
        loop.run()
    assert loop.took_nothing()


def test_a_coupling_that_begins_in_larger_batches_is_found():
    """Guards batches of the usual size: one of them is compared too."""

    def losses(model, batch):
        found = cross_entropies(model, batch)
        return found if len(found) < 16 else found / found.detach().mean()

    with pytest.raises(IsolationError, match="other examples"):
        PrivateLoop(losses, batch_size=16).run()
    with pytest.raises(IsolationError, match="other examples"):
        PrivateLoop(losses, batch_size=24, limit=16).run()
    assert PrivateLoop(losses, batch_size=24, limit=12).run().engine.num_steps == 1


def by_padded_length(model, ids):
    labels = ids[:, 1:].masked_fill(ids[:, 1:] == 0, -100)
    token = nn.functional.cross_entropy(model(ids)[:, :-1].transpose(1, 2), labels, reduction="none")
    return token.mean(1)


def test_a_mean_over_padding_is_found():
    """Guards against `losses.mean(dim=1)` over padded positions: the longest record then scales all gradients."""
    loop = PrivateLoop(by_padded_length, model=TinyLM(), data=Texts(), collate_fn=padded)
    with pytest.raises(IsolationError, match="other examples"):
        loop.run()
    assert loop.took_nothing()


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("limit", [None, 1, 3])
def test_padded_texts_train_with_dropout(dropout, limit):
    """Guards against false alarms: dropout draws other masks for other lengths, and is no coupling."""
    model = TinyLM(layers=2, dropout=dropout)
    loop = PrivateLoop(by_targets, model=model, data=Texts(), collate_fn=padded, limit=limit).run()
    assert loop.engine.num_steps == 5
    assert model.lstm.dropout == dropout


def test_a_language_model_with_dropout_trains():
    model = gpt2(vocab=11, positions=16)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.1
    loop = PrivateLoop(
        lambda m, ids: causal_lm_losses(m, ids, ids.masked_fill(ids == 0, -100)), model=model, data=Texts(),
        collate_fn=padded,
    )  # fmt: skip
    assert loop.run().engine.num_steps == 5
    assert all(module.p == 0.1 for module in model.modules() if isinstance(module, nn.Dropout))


def test_masks_that_a_collate_function_draws_are_no_coupling():
    """Random masks for a padded batch: their number depends on the longest record, their law does not."""

    def masked(texts):
        ids = padded(texts)
        return ids, (torch.rand(ids.shape) < 0.5) & (ids > 0)

    def losses(model, batch):
        ids, hidden = batch
        return per_token(model(ids.masked_fill(hidden, 0)), ids.masked_fill(~hidden, -100))

    with seeded(1):
        loop = PrivateLoop(losses, model=TinyLM(), data=Texts(shortest=20), collate_fn=masked).run()
    assert loop.engine.num_steps == 5
    assert any("padded length" in line for line in loop.engine.assumptions)
    # And where all records are of one length, nothing is left open.
    loop = PrivateLoop(losses, model=TinyLM(), data=Texts().texts[4::7], collate_fn=masked, batch_size=2).run()
    assert not any("padded length" in line for line in loop.engine.assumptions)


@pytest.mark.parametrize("source", ["torch", "numpy", "python"])
def test_random_numbers_of_any_source_are_repeated_and_given_back(source):
    draw = {
        "torch": lambda: float(torch.rand(())),
        "numpy": lambda: np.random.random(),
        "python": random.random,
    }[source]

    def losses(model, batch):
        return cross_entropies(model, batch) * (1 + draw())

    loop = PrivateLoop(losses)
    states = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
    for batch in loop.loader:
        if not loop.optimizer.is_probing:
            break
        loop.optimizer.backward(losses(loop.model, batch))
        loop.optimizer.step()
    assert not loop.handed
    found = torch.get_rng_state()
    torch.set_rng_state(states[0])
    iter(DataLoader(rows()))  # as ever, an epoch of a loader takes a seed
    assert torch.equal(torch.get_rng_state(), found)
    assert np.random.get_state()[1].tolist() == states[1]
    assert random.getstate() == states[2]


def test_a_loop_may_draw_between_batches():
    loop = PrivateLoop(lambda model, batch: cross_entropies(model, batch) * (1 + torch.rand(())))
    for batch in loop.loader:
        loop.optimizer.backward(loop.losses_of(loop.model, batch))
        loop.optimizer.step()
        torch.rand(())
    assert loop.engine.num_steps == 3


def test_randomness_that_cannot_be_repeated_is_refused_with_what_to_do():
    own = torch.Generator().manual_seed(1)
    loop = PrivateLoop(lambda m, batch: cross_entropies(m, batch) * (1 + torch.rand((), generator=own)))
    with pytest.raises(IsolationError, match="a second time"):
        loop.run()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_reduced_precision_is_no_coupling_and_hides_none(dtype):
    model = gpt2(vocab=11, positions=16).to(torch.float64 if dtype == torch.float64 else torch.float32)

    def losses(m, ids):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
            return causal_lm_losses(m, ids, ids.masked_fill(ids == 0, -100))

    def coupled(m, ids):
        found = losses(m, ids)
        return found / found.detach().mean()

    loop = PrivateLoop(losses, model=copy.deepcopy(model), data=Texts(), collate_fn=padded).run()
    assert loop.engine.num_steps == 5
    with pytest.raises(IsolationError, match="other examples"):
        PrivateLoop(coupled, model=model, data=Texts(), collate_fn=padded).run()


# ---------------------------------------------------------------------------------------------------- cost and limits


def test_only_the_first_batches_are_compared():
    """Guards speed: after the comparison a batch is one forward and one backward pass, till the first later one."""
    model = network()
    loop = PrivateLoop(model=model)
    passes = []
    model.register_forward_hook(lambda *_: passes.append(loop.optimizer.is_probing))
    pending = loop.loader._num_left_to_compare()
    loop.run(epochs=2)
    assert passes == [True] * pending + [False] * 6
    assert 2 < pending <= 10
    assert loop.loader._num_left_to_compare() == 0


def test_the_comparison_leaves_no_trace_in_weights_or_samples(patch):
    """Guards samples, noise and dropout: they are those of a run that compares nothing."""

    def final():
        with seeded(3):
            loop = PrivateLoop(model=network(nn.Dropout(0.3)))
            num_compared = loop.loader._num_left_to_compare()
            loop.run(epochs=2)
        return weights(loop.model), loop.engine.num_steps, num_compared

    compared, num_steps, num_compared = final()
    patch.constant(privacy, "PROBE_SIZE", 0)
    plain, num_plain_steps, num_plain_compared = final()
    assert (num_compared > 0, num_plain_compared) == (True, 0)
    assert num_steps == num_plain_steps == 6
    assert torch.equal(compared, plain)


def test_weights_that_are_projected_after_each_step_are_compared_once_they_stand_still():
    """Projections are post-processing: at first they change the weights that training starts from."""
    loop = PrivateLoop()
    for batch in loop.loader:
        loop.optimizer.backward(cross_entropies(loop.model, batch))
        loop.optimizer.step()
        with torch.no_grad():
            for parameter in loop.model.parameters():
                parameter.clamp_(-0.1, 0.1)
    assert loop.engine.num_steps == 3


@pytest.mark.parametrize(("is_before", "message"), [(True, "the forward pass changed"), (False, "batch to batch")])
def test_weights_that_something_else_trains_are_refused(is_before, message):
    """Guards against a second optimizer in the loop, whose gradients have no noise."""
    model = network(nn.PReLU(4).requires_grad_(False))
    loop = PrivateLoop(model=model)

    def train_beside(batch):
        model[1].weight.data.add_(batch[0].mean(), alpha=0.1)

    def loop_with_another_optimizer():
        for batch in loop.loader:
            if is_before:
                train_beside(batch)
            loop.optimizer.backward(cross_entropies(model, batch))
            loop.optimizer.step()
            if not is_before:
                train_beside(batch)

    with pytest.raises(IsolationError, match=message):
        loop_with_another_optimizer()
    assert loop.took_nothing()


@pytest.mark.parametrize("kind", ["book_keeping", "two_pass"])
def test_a_tied_head_is_compared(kind):
    data = [(t[:4], t[1:5]) for t in Texts().texts if len(t) >= 5]

    def losses(model, batch):
        return fused(model, {"ids": batch[0], "labels": batch[1]})

    loop = PrivateLoop(losses, model=TinyLM(tied=True), data=data, mode=kind).run()
    assert loop.engine.num_steps == len(loop.handed) > 0

    def coupled(model, batch):
        found = losses(model, batch)
        return found / found.detach().mean()

    with pytest.raises(IsolationError):
        PrivateLoop(coupled, model=TinyLM(tied=True), data=data, mode=kind).run()


def test_what_is_not_checked_is_said_in_words():
    """Guards the docs: every assumption of the engine is a line of docs/engine.md."""
    page = " ".join((REPOSITORY / "docs" / "engine.md").read_text().split())
    lines = PrivateLoop().engine.assumptions
    assert len(lines) >= 6
    for line in lines:
        assert line[1:] in page
