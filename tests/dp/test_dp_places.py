"""An example's loss and gradient do not depend on its place in the batch: what looks at places is found."""

import pytest
import torch
from engine_models import Backward, TinyLM
from private_loops import PrivateLoop, Texts, by_targets, cross_entropies, network, padded, rows
from torch import nn
from torch.utils.data import default_collate

from pipelines.dp.compositions import compose
from pipelines.dp.errors import IsolationError
from pipelines.dp.gradients import GradientEngine
from pipelines.dp.isolation import check_isolation


def numbers(losses):
    return torch.arange(len(losses), dtype=losses.dtype)


PLACES = {
    "every other row": lambda losses: losses * (numbers(losses) % 2),
    "row numbers": lambda losses: losses * (1 + numbers(losses)),
    "the first row": lambda losses: torch.cat([2 * losses[:1], losses[1:]]),
    "the last row": lambda losses: torch.cat([losses[:-1], 0 * losses[-1:]]),
    "the first half": lambda losses: losses * (1 + (numbers(losses) < 4)),
    "a Python number for each": lambda losses: torch.stack([loss * (1 + at % 3) for at, loss in enumerate(losses)]),
    "added, without gradient": lambda losses: losses + numbers(losses),
    "two of three": lambda losses: losses * (numbers(losses) % 3 > 0),
}


@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize("mode", ["book_keeping", "two_pass"])
def test_a_loss_that_depends_on_the_place_is_found(kind, mode):
    """Guards add-or-remove and amplification: one record more moves all that follow (29 C were measured)."""
    loop = PrivateLoop(lambda model, batch: PLACES[kind](cross_entropies(model, batch)), mode=mode)
    with pytest.raises(IsolationError, match="place in the batch"):
        loop.run()
    assert loop.took_nothing()
    assert loop.engine.num_steps == 0


def test_a_gradient_that_depends_on_the_place_is_found():
    """Guards what neither losses nor norms tell: the direction of a gradient."""
    layer = nn.Identity()
    layer.forward = lambda x: Backward.apply(x, lambda g: g * (1 - 2 * (torch.arange(len(g)) % 2))[:, None])
    loop = PrivateLoop(model=network(layer))
    with pytest.raises(IsolationError, match="place in the batch"):
        loop.run()
    assert loop.took_nothing()


def test_a_collate_function_that_looks_at_places_is_found():
    """Guards what happens before the model."""

    def every_other_one_turned(items):
        return default_collate([(-x if at % 2 else x, y) for at, (x, y) in enumerate(items)])

    loop = PrivateLoop(collate_fn=every_other_one_turned)
    with pytest.raises(IsolationError, match="place in the batch"):
        loop.run()
    assert loop.took_nothing()


@pytest.mark.parametrize("kept", [lambda at: at < 12, lambda at: (at < 12) | (at % 2 == 0)])
def test_places_of_larger_batches_are_compared_too(kept):
    """Guards places that only a batch of full size has."""

    def losses(model, batch):
        found = cross_entropies(model, batch)
        return found * kept(numbers(found))

    with pytest.raises(IsolationError, match="place in the batch"):
        PrivateLoop(losses, data=rows(60), batch_size=20).run()
    assert PrivateLoop(losses, data=rows(60), batch_size=20, limit=12).run().engine.num_steps == 3


def test_losses_that_do_not_look_at_places_train():
    """Guards against false alarms: records of many lengths, with and without dropout, and a sum over each example."""
    for dropout in (0.0, 0.4):
        model = TinyLM(layers=2, dropout=dropout)
        loop = PrivateLoop(by_targets, model=model, data=Texts(), collate_fn=padded).run()
        assert loop.engine.num_steps == 5
        assert not any("place of an example" in line for line in loop.engine.assumptions)
    assert PrivateLoop(batch_size=2).run().engine.num_steps == 12


def test_where_numbers_are_drawn_for_whole_batches_it_says_so():
    """Guards the list of assumptions: another row is given other random numbers, of the same law."""

    def noisy(model, batch):
        return cross_entropies(model, batch) * (1 + torch.rand(len(batch[0])))

    loop = PrivateLoop(noisy).run()
    assert any("place of an example" in line for line in loop.engine.assumptions)
    drawn = PrivateLoop(lambda model, batch: cross_entropies(model, batch) * (1 + torch.rand(()))).run()
    assert not any("place of an example" in line for line in drawn.engine.assumptions)


def test_a_loop_of_its_own_is_compared_too():
    """Guards `check_isolation`, which our own training calls."""
    items = [rows()[at] for at in range(24)]
    engine = GradientEngine(network(), max_grad_norm=1.0)

    def weighted(batch):
        return PLACES["row numbers"](cross_entropies(engine.model, batch))

    with pytest.raises(IsolationError, match="place in the batch"):
        check_isolation(engine, items, 8, 8, default_collate, weighted)
    assert not check_isolation(engine, items, 8, 8, default_collate, lambda b: cross_entropies(engine.model, b))


def test_every_record_of_the_first_batch_stands_at_another_place():
    """Guards the comparison itself."""
    found = compose([(torch.tensor(float(at)),) for at in range(40)], 10, 16, default_collate)
    moved = next(c for c in found if c.elsewhere is not None)
    reference, places = moved.elsewhere
    assert torch.equal(moved.batch[0], found[reference].batch[0][list(places)])
    assert all(at != place for at, place in enumerate(places))
